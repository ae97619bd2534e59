//! Families as text: the format of Prometheus, and OpenMetrics 1.0.
//!
//! In: families. Out: lines. The two differ in the name of counters in the header, in units and in
//! the end marker. Histograms have classic buckets, one per power of two.

use super::families::{Exposition, Family, Labels, MetricType};
use monitor_model::Histogram;
use monitor_protocol::terminal::is_active;
use std::fmt::Write;

/// The dialect of the text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `text/plain; version=0.0.4`.
    Prometheus,
    /// `application/openmetrics-text; version=1.0.0`.
    OpenMetrics,
}

/// All families and the end marker. Writing to a `String` cannot fail.
pub fn text(all: &Exposition, dialect: Dialect) -> String {
    let mut out = String::new();
    let labels: Vec<String> = all.labels.iter().map(braced).collect();
    for family in &all.families {
        head(family, dialect, &mut out);
        let name = family.name();
        for &(index, value) in &family.points {
            let _ = writeln!(out, "{name}{} {value}", labels[index]);
        }
        for (index, durations) in &family.durations {
            buckets(&name, &labels[*index], durations, &mut out);
        }
    }
    // A comment in the format of Prometheus.
    out.push_str("# EOF\n");
    out
}

fn head(family: &Family, dialect: Dialect, out: &mut String) {
    let (name, help) = (family.name(), family.help);
    let shape = match family.metric_type {
        MetricType::Counter => "counter",
        MetricType::Gauge => "gauge",
        MetricType::Histogram => "histogram",
        MetricType::Info if dialect == Dialect::OpenMetrics => "info",
        MetricType::Info => "gauge",
    };
    let _ = match dialect {
        Dialect::Prometheus => writeln!(out, "# HELP {name} {help}\n# TYPE {name} {shape}"),
        Dialect::OpenMetrics => {
            let (stem, unit) = (&family.stem, family.unit);
            let _ = writeln!(out, "# TYPE {stem} {shape}");
            if !unit.is_empty() {
                let _ = writeln!(out, "# UNIT {stem} {unit}");
            }
            writeln!(out, "# HELP {stem} {help}")
        }
    };
}

/// Writes cumulative counts per power of two. Durations are whole nanoseconds, so the largest one
/// of a bucket is its exact bound.
fn buckets(name: &str, labels: &str, durations: &Histogram, out: &mut String) {
    let open = match labels.strip_suffix('}') {
        Some(open) => format!("{open},"),
        None => "{".to_owned(),
    };
    let mut count = 0;
    for (highest, counted) in durations.by_power_of_two() {
        count += counted;
        let bound = highest.map_or_else(|| "+Inf".to_owned(), |ns| ns.seconds().to_string());
        let _ = writeln!(out, "{name}_bucket{open}le=\"{bound}\"}} {count}");
    }
    let _ = writeln!(out, "{name}_sum{labels} {}", durations.sum().seconds());
    let _ = writeln!(out, "{name}_count{labels} {count}");
}

/// `{name="value",…}`; a backslash, a quote and a line feed are escaped, and control characters
/// replaced by a text.
fn braced(pairs: &Labels) -> String {
    let mut out = String::new();
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
                // The format has no escape for others; a terminal would act on them.
                _ if is_active(letter) => {
                    out.push('\\');
                    out.extend(letter.escape_default());
                }
                _ => out.push(letter),
            }
        }
        out.push('"');
    }
    if !pairs.is_empty() {
        out.push('}');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::id::Ns;

    fn all() -> Exposition {
        let mut all = Exposition::default();
        let labels = |it: &str| vec![("name", it.into())];
        let head = ("monitor_x_seconds", "seconds", "Time", MetricType::Counter);
        all.add(head, [(labels("a"), 1.5), (labels("b"), 2.0)]);
        all.add(("monitor_build", "", "Which", MetricType::Info), [(labels("c"), 1.0)]);
        all
    }

    #[track_caller]
    fn check(dialect: Dialect, want: &str) {
        assert_eq!(text(&all(), dialect), want);
    }

    #[test]
    fn prometheus_names_a_counter_by_its_points() {
        check(
            Dialect::Prometheus,
            "# HELP monitor_x_seconds_total Time\n# TYPE monitor_x_seconds_total counter\n\
             monitor_x_seconds_total{name=\"a\"} 1.5\nmonitor_x_seconds_total{name=\"b\"} 2\n\
             # HELP monitor_build_info Which\n# TYPE monitor_build_info gauge\n\
             monitor_build_info{name=\"c\"} 1\n# EOF\n",
        );
    }

    #[test]
    fn openmetrics_names_a_counter_by_its_family_and_has_units() {
        check(
            Dialect::OpenMetrics,
            "# TYPE monitor_x_seconds counter\n# UNIT monitor_x_seconds seconds\n\
             # HELP monitor_x_seconds Time\nmonitor_x_seconds_total{name=\"a\"} 1.5\n\
             monitor_x_seconds_total{name=\"b\"} 2\n# TYPE monitor_build info\n\
             # HELP monitor_build Which\nmonitor_build_info{name=\"c\"} 1\n# EOF\n",
        );
    }

    #[test]
    fn labels_are_escaped() {
        assert_eq!(braced(&vec![("comm", "a\"b\\c\n".into())]), r#"{comm="a\"b\\c\n"}"#);
        let escapes = "a\x1b]0;x\x07\u{9b}2J\r".into();
        assert_eq!(braced(&vec![("comm", escapes)]), r#"{comm="a\\u{1b}]0;x\\u{7}\\u{9b}2J\\r"}"#);
    }

    #[test]
    fn buckets_are_cumulative_and_bounded_by_their_longest_duration() {
        let mut durations = Histogram::default();
        [1, 1024, 1500, 5000].into_iter().for_each(|ns| durations.record(Ns(ns)));
        let mut out = String::new();
        buckets("x", "", &durations, &mut out);
        assert!(out.starts_with(
            "x_bucket{le=\"0.000001023\"} 1\nx_bucket{le=\"0.000002047\"} 3\n\
             x_bucket{le=\"0.000004095\"} 3\nx_bucket{le=\"0.000008191\"} 4\n"
        ));
        assert!(out.ends_with("x_bucket{le=\"+Inf\"} 4\nx_sum 0.000007934\nx_count 4\n"), "{out}");
        out.clear();
        buckets("x", "{a=\"b\"}", &durations, &mut out);
        assert!(out.starts_with("x_bucket{a=\"b\",le="));
    }
}
