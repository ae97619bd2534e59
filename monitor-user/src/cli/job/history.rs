//! Transitions of jobs that the service of the node has kept.
//!
//! In: results of the service `job_history`, and values of its event `job_changed`. Out:
//! transitions, with times since 1970 in place of those since boot.

use crate::cli::exit::{Exit, Failure};
use crate::cli::job::reader::user;
use monitor_client::{Error, tool::Tool};
use monitor_format::events::signal_name;
use monitor_jobs::Runtime;
use monitor_jobs::hold_table::HoldPoint;
use monitor_jobs::job_log::{EndStatus, JobChange, JobTransition};
use monitor_model::{Ns, Pid, event::Signal};
use monitor_omis::{Reply, Status, Text, Value, parse};
use serde_json::{Value as Json, json};
use std::{path::Path, time::Duration};

/// Number of values of a transition.
const VALUES: usize = 13;

/// What a service has kept.
pub struct JobHistory {
    /// For how long it has followed jobs; absent if it does not now.
    pub followed: Option<Duration>,
    /// The transitions, the oldest first.
    pub transitions: Vec<JobTransition>,
}

/// A session with the service.
///
/// # Errors
/// If none answers: then the message says what to do.
pub fn connect(named: Option<&Path>) -> Result<Tool, Failure> {
    let tool = match named {
        Some(path) => Tool::connect_to(path),
        None => Tool::connect(),
    };
    tool.map_err(Failure::from)
}

/// The call that returns the transitions of the last time.
pub fn call(job: &str, last: Duration) -> String {
    format!("job_history({},{:?})", Value::from(job), last.as_secs_f64())
}

impl JobHistory {
    /// From the results of the call.
    ///
    /// # Errors
    /// If they are of another version of the service.
    pub fn from_results(results: &[Value]) -> Result<Self, Failure> {
        let [followed, transitions] = results else { return Err(unexpected()) };
        let followed = followed.float().ok_or_else(unexpected)?;
        let rows = transitions.list().unwrap_or_default().chunks(VALUES);
        let transitions: Option<_> = rows.map(transition).collect();
        Ok(Self {
            followed: Duration::try_from_secs_f64(followed).ok(),
            transitions: transitions.ok_or_else(unexpected)?,
        })
    }

    /// What it lacks of the last time; nothing, if it has followed jobs for so long.
    pub fn gap(&self, last: Duration) -> Option<String> {
        match self.followed {
            None => Some(
                "the service does not follow jobs: set jobs.follow = true in its configuration"
                    .to_owned(),
            ),
            Some(followed) if followed < last => {
                let since = monitor_format::human::duration_text(followed.as_nanos() as f64);
                Some(format!("the service has followed jobs for {since} only"))
            }
            Some(_) => None,
        }
    }
}

/// The transition of these values, as `job_changed` documents them.
pub fn transition(values: &[Value]) -> Option<JobTransition> {
    let [id, runtime, change, launcher, uid, code, signal, ranks, age, unix, rank, pid, place] =
        values
    else {
        return None;
    };
    let text = |value: &Value| value.text().map(|it| Text::to_str_lossy(it).into_owned());
    let end = EndStatus { code: code.integer(), signal: signal.integer() };
    Some(JobTransition {
        at: Ns(unix.integer()?),
        change: JobChange::from_name(&text(change)?)?,
        id: text(id)?.into(),
        runtime: Runtime::from_name(&text(runtime)?).unwrap_or(Runtime::Unknown),
        launcher: launcher.integer().map(Pid),
        uid: uid.integer(),
        reader: None,
        ranks: ranks.integer().unwrap_or(0),
        age: Ns((age.float()? * 1e9) as u64),
        end,
        rank: rank.integer(),
        pid: pid.integer().map(Pid),
        place: HoldPoint::from_name(&text(place)?),
    })
}

/// The results of the last service of a line.
///
/// # Errors
/// If a service of the line was refused.
pub fn last_results(line: &str) -> Result<Vec<Value>, Failure> {
    let reply = parsed(line)?;
    Ok(reply.0.into_iter().next_back().map(|answer| answer.results).unwrap_or_default())
}

/// A reply of success.
///
/// # Errors
/// If it is one of failure: the reason.
pub fn parsed(line: &str) -> Result<Reply, Failure> {
    let reply = parse::reply(line.as_bytes()).map_err(|_| unexpected())?;
    let refused = reply.0.iter().find(|answer| !answer.status.is_success());
    match refused.map(|answer| (answer.status, answer.results.last())) {
        None => Ok(reply),
        Some((Status::UNKNOWN_SERVICE, _)) => Err(unexpected()),
        Some((_, Some(Value::Text(why)))) => Err(Failure::failed(why.to_str_lossy())),
        Some(_) => Err(Failure::failed(line)),
    }
}

/// The failure of results of another version of the service.
pub fn unexpected() -> Failure {
    let message = "the service has another version: it does not keep jobs as this program expects";
    Failure { message: message.to_owned(), exit: Exit::Failed }
}

/// The failure of a session that the service has closed.
pub fn lost() -> Failure {
    Error::Lost.into()
}

/// How a job ended, as text: a code, or the name of a signal.
pub fn status_text(end: EndStatus) -> String {
    match (end.signal, end.code) {
        (Some(number @ 1..), _) => signal_name(&Signal { number, code: 0, thread: None }),
        (_, Some(code)) => code.to_string(),
        (_, None) => "-".to_owned(),
    }
}

/// A transition as JSON, with the name of its time.
pub fn transition_json(it: &JobTransition) -> Json {
    json!({
        "class": "job",
        "id": &*it.id,
        "runtime": it.runtime.name(),
        "state": it.change.name(),
        "launcher_pid": it.launcher.map(|pid| pid.0),
        "uid": it.uid,
        "user": it.uid.map(user),
        "local_ranks": it.ranks,
        "code": it.end.code,
        "signal": it.end.signal,
        "rank": it.rank,
        "pid": it.pid.map(|pid| pid.0),
        "place": it.place.map(HoldPoint::name),
        "age_ns": it.age.0,
        "time_unix_ns": it.at.0,
    })
}
