//! Prometheus' text form: `monitor_process_cpu_seconds_total{pid="1",comm="init"} 2.5`.
//!
//! Families come from the field list: base units, `_total` on counters, no rates (Prometheus
//! computes them), no time stamps. `# EOF` closes a sample; to this form it is a comment.

use super::object::{Head, Object, Sums};
use super::{Format, Frame, Layout};
use crate::model::field::{Category, GroupField, Kind, Role, Unit};
use crate::model::group::Group;
use crate::model::sample::{Device, Process, Sample};
use std::fmt::Write;

/// Writes one exposition for each sample.
pub struct Prometheus {
    layout: Layout,
    /// The labels of the objects of one category, and where each ends.
    labels: String,
    ends: Vec<usize>,
    text: String,
}

impl Prometheus {
    /// With these fields.
    pub const fn new(layout: Layout) -> Self {
        Self { layout, labels: String::new(), ends: Vec::new(), text: String::new() }
    }

    /// The families of one category.
    fn category<O: Object>(
        &mut self,
        prefix: &str,
        (objects, fields): (&[O], &[O::Field]),
        label: impl Fn(&O, &mut String),
    ) {
        self.labels.clear();
        self.ends.clear();
        for object in objects {
            label(object, &mut self.labels);
            self.ends.push(self.labels.len());
        }
        for &field in fields {
            self.family(prefix, objects, field);
        }
    }

    /// One family, unless nobody has the field. Writing to a `String` cannot fail.
    fn family<O: Object>(&mut self, prefix: &str, objects: &[O], it: O::Field) {
        let field = it.field();
        let kind = match field.role {
            Role::Gauge if !matches!(field.kind, Kind::Letter | Kind::Text) => "gauge",
            Role::Counter => "counter",
            _ => return,
        };
        let name = name(prefix, it);
        let scale = if field.unit == Unit::Nanoseconds { 1e9 } else { 1.0 };
        let before = self.text.len();
        let _ = writeln!(self.text, "# HELP {name} {}\n# TYPE {name} {kind}", field.help);
        let headed = self.text.len();
        let mut start = 0;
        for (object, &end) in objects.iter().zip(&self.ends) {
            let value = object.number(it).and_then(|value| value.as_f64());
            if let Some(number) = value.filter(|number| number.is_finite()) {
                let labels = &self.labels[start..end];
                let _ = writeln!(self.text, "{name}{labels} {}", number / scale);
            }
            start = end;
        }
        if self.text.len() == headed {
            self.text.truncate(before);
        }
    }

    /// What is known of the monitor itself. Writing to a `String` cannot fail.
    fn own(&mut self, sample: &Sample) {
        let (version, backend) = (env!("CARGO_PKG_VERSION"), sample.source.name());
        let _ = writeln!(
            self.text,
            "# HELP monitor_build_info Version of the monitor, and the backend that reads\n\
             # TYPE monitor_build_info gauge\n\
             monitor_build_info{{version=\"{version}\",backend=\"{backend}\"}} 1\n\
             # HELP monitor_lost_records_total Records that a BPF program had to drop\n\
             # TYPE monitor_lost_records_total counter"
        );
        for lost in &sample.lost {
            for (cause, count) in [("ring_full", lost.ring_full), ("table_full", lost.table_full)] {
                let program = &lost.program;
                let _ = writeln!(
                    self.text,
                    "monitor_lost_records_total{{program=\"{program}\",cause=\"{cause}\"}} {count}"
                );
            }
        }
    }
}

impl Format for Prometheus {
    fn write(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) {
        let (layout, sample) = (self.layout.clone(), &frame.rates.sample);
        self.text.clear();
        self.own(sample);
        if let Some(grouped) = &frame.rates.groups {
            let heads: Vec<_> = grouped.groups.iter().map(Head).collect();
            let fields: Vec<_> = GroupField::all().collect();
            self.category("group", (&heads, &fields), |it, out| group(it.0, out));
            let sums: Vec<_> = grouped.groups.iter().map(Sums).collect();
            self.category("group", (&sums, &layout.of_groups()), |it, out| group(it.0, out));
        } else if layout.scope.processes() {
            self.category("process", (frame.processes, &layout.processes), process);
        }
        if let Some(node) = &sample.node_stats {
            self.category("node", (std::slice::from_ref(node), &layout.node), |_, _| ());
            self.category("cpu", (&node.cpus, &layout.cpus), |cpu, out| {
                labels(&[("cpu", &cpu.0.to_string())], out);
            });
            self.category("disk", (&node.disks, &layout.disks), device);
            self.category("net", (&node.nets, &layout.nets), interface);
        }
        self.text.push_str("# EOF\n");
        out.extend_from_slice(self.text.as_bytes());
    }
}

fn process(process: &Process, out: &mut String) {
    labels(&[("pid", &process.id.pid.0.to_string()), ("comm", &process.comm())], out);
}

fn group(group: &Group, out: &mut String) {
    labels(&[("by", group.by.name()), ("name", &group.name)], out);
}

fn device<R>(device: &Device<R>, out: &mut String) {
    labels(&[("device", &device.name)], out);
}

fn interface<R>(device: &Device<R>, out: &mut String) {
    labels(&[("interface", &device.name)], out);
}

/// Appends `{name="value",…}`; a backslash, a quote and a line feed are escaped.
fn labels(pairs: &[(&str, &str)], out: &mut String) {
    let mut before = '{';
    for (name, value) in pairs {
        out.push(before);
        before = ',';
        out.push_str(name);
        out.push_str("=\"");
        for letter in value.chars() {
            match letter {
                '\\' => out.push_str(r"\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str(r"\n"),
                _ => out.push(letter),
            }
        }
        out.push('"');
    }
    out.push('}');
}

/// The name of a family: base units, and `_total` on what only grows.
fn name<F: Category>(prefix: &str, it: F) -> String {
    let field = it.field();
    let (stem, unit) = match field.unit {
        Unit::Nanoseconds => (field.name.trim_end_matches("_ns"), "_seconds"),
        _ => (field.name, ""),
    };
    let total = if field.role == Role::Counter { "_total" } else { "" };
    format!("monitor_{prefix}_{stem}{unit}{total}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::field::{NodeField, ProcessField};

    #[test]
    fn names_follow_the_conventions() {
        assert_eq!(name("process", ProcessField::CpuTime), "monitor_process_cpu_seconds_total");
        assert_eq!(name("process", ProcessField::Rss), "monitor_process_rss_bytes");
        assert_eq!(name("node", NodeField::Load1), "monitor_node_load1");
    }

    #[test]
    fn labels_are_escaped() {
        let mut got = String::new();
        labels(&[("comm", "a\"b\\c\n")], &mut got);
        assert_eq!(got, r#"{comm="a\"b\\c\n"}"#);
    }
}
