//! Metric families with their points, and how samples are added.
//!
//! In: processes, groups, the node. Out: families with base units and Prometheus' names, without
//! rates (the collector computes them) and timestamps.

use crate::Layout;
use crate::object::{GroupHead, GroupSums, Object};
use monitor_model::{
    Category, Device, Group, GroupField, Grouped, Histogram, Latencies, Node, Process, ProgramLoss,
    Role, Sample, Unit,
};

/// Label names and values of a point.
pub type Labels = Vec<(&'static str, Box<str>)>;

/// All families of one scrape.
#[derive(Debug, Default)]
pub struct Exposition {
    /// The label sets; points refer to them by index.
    pub labels: Vec<Labels>,
    /// The families, in order.
    pub families: Vec<Family>,
}

/// The metric type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricType {
    /// A cumulative value that only grows.
    Counter,
    /// A value that can go up and down.
    Gauge,
    /// The constant 1, with labels as information.
    Info,
    /// A histogram of durations.
    Histogram,
}

/// A metric family.
#[derive(Debug)]
pub struct Family {
    /// The name without the suffix of its type (`_total`, `_info`).
    pub stem: String,
    /// The unit at the end of the name; empty without one.
    pub unit: &'static str,
    /// The help text, a sentence without a full stop.
    pub help: &'static str,
    /// The metric type.
    pub metric_type: MetricType,
    /// The points: index of the label set, and value.
    pub points: Vec<(usize, f64)>,
    /// The points of a histogram: index of the label set, and histogram.
    pub durations: Vec<(usize, Histogram)>,
}

impl Family {
    /// The name of a sample in the text formats.
    pub fn name(&self) -> String {
        match self.metric_type {
            MetricType::Counter => format!("{}_total", self.stem),
            MetricType::Info => format!("{}_info", self.stem),
            MetricType::Gauge | MetricType::Histogram => self.stem.clone(),
        }
    }
}

/// Name, unit, help and type of a family that is not from the field list.
pub type FamilyHead = (&'static str, &'static str, &'static str, MetricType);

impl Exposition {
    /// Adds a family. A family without points is left out.
    pub fn add(&mut self, head: FamilyHead, points: impl IntoIterator<Item = (Labels, f64)>) {
        let (stem, unit, help, metric_type) = head;
        let points =
            points.into_iter().map(|(labels, value)| (self.label(labels), value)).collect();
        let (stem, durations) = (stem.to_owned(), Vec::new());
        self.push(Family { stem, unit, help, metric_type, points, durations });
    }

    /// The same with a label on each point.
    pub fn labelled(mut self, name: &'static str, value: &str) -> Self {
        self.labels.iter_mut().for_each(|labels| labels.insert(0, (name, value.into())));
        self
    }

    /// Adds the points of another exposition, those of the same family together: a text format has
    /// each family once.
    pub fn merge(&mut self, other: Self) {
        let first = self.labels.len();
        self.labels.extend(other.labels);
        for mut family in other.families {
            family.points.iter_mut().for_each(|(index, _)| *index += first);
            family.durations.iter_mut().for_each(|(index, _)| *index += first);
            let is_same =
                |it: &&mut Family| it.stem == family.stem && it.metric_type == family.metric_type;
            match self.families.iter_mut().find(is_same) {
                Some(known) => {
                    known.points.append(&mut family.points);
                    known.durations.append(&mut family.durations);
                }
                None => self.families.push(family),
            }
        }
    }

    /// Adds a family, unless it has no points.
    fn push(&mut self, family: Family) {
        if !family.points.is_empty() || !family.durations.is_empty() {
            self.families.push(family);
        }
    }

    fn label(&mut self, labels: Labels) -> usize {
        self.labels.push(labels);
        self.labels.len() - 1
    }

    /// Adds version and backend of the monitor, and its lost records.
    pub fn add_reader(&mut self, sample: &Sample) {
        let (version, backend) = (env!("CARGO_PKG_VERSION").into(), sample.backend.name().into());
        let help = "Version of the monitor, and the backend that reads";
        let labels = vec![("version", version), ("backend", backend)];
        self.add(("monitor_build", "", help, MetricType::Info), [(labels, 1.0)]);
        let help = "Records that a BPF program had to drop";
        let head = ("monitor_lost_records", "", help, MetricType::Counter);
        self.add(head, sample.lost.iter().flat_map(loss_points));
    }

    /// Adds each process.
    pub fn add_processes(&mut self, processes: &[Process], layout: &Layout) {
        self.add_category("process", (processes, &layout.processes), |process| {
            let pid = process.id.pid.0.to_string().into();
            vec![("pid", pid), ("comm", process.comm().into())]
        });
    }

    /// Adds each group.
    pub fn add_groups(&mut self, grouped: &Grouped, layout: &Layout) {
        let heads: Vec<_> = grouped.groups.iter().map(GroupHead).collect();
        let fields: Vec<_> = GroupField::all().collect();
        self.add_category("group", (&heads, &fields), |it| group_labels(it.0));
        let sums: Vec<_> = grouped.groups.iter().map(GroupSums).collect();
        self.add_category("group", (&sums, &layout.group_fields()), |it| group_labels(it.0));
        if layout.histograms {
            self.add_latencies(&grouped.groups);
        }
    }

    /// Adds the node with its processors, disks and interfaces.
    pub fn add_node(&mut self, node: &Node, layout: &Layout) {
        self.add_category("node", (std::slice::from_ref(node), &layout.node), |_| Labels::new());
        let cpu = |(number, _): &(u32, _)| vec![("cpu", number.to_string().into())];
        self.add_category("cpu", (&node.cpus, &layout.cpus), cpu);
        self.add_category("disk", (&node.disks, &layout.disks), |it| device_labels("device", it));
        self.add_category("net", (&node.nets, &layout.nets), |it| device_labels("interface", it));
    }

    /// Adds the families of one category.
    fn add_category<O: Object>(
        &mut self,
        prefix: &str,
        (objects, fields): (&[O], &[O::Field]),
        label: impl Fn(&O) -> Labels,
    ) {
        let first = self.labels.len();
        self.labels.extend(objects.iter().map(label));
        for &field in fields {
            self.add_family(prefix, (objects, first), field);
        }
    }

    /// Adds the family of a field, unless no object has it.
    fn add_family<O: Object>(
        &mut self,
        prefix: &str,
        (objects, first): (&[O], usize),
        it: O::Field,
    ) {
        let field = it.field();
        let metric_type = match field.role {
            Role::Gauge => MetricType::Gauge,
            Role::Counter => MetricType::Counter,
            Role::Label | Role::RateOf(_) => return,
        };
        let scale = if field.unit == Unit::Nanoseconds { 1e9 } else { 1.0 };
        // Letters and texts are not numbers.
        let number = |object: &O| object.number(it)?.as_f64().filter(|it| it.is_finite());
        let points = objects.iter().zip(first..);
        let points = points.filter_map(|(it, index)| Some((index, number(it)? / scale))).collect();
        let ((stem, unit), help, durations) = (stem(prefix, it), field.help, Vec::new());
        self.push(Family { stem, unit, help, metric_type, points, durations });
    }

    /// Adds the block I/O and run-queue latencies of each group.
    fn add_latencies(&mut self, groups: &[Group]) {
        type Select = fn(&Latencies) -> &Option<Histogram>;
        const ALL: [(&str, &str, Select); 3] = [
            ("block_read_latency", "Block reads from submission to completion", |latencies| {
                &latencies.block_read
            }),
            ("block_write_latency", "Block writes, the same", |it| &it.block_write),
            ("run_queue_latency", "Waits for a processor", |it| &it.run_queue),
        ];
        for (name, help, histogram) in ALL {
            let counted =
                groups.iter().filter_map(|it| Some((it, histogram(&it.latencies).clone()?)));
            let durations =
                counted.map(|(group, it)| (self.label(group_labels(group)), it)).collect();
            self.push(Family {
                stem: format!("monitor_group_{name}_seconds"),
                unit: "seconds",
                help,
                metric_type: MetricType::Histogram,
                points: Vec::new(),
                durations,
            });
        }
    }
}

fn loss_points(lost: &ProgramLoss) -> [(Labels, f64); 2] {
    [("ring_full", lost.ring_full), ("table_full", lost.table_full)].map(|(cause, count)| {
        (vec![("program", (&*lost.program).into()), ("cause", cause.into())], count as f64)
    })
}

fn group_labels(group: &Group) -> Labels {
    vec![("by", group.by.name().into()), ("name", (&*group.name).into())]
}

fn device_labels<R>(label: &'static str, device: &Device<R>) -> Labels {
    vec![(label, (&*device.name).into())]
}

/// The name of a family in base units, and its unit.
fn stem<F: Category>(prefix: &str, it: F) -> (String, &'static str) {
    let field = it.field();
    let (name, unit) = match field.unit {
        Unit::Nanoseconds => (format!("{}_seconds", field.name.trim_end_matches("_ns")), "seconds"),
        Unit::Bytes => (field.name.to_owned(), "bytes"),
        _ => (field.name.to_owned(), ""),
    };
    (format!("monitor_{prefix}_{name}"), unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::field::{NodeField, ProcessField};

    #[test]
    fn names_follow_the_conventions() {
        let named = |it: (String, &'static str)| it;
        assert_eq!(
            named(stem("process", ProcessField::CpuTime)),
            ("monitor_process_cpu_seconds".into(), "seconds")
        );
        assert_eq!(
            named(stem("process", ProcessField::Rss)),
            ("monitor_process_rss_bytes".into(), "bytes")
        );
        assert_eq!(named(stem("node", NodeField::Load1)), ("monitor_node_load1".into(), ""));
    }

    #[test]
    fn a_family_without_a_point_is_left_out() {
        let mut it = Exposition::default();
        it.add(("monitor_x", "", "Nothing", MetricType::Gauge), []);
        assert!(it.families.is_empty());
    }
}
