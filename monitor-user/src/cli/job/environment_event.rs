//! Faults and limits of the node, as its service reports them.
//!
//! In: the values of the service's event `environment_changed`, and what it has kept. Out: a line
//! of text, or JSON.

use super::reader::user;
use monitor_format::human;
use monitor_model::Ns;
use monitor_model::environment::EnvironmentSource;
use monitor_omis::{Text, Value};
use serde_json::{Value as Json, json};

/// Number of values of a change.
pub const VALUES: usize = 10;

/// A change, with its time since 1970.
pub struct EnvironmentEvent {
    /// When.
    pub at: Ns,
    source: EnvironmentSource,
    what: String,
    kind: String,
    values: Option<(i64, i64)>,
    pid: Option<u32>,
    job: Option<String>,
    rank: Option<u32>,
    uid: Option<u32>,
}

impl EnvironmentEvent {
    /// From the values that `environment_changed` documents.
    pub fn from_values(values: &[Value]) -> Option<Self> {
        let [source, what, kind, old, new, pid, job, rank, uid, unix] = values else {
            return None;
        };
        let text = |value: &Value| value.text().map(|it| Text::to_str_lossy(it).into_owned());
        let counted = (old.integer()?, new.integer()?);
        Some(Self {
            at: Ns(unix.integer()?),
            source: EnvironmentSource::from_name(&text(source)?)?,
            what: text(what)?,
            kind: text(kind)?,
            values: (counted != (-1, -1)).then_some(counted),
            pid: pid.integer(),
            job: text(job).filter(|it| !it.is_empty()),
            rank: rank.integer(),
            uid: uid.integer(),
        })
    }

    /// Whether it is about a job: the id, or the beginning of it. The empty text names all jobs,
    /// and what is about none.
    pub fn is_of(&self, written: &str) -> bool {
        self.job.as_deref().unwrap_or("").starts_with(written)
    }

    /// What it is on any node: the source, what it is about, the kind, the job.
    pub fn what(&self) -> String {
        let job = self.job.as_ref().map(|job| format!(": job {}", human::escaped_text(job)));
        self.subject() + &job.unwrap_or_default()
    }

    fn subject(&self) -> String {
        let mut out = self.source.name().to_owned();
        if !self.what.is_empty() {
            out += &format!(" {}", human::escaped_text(&self.what));
        }
        out + &format!(" {}", human::escaped_text(&self.kind))
    }

    /// A line of text, without the time and its end.
    pub fn text(&self) -> String {
        let mut out = self.subject();
        let mut parts = Vec::new();
        parts.extend(self.values.map(|(old, new)| format!("{old} -> {new}")));
        parts.extend(self.pid.map(|pid| format!("pid {pid}")));
        parts.extend(self.uid.map(|uid| format!("user {}", human::escaped_text(&user(uid)))));
        if let (Some(rank), Some(job)) = (self.rank, &self.job) {
            parts.push(format!("rank {rank} of job {}", human::escaped_text(job)));
        }
        if !parts.is_empty() {
            out += &format!(": {}", parts.join(", "));
        }
        out
    }

    /// The change as JSON.
    pub fn json(&self) -> Json {
        json!({
            "class": "environment",
            "source": self.source.name(),
            "what": self.what,
            "kind": self.kind,
            "old": self.values.map(|(old, _)| old),
            "new": self.values.map(|(_, new)| new),
            "pid": self.pid,
            "job": self.job,
            "rank": self.rank,
            "uid": self.uid,
            "user": self.uid.map(user),
            "time_unix_ns": self.at.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn it(texts: [&str; 4], numbers: [i64; 5]) -> EnvironmentEvent {
        let [source, what, kind, job] = texts.map(Value::from);
        let [old, new, pid, rank, uid] = numbers.map(Value::from);
        let unix = Value::from(5_000_000_000_u64);
        let values = [source, what, kind, old, new, pid, job, rank, uid, unix];
        EnvironmentEvent::from_values(&values).expect("ten values")
    }

    #[test]
    fn a_line_has_the_values_and_the_process_as_far_as_they_are_known() {
        let check = |it: EnvironmentEvent, want: &str| {
            assert_eq!(it.text(), want);
        };
        check(it(["ecc", "mc0", "corrected", ""], [1, 4, -1, -1, -1]), "ecc mc0 corrected: 1 -> 4");
        check(
            it(["oom", "a\u{1b}", "kill", "77"], [1, 2, 7, 3, 4_000_000]),
            "oom a\\u{1b} kill: 1 -> 2, pid 7, user 4000000, rank 3 of job 77",
        );
        check(it(["oom", "", "kill", ""], [-1, -1, -1, -1, -1]), "oom kill");
        let of_job = it(["oom", "a", "kill", "77"], [1, 2, 7, 3, 4_000_000]);
        assert_eq!(of_job.what(), "oom a kill: job 77");
    }

    #[test]
    fn a_line_of_json_has_null_for_what_is_unknown() {
        let it = it(["pcie", "0000:3b:00.0", "fatal", ""], [0, 2, -1, -1, -1]).json();
        assert_eq!((&it["job"], &it["pid"], &it["new"]), (&Json::Null, &Json::Null, &json!(2)));
    }

    #[test]
    fn what_is_about_no_job_is_printed_for_all_jobs_only() {
        let of_none = it(["ecc", "mc0", "corrected", ""], [1, 4, -1, -1, -1]);
        let of_job = it(["oom", "a", "kill", "1277"], [1, 2, 7, 3, 0]);
        assert!(of_none.is_of("") && !of_none.is_of("12"));
        assert!(of_job.is_of("") && of_job.is_of("12") && !of_job.is_of("13"));
    }
}
