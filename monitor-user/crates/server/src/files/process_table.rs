//! The file `procs`: all processes that the user may see, one list a line.
//!
//! In: a sample as a client of the socket gets it. Out: text. The first line names the columns: the
//! 27 of Xcpu in its order, then ours under the names of FIELDS.md. A value that is not known is an
//! empty word.

use super::node_sample;
use super::session_processes::{SessionLauncher, SessionProcesses};
use super::sexpr::put_word;
use monitor_ninep::FileError;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// Nanoseconds of a millisecond, the unit of the times of Xcpu.
const MS: u64 = 1_000_000;
/// The kernel priority that Xcpu calls 0.
const PRIORITY_BASE: i64 = 15;

/// Where the value of a column comes from.
enum Source {
    /// The value of a field.
    Field(&'static str),
    /// The same in milliseconds.
    Milliseconds(&'static str),
    /// The words of the command line, as a list.
    CommandLine,
    /// The age.
    Age,
    /// The kernel priority, from 15.
    Priority,
    /// Resident pages that other processes may have too: files and shared memory.
    Shared,
    /// The number of the session.
    Session,
    /// The number of the job of the session, as its `id` has it.
    SessionJob,
    /// Read by no backend.
    Unknown,
}

use Source::{
    Age, CommandLine, Field, Milliseconds, Priority, Session, SessionJob, Shared, Unknown,
};

/// The columns.
const COLUMNS: &[(&str, Source)] = &[
    ("pid", Field("pid")),
    ("(cmdline)", CommandLine),
    ("state", Field("state")),
    ("ppid", Field("ppid")),
    ("pgrp", Unknown),
    ("psid", Unknown),
    ("tty", Unknown),
    ("tpgid", Unknown),
    ("utime", Milliseconds("user_ns")),
    ("stime", Milliseconds("system_ns")),
    ("etime", Age),
    ("priority", Priority),
    ("nice", Field("nice")),
    ("wchan", Unknown),
    ("euid", Unknown),
    ("suid", Unknown),
    ("fsuid", Unknown),
    ("egid", Unknown),
    ("sgid", Unknown),
    ("fsgid", Unknown),
    ("vmsize", Field("vsize_bytes")),
    ("rssize", Field("rss_bytes")),
    ("shsize", Shared),
    ("txtsize", Unknown),
    ("datsize", Unknown),
    ("xcpusid", Session),
    ("xcpujid", SessionJob),
    ("uid", Field("uid")),
    ("gid", Field("gid")),
    ("comm", Field("comm")),
    ("threads", Field("threads")),
    ("start_time_ns", Field("start_time_ns")),
    ("cpu_ns", Field("cpu_ns")),
    ("run_delay_ns", Field("run_delay_ns")),
    ("read_bytes", Field("read_bytes")),
    ("written_bytes", Field("written_bytes")),
    ("major_faults", Field("major_faults")),
    ("cgroup", Field("cgroup")),
    ("job", Field("job")),
];

/// Fields that columns are computed from.
const OTHER_FIELDS: [&str; 6] =
    ["cmdline", "priority", "rss_file_bytes", "rss_shmem_bytes", "user_ns", "system_ns"];

/// The call `monitor` whose answer has what the columns need.
pub fn request() -> Value {
    let named = COLUMNS.iter().filter_map(|(_, source)| match source {
        Field(name) => Some(*name),
        _ => None,
    });
    let fields = named.chain(OTHER_FIELDS).map(|it| format!("proc.{it}"));
    let fields: Vec<String> = fields.chain(["node.uptime_ns".to_owned()]).collect();
    json!({"part": "all", "fields": fields})
}

#[derive(Deserialize)]
struct Sample {
    #[serde(default)]
    processes: Vec<Map<String, Value>>,
    #[serde(default)]
    node_stats: Map<String, Value>,
}

/// The text of a sample; with the sessions that the user may see.
///
/// # Errors
///
/// When it is none.
pub fn text(sample: &str, launchers: &[SessionLauncher]) -> Result<String, FileError> {
    let sample: Sample = node_sample::parsed(sample)?;
    let uptime = sample.node_stats.get("uptime_ns").and_then(Value::as_u64);
    let mut out = String::with_capacity(256 * (sample.processes.len() + 2));
    let names: Vec<&str> = COLUMNS.iter().map(|it| it.0).collect();
    let _ = writeln!(out, "({})", names.join(" "));
    let sessions = SessionProcesses::find(&sample.processes, launchers);
    for process in &sample.processes {
        let session = sessions.session(process);
        for (at, (_, source)) in COLUMNS.iter().enumerate() {
            out.push(if at == 0 { '(' } else { ' ' });
            put_value(&mut out, source, (process, uptime, session));
        }
        out.push_str(")\n");
    }
    Ok(out)
}

fn put_value(
    out: &mut String,
    source: &Source,
    (process, uptime, session): (&Map<String, Value>, Option<u64>, Option<&SessionLauncher>),
) {
    let number = |name: &str| process.get(name).and_then(Value::as_u64);
    let computed = match source {
        Field(name) => {
            return node_sample::put_value(out, process.get(*name).unwrap_or(&Value::Null));
        }
        CommandLine => return put_command_line(out, process),
        Milliseconds(name) => number(name).map(|ns| (ns / MS).to_string()),
        Age => {
            let age = uptime.zip(number("start_time_ns"));
            age.map(|(now, start)| (now.saturating_sub(start) / MS).to_string())
        }
        Priority => {
            let priority = process.get("priority").and_then(Value::as_i64);
            priority.map(|it| (it - PRIORITY_BASE).to_string())
        }
        Shared => {
            let parts = number("rss_file_bytes").zip(number("rss_shmem_bytes"));
            parts.map(|(file, shared)| (file + shared).to_string())
        }
        Session => session.map(|it| it.number.to_string()),
        SessionJob => session.map(|it| it.job.clone()),
        Unknown => None,
    };
    put_word(out, computed.as_deref().unwrap_or_default());
}

/// The command line as a list. The sample has its arguments joined by blanks, so that an argument
/// with a blank is two words here. A process without one has its command name.
fn put_command_line(out: &mut String, process: &Map<String, Value>) {
    let text = |name| process.get(name).and_then(Value::as_str).filter(|it| !it.is_empty());
    out.push('(');
    match text("cmdline") {
        Some(line) => {
            for (at, word) in line.split(' ').filter(|it| !it.is_empty()).enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                put_word(out, word);
            }
        }
        None => put_word(out, text("comm").unwrap_or_default()),
    }
    out.push(')');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_begins_with_the_27_columns_of_xcpu() {
        let names: Vec<&str> = COLUMNS.iter().map(|it| it.0).collect();
        assert_eq!(
            names[..27].join(" "),
            "pid (cmdline) state ppid pgrp psid tty tpgid utime stime etime priority nice wchan \
             euid suid fsuid egid sgid fsgid vmsize rssize shsize txtsize datsize xcpusid xcpujid"
        );
        assert_eq!(text("{}", &[]).expect("a sample"), format!("({})\n", names.join(" ")));
    }

    #[test]
    fn a_process_is_a_line_with_a_value_for_each_column() {
        let sample = r#"{"node_stats":{"uptime_ns":9000000000},"processes":[{"pid":7,
            "start_time_ns":2000000000,"ppid":1,"comm":"sh","cmdline":"sh -c it's (x)\ny","uid":5,
            "state":"S","user_ns":1999999,"system_ns":0,"priority":20,"nice":0,
            "rss_file_bytes":4096,"rss_shmem_bytes":8192,"vsize_bytes":5,"rss_bytes":20480}]}"#;
        let launchers = [SessionLauncher { pid: 1, number: 4, job: "9".to_owned() }];
        let text = text(sample, &launchers).expect("a sample");
        let line = text.lines().nth(1).expect("a process");
        assert_eq!(
            line,
            "(7 (sh -c 'it''s' '(x)?y') S 1 '' '' '' '' 1 0 7000 5 0 '' '' '' '' '' '' '' 5 20480 \
             12288 '' '' 4 9 5 '' sh '' 2000000000 '' '' '' '' '' '' '')"
        );
        assert_eq!(text.lines().count(), 2);
    }

    #[test]
    fn a_thread_of_the_kernel_has_its_name_as_command_line() {
        let text = text(r#"{"processes":[{"pid":2,"comm":"kworker/0:1 x"}]}"#, &[]);
        let text = text.expect("a sample");
        assert!(text.contains("\n(2 ('kworker/0:1 x') ''"), "{text}");
    }
}
