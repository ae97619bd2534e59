//! The processes that `monitor when --nodes` watches on each node: by command name, or of a job.
//!
//! In: `--comm` or `--job`. Out: the requests that attach them, and the one that sends a signal to
//! those of a node. Which job is meant is found out at the beginning; its ranks may start later, on
//! any node.

use super::args::WhenArgs;
use crate::cli::exit::Failure;
use crate::cli::job::job_on_nodes::{JobOnNodes, call, text};
use monitor_client::Client;
use monitor_omis::Value;
use std::collections::BTreeSet;
use std::time::Duration;

/// The number of the requests that attach them.
pub const ATTACHES: u32 = 1;

/// Values of a job in the reply to `job_list`, and the place of its user among them.
const JOB_VALUES: usize = 8;
const JOB_USER: usize = 3;

/// The processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchedProcesses {
    /// Those with one of these command names.
    Named(Vec<String>),
    /// Those of a job.
    OfJob(WatchedJob),
}

/// A job whose ranks are watched, also those that start later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedJob {
    id: String,
    /// The user of its ranks; -1 if no node says it.
    uid: i64,
}

impl WatchedProcesses {
    /// Those of the arguments; a job is looked for on the nodes.
    ///
    /// # Errors
    /// None are named, no node has the job, or several jobs have its name.
    pub async fn find(
        args: &WhenArgs,
        client: &Client,
        on: (&str, Duration),
    ) -> Result<Self, Failure> {
        let Some(written) = &args.job else { return Ok(Self::Named(args.comm.clone())) };
        let job = JobOnNodes::find(client, on, written).await?;
        if job.named.is_some() {
            let why = "the rule is about a whole job: name it without ranks";
            return Err(Failure::usage(why));
        }
        let uid = user_of(client, on, &job.id).await?;
        Ok(Self::OfJob(WatchedJob { id: job.id, uid }))
    }

    /// The requests that attach them, one a line.
    pub fn attach(&self) -> Vec<String> {
        self.attachments().into_iter().map(|it| format!("{ATTACHES} [0] {it}")).collect()
    }

    /// The requests that send a signal to them, as one line without the number of the first one.
    pub fn signal(&self, number: u32) -> String {
        match self {
            Self::Named(_) => {
                let attached = self.attachments().join("; 1 [0] ");
                format!("{attached}; 2 [0] kill([],{number})")
            }
            Self::OfJob(job) => format!("job_signal({},{number})", Value::from(job.id.as_str())),
        }
    }

    /// The number of processes that have got the signal by the results of `signal`, if they say it.
    pub fn n_signalled(&self, results: &[Value]) -> Option<usize> {
        let Self::Named(comms) = self else { return None };
        let lists = results.iter().take(comms.len()).filter_map(Value::list);
        // A name may match two patterns.
        let attached: BTreeSet<u64> = lists.flatten().filter_map(Value::integer).collect();
        Some(attached.len().saturating_sub(self.n_refused(results)))
    }

    /// The number of those that have not, if others have: pairs of a process and a status.
    pub fn n_refused(&self, results: &[Value]) -> usize {
        let n_attached = match self {
            Self::Named(comms) => comms.len(),
            Self::OfJob(_) => 0,
        };
        results.get(n_attached).and_then(Value::list).map_or(0, |pairs| pairs.len() / 2)
    }

    fn attachments(&self) -> Vec<String> {
        let call = |service: &str, text: &str| format!("{service}({})", Value::from(text));
        match self {
            Self::Named(comms) => comms.iter().map(|it| call("attach_command", it)).collect(),
            // A node may get a rank of it later.
            Self::OfJob(WatchedJob { id, uid }) => {
                vec![format!("attach_job_id({},{uid})", Value::from(id.as_str()))]
            }
        }
    }
}

/// The user of the ranks of a job.
async fn user_of(client: &Client, on: (&str, Duration), id: &str) -> Result<i64, Failure> {
    let listed = call(client, on, "job_list()").await?;
    let all: BTreeSet<i64> =
        listed.results.iter().flat_map(|(_, results)| users_of(id, results)).collect();
    let mut known = all.iter().copied().filter(|uid| *uid >= 0);
    match (known.next(), known.next()) {
        (Some(one), Some(other)) => Err(Failure::usage(format!(
            "job {id:?} is of several users, such as {one} and {other}: choose nodes on which it \
             is of one"
        ))),
        (uid, _) => Ok(uid.unwrap_or(-1)),
    }
}

/// The users of the jobs with this id in the results of `job_list`.
fn users_of(id: &str, results: &[Value]) -> Vec<i64> {
    let rows = results.first().and_then(Value::list).unwrap_or_default();
    let of_job = rows.chunks(JOB_VALUES).filter(|row| text(&row[0]).as_deref() == Some(id));
    of_job.filter_map(|row| row.get(JOB_USER)?.integer()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_omis::{Dialect, parse};

    #[test]
    fn processes_are_attached_and_signalled_by_valid_requests() {
        let named = WatchedProcesses::Named(vec!["a*".to_owned(), "b\"".to_owned()]);
        let job = WatchedJob { id: "prterun-n1-7@1".to_owned(), uid: 1000 };
        let of_job = WatchedProcesses::OfJob(job);
        for watched in [&named, &of_job] {
            let signal = format!("1 [0] {}", watched.signal(15));
            for line in watched.attach().iter().chain([&signal]) {
                let read = parse::request(line.as_bytes(), Dialect::Extended);
                assert!(read.is_ok(), "{line}: {read:?}");
            }
        }
        assert_eq!(of_job.signal(19), r#"job_signal("prterun-n1-7@1",19)"#);
        let attach = r#"1 [0] attach_job_id("prterun-n1-7@1",1000)"#;
        assert_eq!(of_job.attach(), [attach]);
        let list = |values: &[i32]| Value::List(values.iter().map(|it| (*it).into()).collect());
        let done = [list(&[7, 8]), list(&[8, 9])];
        assert_eq!((named.n_signalled(&done), named.n_refused(&done)), (Some(3), 0));
        let partly = [list(&[7, 8]), list(&[]), list(&[8, 400])];
        assert_eq!((named.n_signalled(&partly), named.n_refused(&partly)), (Some(1), 1));
        assert_eq!((of_job.n_signalled(&[]), of_job.n_refused(&[])), (None, 0));
    }

    #[test]
    fn the_user_of_a_job_is_the_one_that_nodes_list() {
        let reply = b"1 [0] job_list(0,[\"a\",\"slurm\",-1,7,1,2,\"running\",1.0,\
            \"b\",\"slurm\",-1,-1,1,2,\"running\",1.0,\"a\",\"slurm\",-1,8,1,2,\"running\",1.0])";
        let results = parse::reply(reply).expect("a reply").0.remove(0).results;
        assert_eq!(users_of("a", &results), [7, 8]);
        assert_eq!(users_of("b", &results), [-1]);
        assert!(users_of("c", &results).is_empty() && users_of("a", &[]).is_empty());
    }
}
