//! Unusual events as lines: for people, as Open MPI's notifier wrote them, as JSON.
//!
//! In: a diagnosis. Out: a line without its end.

use monitor_model::diagnosis::{Diagnosis, Whose, Why};
use monitor_model::id::Ns;
use std::time::{Duration, UNIX_EPOCH};

/// How a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// For people: `[time] 1000 warnings : message`.
    Text,
    /// For programs that read what the notifier of Open MPI wrote: `TIME=… COUNT=…: message`.
    Notifier,
    /// One JSON object.
    Json,
}

/// Every form with its name.
pub const FORMS: &[(&str, Form)] =
    &[("text", Form::Text), ("notifier", Form::Notifier), ("json", Form::Json)];

impl Form {
    /// The form of that name.
    pub fn named(name: &str) -> Option<Self> {
        FORMS.iter().find(|(own, _)| *own == name).map(|(_, form)| *form)
    }

    /// A line.
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
    let (count, message) = (grouped(it.count), &it.message);
    let said = match it.why {
        Why::First => format!("{count} warnings : {message}"),
        Why::Again(time) => {
            format!("{count} warnings (in {} seconds) : {message}", seconds(time))
        }
        Why::Finalize { was_told: false, .. } => {
            format!("At finalize : {count} times : {message}")
        }
        Why::Finalize { total, .. } => {
            format!("At finalize : {count} times, {} in all : {message}", grouped(total))
        }
    };
    let more = match it.processes {
        0 | 1 => String::new(),
        several => format!(" ({several} processes)"),
    };
    format!("[{at}] {said}{more} [{}]", who(&it.whose, &it.host))
}

/// Who met it, for people.
fn who(it: &Whose, host: &str) -> String {
    let parts = [
        it.family.as_ref().map(|family| format!("family {family}")),
        it.local_job.as_ref().map(|job| format!("job {job}")),
        it.rank.map(|rank| format!("vpid {rank}")),
        it.pid.map(|pid| format!("pid {}", pid.0)),
        Some(format!("host {host}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// As `orte/mca/notifier` of Open MPI 1.5 wrote it; what nobody knows is `-`.
fn notifier(it: &Diagnosis) -> String {
    let part = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
    let (family, job) = (&it.whose.family, &it.whose.local_job);
    let tail = match it.why {
        Why::First => String::new(),
        Why::Again(time) => format!(" (in {} seconds)", seconds(time)),
        Why::Finalize { .. } => " (Finalize)".to_owned(),
    };
    format!(
        "TIME={} MPI_NOTIFIER_EVENT FAMILY={} JOB={} VPID={} HOST={} EVENT={} COUNT={}{tail}: {}",
        seconds(it.at),
        part(family.as_ref().map(ToString::to_string)),
        part(job.as_ref().map(ToString::to_string)),
        part(it.whose.rank.map(|rank| rank.to_string())),
        it.host,
        it.event,
        it.count,
        it.message,
    )
}

fn json(it: &Diagnosis) -> String {
    let (elapsed_ns, total) = match it.why {
        Why::First => (None, None),
        Why::Again(time) => (Some(time.0), None),
        Why::Finalize { total, .. } => (None, Some(total)),
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
        "family": it.whose.family.as_deref(),
        "job": it.whose.local_job.as_deref(),
        "vpid": it.whose.rank,
        "pid": it.whose.pid.map(|pid| pid.0),
    });
    all.to_string()
}

const fn seconds(time: Ns) -> u64 {
    time.0 / 1_000_000_000
}

/// With a comma between thousands, from a million on: below, nobody needs them.
fn grouped(number: u64) -> String {
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

    fn diagnosis(count: u64, why: Why) -> Diagnosis {
        Diagnosis {
            at: Ns(1_243_315_000_000_000_000),
            host: "n1".into(),
            event: "srq".into(),
            message: "adding buffers in the SRQ".into(),
            count,
            why,
            whose: Whose::rank("2981429249", 3, Pid(7)),
            processes: 1,
        }
    }

    #[track_caller]
    fn check(count: u64, why: Why, text: &str, notifier: &str) {
        let it = diagnosis(count, why);
        let who = "[family 45493, job 1, vpid 3, pid 7, host n1]";
        let head = "TIME=1243315000 MPI_NOTIFIER_EVENT FAMILY=45493 JOB=1 VPID=3 HOST=n1";
        let wanted = format!("[2009-05-26T05:16:40Z] {text} : adding buffers in the SRQ {who}");
        assert_eq!(Form::Text.line(&it), wanted);
        let wanted = format!("{head} EVENT=srq COUNT={notifier}: adding buffers in the SRQ");
        assert_eq!(Form::Notifier.line(&it), wanted);
    }

    #[test]
    fn lines_are_as_the_proposal_has_them() {
        check(1000, Why::First, "1000 warnings", "1000");
        let again = Why::Again(Ns(60_000_000_000));
        check(1_234_567, again, "1,234,567 warnings (in 60 seconds)", "1234567 (in 60 seconds)");
        let never = Why::Finalize { total: 23, was_told: false };
        check(23, never, "At finalize : 23 times", "23 (Finalize)");
        let rest = Why::Finalize { total: 12_500, was_told: true };
        check(500, rest, "At finalize : 500 times, 12,500 in all", "500 (Finalize)");
    }

    #[test]
    fn who_is_no_rank_is_told_by_pid_alone() {
        let mut it = diagnosis(1, Why::First);
        it.whose = Whose::process(Pid(9));
        assert!(Form::Text.line(&it).ends_with(" [pid 9, host n1]"));
        assert!(Form::Notifier.line(&it).contains(" FAMILY=- JOB=- VPID=- "));
        assert!(Form::Json.line(&it).contains("\"vpid\":null"));
    }
}
