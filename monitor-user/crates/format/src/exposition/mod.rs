//! Metrics before they are text: families of points, as every exposition of them needs them.
//!
//! In: a frame and its layout. Out: families with base units and Prometheus' names, no rates
//! (whoever collects computes them), no time stamps. How they are written stands in `text`,
//! `protobuf` and `otlp`, each of which walks the same families.

mod otlp;
mod protobuf;
mod text;

pub use text::{Dialect, text};

use super::Layout;
use super::object::{Head, Object, Sums};
use monitor_model::field::{Category, GroupField, Role, Unit};
use monitor_model::group::{Group, Grouped};
use monitor_model::histogram::{Histogram, Latencies};
use monitor_model::id::Ns;
use monitor_model::rates::Rates;
use monitor_model::sample::{Device, Lost, Node, Process, Sample};

/// Names and values that tell one point of a family from another.
pub type Labels = Vec<(&'static str, Box<str>)>;

/// All that is exposed at once.
#[derive(Debug, Default)]
pub struct Exposition {
    /// The sets of labels, which many points share.
    pub labels: Vec<Labels>,
    /// The families, in their order.
    pub families: Vec<Family>,
}

/// How an exposition is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Text, in one of its dialects.
    Text(Dialect),
    /// Prometheus' messages, with native histograms.
    Protobuf,
    /// OTLP metrics in JSON.
    Otlp,
}

/// What a family is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// One, with labels that say something.
    Info,
    /// Durations, counted by length.
    Histogram,
}

/// One family.
#[derive(Debug)]
pub struct Family {
    /// Its name without what the shape adds to it (`_total`, `_info`).
    pub stem: String,
    /// The unit that its name ends with; empty without one.
    pub unit: &'static str,
    /// What it means, in a sentence without a full stop.
    pub help: &'static str,
    /// What it is.
    pub shape: Shape,
    /// Its points: the place of the labels, and the value.
    pub points: Vec<(usize, f64)>,
    /// Its points, if it is of durations.
    pub durations: Vec<(usize, Histogram)>,
}

impl Family {
    /// The name of a point in the text forms.
    pub fn name(&self) -> String {
        match self.shape {
            Shape::Counter => format!("{}_total", self.stem),
            Shape::Info => format!("{}_info", self.stem),
            Shape::Gauge | Shape::Histogram => self.stem.clone(),
        }
    }
}

/// A family that is not of the field list: name, unit, meaning, shape.
pub type Heading = (&'static str, &'static str, &'static str, Shape);

impl Exposition {
    /// A family by itself. One without a point is left out.
    pub fn add(&mut self, head: Heading, points: impl IntoIterator<Item = (Labels, f64)>) {
        let (stem, unit, help, shape) = head;
        let points: Vec<_> =
            points.into_iter().map(|(it, value)| (self.label(it), value)).collect();
        if !points.is_empty() {
            let durations = Vec::new();
            let stem = stem.to_owned();
            self.families.push(Family { stem, unit, help, shape, points, durations });
        }
    }

    /// All of it, as it was at this time on this node.
    pub fn encode(&self, encoding: Encoding, node: &str, at: Ns) -> Vec<u8> {
        match encoding {
            Encoding::Text(dialect) => {
                let mut out = String::new();
                text(self, dialect, &mut out);
                out.into_bytes()
            }
            Encoding::Protobuf => protobuf::protobuf(self),
            Encoding::Otlp => otlp::otlp(self, otlp::Resource { node, at }),
        }
    }

    fn label(&mut self, labels: Labels) -> usize {
        self.labels.push(labels);
        self.labels.len() - 1
    }

    /// Who reads, in which version, and what he had to drop.
    pub fn reader(&mut self, sample: &Sample) {
        let (version, backend) = (env!("CARGO_PKG_VERSION").into(), sample.source.name().into());
        let help = "Version of the monitor, and the backend that reads";
        let labels = vec![("version", version), ("backend", backend)];
        self.add(("monitor_build", "", help, Shape::Info), [(labels, 1.0)]);
        let help = "Records that a BPF program had to drop";
        let head = ("monitor_lost_records", "", help, Shape::Counter);
        self.add(head, sample.lost.iter().flat_map(lost));
    }

    /// Processes one by one.
    pub fn processes(&mut self, processes: &[Process], layout: &Layout) {
        self.category("process", (processes, &layout.processes), |it| {
            let pid = it.id.pid.0.to_string().into();
            vec![("pid", pid), ("comm", it.comm().into())]
        });
    }

    /// Processes by group.
    pub fn groups(&mut self, grouped: &Grouped, layout: &Layout) {
        let heads: Vec<_> = grouped.groups.iter().map(Head).collect();
        let fields: Vec<_> = GroupField::all().collect();
        self.category("group", (&heads, &fields), |it| group(it.0));
        let sums: Vec<_> = grouped.groups.iter().map(Sums).collect();
        self.category("group", (&sums, &layout.of_groups()), |it| group(it.0));
        if layout.histograms {
            self.latencies(&grouped.groups);
        }
    }

    /// The node with its processors, disks and interfaces.
    pub fn node(&mut self, node: &Node, layout: &Layout) {
        self.category("node", (std::slice::from_ref(node), &layout.node), |_| Labels::new());
        let cpu = |(number, _): &(u32, _)| vec![("cpu", number.to_string().into())];
        self.category("cpu", (&node.cpus, &layout.cpus), cpu);
        self.category("disk", (&node.disks, &layout.disks), |it| device("device", it));
        self.category("net", (&node.nets, &layout.nets), |it| device("interface", it));
    }

    /// The families of one category.
    fn category<O: Object>(
        &mut self,
        prefix: &str,
        (objects, fields): (&[O], &[O::Field]),
        label: impl Fn(&O) -> Labels,
    ) {
        let first = self.labels.len();
        self.labels.extend(objects.iter().map(label));
        for &field in fields {
            self.family(prefix, (objects, first), field);
        }
    }

    /// One family, unless nobody has the field.
    fn family<O: Object>(&mut self, prefix: &str, of: (&[O], usize), it: O::Field) {
        let (objects, first) = of;
        let field = it.field();
        let shape = match field.role {
            Role::Gauge => Shape::Gauge,
            Role::Counter => Shape::Counter,
            Role::Label | Role::RateOf(_) => return,
        };
        let scale = if field.unit == Unit::Nanoseconds { 1e9 } else { 1.0 };
        // Letters and texts have no number.
        let number = |object: &O| object.number(it)?.as_f64().filter(|it| it.is_finite());
        let points = objects.iter().zip(first..);
        let points = points.filter_map(|(it, place)| Some((place, number(it)? / scale)));
        let points: Vec<_> = points.collect();
        if !points.is_empty() {
            let (stem, unit) = stem(prefix, it);
            let durations = Vec::new();
            self.families.push(Family { stem, unit, help: field.help, shape, points, durations });
        }
    }

    /// How long the requests of each group took, and how long it waited for a processor.
    fn latencies(&mut self, groups: &[Group]) {
        type Of = fn(&Latencies) -> &Option<Histogram>;
        const ALL: [(&str, &str, Of); 3] = [
            ("block_read_latency", "Block reads from submission to completion", |it| {
                &it.block_read
            }),
            ("block_write_latency", "Block writes, the same", |it| &it.block_write),
            ("run_queue_latency", "Waits for a processor", |it| &it.run_queue),
        ];
        for (name, help, of) in ALL {
            let there =
                groups.iter().filter_map(|it| Some((group(it), of(&it.latencies).clone()?)));
            let there: Vec<_> = there.collect();
            let durations: Vec<_> = there.into_iter().map(|(l, it)| (self.label(l), it)).collect();
            if !durations.is_empty() {
                self.families.push(Family {
                    stem: format!("monitor_group_{name}_seconds"),
                    unit: "seconds",
                    help,
                    shape: Shape::Histogram,
                    points: Vec::new(),
                    durations,
                });
            }
        }
    }
}

/// All that a frame shows.
pub fn of_frame(rates: &Rates, processes: &[Process], layout: &Layout) -> Exposition {
    let mut it = Exposition::default();
    it.reader(&rates.sample);
    match &rates.groups {
        Some(grouped) => it.groups(grouped, layout),
        None if layout.scope.processes() => it.processes(processes, layout),
        None => {}
    }
    if let Some(node) = &rates.sample.node_stats {
        it.node(node, layout);
    }
    it
}

fn lost(lost: &Lost) -> [(Labels, f64); 2] {
    [("ring_full", lost.ring_full), ("table_full", lost.table_full)].map(|(cause, count)| {
        (vec![("program", (&*lost.program).into()), ("cause", cause.into())], count as f64)
    })
}

fn group(group: &Group) -> Labels {
    vec![("by", group.by.name().into()), ("name", (&*group.name).into())]
}

fn device<R>(label: &'static str, device: &Device<R>) -> Labels {
    vec![(label, (&*device.name).into())]
}

/// The name of a family, in base units, and its unit.
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
        it.add(("monitor_x", "", "Nothing", Shape::Gauge), []);
        assert!(it.families.is_empty());
    }
}
