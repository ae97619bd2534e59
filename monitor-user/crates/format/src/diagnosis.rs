//! Diagnostic events as lines: text, the format of Open MPI's notifier, or JSON.
//!
//! In: a diagnosis. Out: a line without line feed.

use monitor_model::{DiagOrigin, DiagReason, Diagnosis, Ns};
use std::time::{Duration, UNIX_EPOCH};

/// The format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiagFormat {
    /// `[time] 1000 warnings : message`.
    Text,
    /// The format of Open MPI's notifier: `TIME=… COUNT=…: message`.
    Notifier,
    /// One JSON object.
    Json,
}

/// All formats with their names.
pub const DIAG_FORMATS: &[(&str, DiagFormat)] =
    &[("text", DiagFormat::Text), ("notifier", DiagFormat::Notifier), ("json", DiagFormat::Json)];

impl DiagFormat {
    /// The format of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        DIAG_FORMATS.iter().find(|(own, _)| *own == name).map(|(_, form)| *form)
    }

    /// Formats a diagnosis.
    pub fn line(self, it: &Diagnosis) -> String {
        match self {
            Self::Text => text(it),
            Self::Notifier => notifier(it),
            Self::Json => json(it),
        }
    }
}

fn text(it: &Diagnosis) -> String {
    let at = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_nanos(it.at.0));
    let (count, message) = (with_thousands(it.count), &it.message);
    let report = match it.reason {
        DiagReason::First => format!("{count} warnings : {message}"),
        DiagReason::Again(time) => {
            format!("{count} warnings (in {} seconds) : {message}", seconds(time))
        }
        DiagReason::Finalize { was_reported: false, .. } => {
            format!("At finalize : {count} times : {message}")
        }
        DiagReason::Finalize { total, .. } => {
            format!("At finalize : {count} times, {} in all : {message}", with_thousands(total))
        }
    };
    let more = match it.processes {
        0 | 1 => String::new(),
        several => format!(" ({several} processes)"),
    };
    format!("[{at}] {report}{more} [{}]", origin_text(&it.origin, &it.host))
}

/// The origin of a diagnosis as text.
fn origin_text(it: &DiagOrigin, host: &str) -> String {
    let parts = [
        it.family.as_ref().map(|family| format!("family {family}")),
        it.local_job.as_ref().map(|job| format!("job {job}")),
        it.rank.map(|rank| format!("vpid {rank}")),
        it.pid.map(|pid| format!("pid {}", pid.0)),
        Some(format!("host {host}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The format of `orte/mca/notifier` of Open MPI 1.5; unknown values are `-`.
fn notifier(it: &Diagnosis) -> String {
    let part = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
    let (family, job) = (&it.origin.family, &it.origin.local_job);
    let tail = match it.reason {
        DiagReason::First => String::new(),
        DiagReason::Again(time) => format!(" (in {} seconds)", seconds(time)),
        DiagReason::Finalize { .. } => " (Finalize)".to_owned(),
    };
    format!(
        "TIME={} MPI_NOTIFIER_EVENT FAMILY={} JOB={} VPID={} HOST={} EVENT={} COUNT={}{tail}: {}",
        seconds(it.at),
        part(family.as_ref().map(ToString::to_string)),
        part(job.as_ref().map(ToString::to_string)),
        part(it.origin.rank.map(|rank| rank.to_string())),
        it.host,
        it.event,
        it.count,
        it.message,
    )
}

fn json(it: &Diagnosis) -> String {
    let (elapsed_ns, total) = match it.reason {
        DiagReason::First => (None, None),
        DiagReason::Again(time) => (Some(time.0), None),
        DiagReason::Finalize { total, .. } => (None, Some(total)),
    };
    let all = serde_json::json!({
        "time_ns": it.at.0,
        "host": &*it.host,
        "event": &*it.event,
        "message": &*it.message,
        "count": it.count,
        "elapsed_ns": elapsed_ns,
        "total": total,
        "finalize": total.is_some(),
        "processes": it.processes,
        "family": it.origin.family.as_deref(),
        "job": it.origin.local_job.as_deref(),
        "vpid": it.origin.rank,
        "pid": it.origin.pid.map(|pid| pid.0),
    });
    all.to_string()
}

const fn seconds(time: Ns) -> u64 {
    time.0 / 1_000_000_000
}

/// Formats a number with commas between thousands, from 10,000 on.
fn with_thousands(number: u64) -> String {
    let digits = number.to_string();
    if digits.len() < 5 {
        return digits;
    }
    let first = digits.len() % 3;
    let (head, tail) = digits.split_at(first);
    let groups = tail.as_bytes().chunks(3).map(|it| String::from_utf8_lossy(it).into_owned());
    let head = (!head.is_empty()).then(|| head.to_owned());
    head.into_iter().chain(groups).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::id::Pid;

    fn diagnosis(count: u64, why: DiagReason) -> Diagnosis {
        Diagnosis {
            at: Ns(1_243_315_000_000_000_000),
            host: "n1".into(),
            event: "srq".into(),
            message: "adding buffers in the SRQ".into(),
            count,
            reason: why,
            process: None,
            origin: DiagOrigin::rank("2981429249", 3, Pid(7)),
            processes: 1,
        }
    }

    #[track_caller]
    fn check(count: u64, why: DiagReason, text: &str, notifier: &str) {
        let it = diagnosis(count, why);
        let origin = "[family 45493, job 1, vpid 3, pid 7, host n1]";
        let head = "TIME=1243315000 MPI_NOTIFIER_EVENT FAMILY=45493 JOB=1 VPID=3 HOST=n1";
        let wanted = format!("[2009-05-26T05:16:40Z] {text} : adding buffers in the SRQ {origin}");
        assert_eq!(DiagFormat::Text.line(&it), wanted);
        let wanted = format!("{head} EVENT=srq COUNT={notifier}: adding buffers in the SRQ");
        assert_eq!(DiagFormat::Notifier.line(&it), wanted);
    }

    #[test]
    fn lines_have_the_format_of_the_proposal() {
        check(1000, DiagReason::First, "1000 warnings", "1000");
        let again = DiagReason::Again(Ns(60_000_000_000));
        check(1_234_567, again, "1,234,567 warnings (in 60 seconds)", "1234567 (in 60 seconds)");
        let never = DiagReason::Finalize { total: 23, was_reported: false };
        check(23, never, "At finalize : 23 times", "23 (Finalize)");
        let rest = DiagReason::Finalize { total: 12_500, was_reported: true };
        check(500, rest, "At finalize : 500 times, 12,500 in all", "500 (Finalize)");
    }

    #[test]
    fn a_process_without_rank_is_named_by_its_pid() {
        let mut it = diagnosis(1, DiagReason::First);
        it.origin = DiagOrigin::process(Pid(9));
        assert!(DiagFormat::Text.line(&it).ends_with(" [pid 9, host n1]"));
        assert!(DiagFormat::Notifier.line(&it).contains(" FAMILY=- JOB=- VPID=- "));
        assert!(DiagFormat::Json.line(&it).contains("\"vpid\":null"));
    }
}
