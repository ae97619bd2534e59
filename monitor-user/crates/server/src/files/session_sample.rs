//! The files `mon/desc`, `mon/pull` and `mon/push` of a session: which numbers a sample has of each
//! of its processes, and the sample.
//!
//! In: the field list, and a sample of processes as a client of the socket gets it. Out: one list
//! on one line, in the form of `mon/pull` of the node.

use super::node_sample::{parsed, put_rows, put_variable};
use super::sample_filter::{CategoryFields, Condition, HeldRow, SampleFilter};
use super::session_processes::{SessionLauncher, SessionProcesses};
use super::sexpr::put_pair;
use monitor_model::field::{Category, ProcessField};
use monitor_ninep::FileError;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// The category of a sample.
pub const CATEGORY: &str = "proc";
/// The field that names a row.
const LABEL: &str = "pid";
/// The fields of a process, by the names of FIELDS.md.
const FIELDS: [&str; 16] = [
    LABEL,
    "ppid",
    "comm",
    "state",
    "threads",
    "start_time_ns",
    "cpu_ns",
    "user_ns",
    "system_ns",
    "run_delay_ns",
    "rss_bytes",
    "vsize_bytes",
    "minor_faults",
    "major_faults",
    "read_bytes",
    "written_bytes",
];

/// The categories that a filter of samples can name, with their fields.
pub const CATEGORIES: [CategoryFields; 1] = [(CATEGORY, ProcessField::FIELDS)];

/// The call `monitor` whose answer is the sample.
pub fn request() -> Value {
    let fields: Vec<String> = FIELDS.iter().map(|it| format!("proc.{it}")).collect();
    json!({"part": "all", "fields": fields})
}

/// The description: name, what it does over time, and unit of each number.
pub fn description() -> String {
    let mut out = format!("(desc (cat {CATEGORY}");
    for field in ProcessField::FIELDS.iter().filter(|it| FIELDS.contains(&it.name)) {
        put_variable(&mut out, field);
    }
    out.push_str("))\n");
    out
}

#[derive(Deserialize)]
struct Sample {
    #[serde(default)]
    node: String,
    #[serde(default)]
    time_unix_ns: u64,
    #[serde(default)]
    processes: Vec<Map<String, Value>>,
}

/// The text of a sample, which is the one of this number, with the processes of a session; with
/// none, if the session has ended; `None` if it does not pass the filter.
///
/// # Errors
///
/// When it is no sample.
pub fn text(
    sample: &str,
    number: u32,
    (session, launchers, filter): (u32, &[SessionLauncher], &SampleFilter),
) -> Result<Option<String>, FileError> {
    let sample = own_processes(parsed(sample)?, (session, launchers));
    if !filter.passes(|_| sample.processes.iter()) {
        return Ok(None);
    }
    let rows: Vec<Value> = sample.processes.into_iter().map(Value::Object).collect();
    let mut out = "(sample ".to_owned();
    put_pair(&mut out, "node", &sample.node);
    let _ = write!(out, " (session {session}) (time {}) (seq {number})", sample.time_unix_ns);
    put_rows(&mut out, CATEGORY, (&rows, LABEL));
    out.push_str(")\n");
    Ok(Some(out))
}

/// For each condition the first process of a session for which it holds.
///
/// # Errors
///
/// When it is no sample.
pub fn holding(
    sample: &str,
    (session, launchers): (u32, &[SessionLauncher]),
    conditions: &[Condition],
) -> Result<Vec<Option<HeldRow>>, FileError> {
    let processes = own_processes(parsed(sample)?, (session, launchers)).processes;
    let held = |it| HeldRow::find(it, processes.iter(), Some(LABEL));
    Ok(conditions.iter().map(held).collect())
}

/// The sample with the processes of a session alone.
fn own_processes(mut sample: Sample, (session, launchers): (u32, &[SessionLauncher])) -> Sample {
    let sessions = SessionProcesses::find(&sample.processes, launchers);
    let is_own = |it: &Map<String, Value>| sessions.session(it).map(|it| it.number);
    sample.processes.retain(|it| is_own(it) == Some(session));
    sample
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_has_each_field() {
        let text = description();
        assert!(text.starts_with("(desc (cat proc (var pid label"), "{text}");
        for name in FIELDS {
            assert!(text.contains(&format!("(var {name} ")), "{name}: {text}");
        }
        assert!(text.ends_with("))\n") && text.lines().count() == 1);
    }

    #[test]
    fn a_sample_has_the_processes_of_the_session_alone() {
        let sample = r#"{"node":"x","time_unix_ns":5,"processes":[{"pid":7,"ppid":1},
            {"pid":8,"ppid":7,"cpu_ns":3,"comm":"a b"},{"pid":9,"ppid":8},{"pid":10,"ppid":1}]}"#;
        let launchers = [SessionLauncher { pid: 7, number: 3, job: String::new() }];
        let filtered = |session, filter: &str| {
            let filter =
                SampleFilter::default().with(filter.as_bytes(), &CATEGORIES).expect("a filter");
            super::text(sample, 4, (session, &launchers, &filter)).expect("a sample")
        };
        let text = |session| filtered(session, "(filter)").expect("all pass");
        assert_eq!(
            text(3),
            "(sample (node x) (session 3) (time 5) (seq 4) \
             (proc (8 (comm 'a b') (cpu_ns 3) (ppid 7)) (9 (ppid 8))))\n"
        );
        assert_eq!(text(2), "(sample (node x) (session 2) (time 5) (seq 4) (proc))\n");
        // The number is one of a process of another session.
        assert_eq!(filtered(2, "(filter (> proc.cpu_ns 2))"), None);
        assert_eq!(filtered(3, "(filter (> proc.cpu_ns 2))"), Some(text(3)));
    }
}
