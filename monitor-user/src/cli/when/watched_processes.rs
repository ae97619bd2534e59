//! The processes that `monitor when --nodes` watches on each node: by command name, or of a job.
//!
//! In: `--comm` or `--job`. Out: the requests that attach them, and the one that sends a signal to
//! those of a node. Which nodes have the job is found out at the beginning.

use super::args::WhenArgs;
use crate::cli::exit::Failure;
use crate::cli::job::job_on_nodes::JobOnNodes;
use monitor_client::Client;
use monitor_omis::Value;
use std::collections::BTreeSet;
use std::time::Duration;

/// The number of the requests that attach them.
pub const ATTACHES: u32 = 1;

/// The processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchedProcesses {
    /// Those with one of these command names.
    Named(Vec<String>),
    /// Those of the job with this id.
    OfJob(String),
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
        Ok(Self::OfJob(job.id))
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
            Self::OfJob(id) => format!("job_signal({},{number})", Value::from(id.as_str())),
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
            Self::OfJob(id) => vec![call("attach_job", id)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_omis::{Dialect, parse};

    #[test]
    fn processes_are_attached_and_signalled_by_valid_requests() {
        let named = WatchedProcesses::Named(vec!["a*".to_owned(), "b\"".to_owned()]);
        let of_job = WatchedProcesses::OfJob("prterun-n1-7@1".to_owned());
        for watched in [&named, &of_job] {
            let signal = format!("1 [0] {}", watched.signal(15));
            for line in watched.attach().iter().chain([&signal]) {
                let read = parse::request(line.as_bytes(), Dialect::Extended);
                assert!(read.is_ok(), "{line}: {read:?}");
            }
        }
        assert_eq!(of_job.signal(19), r#"job_signal("prterun-n1-7@1",19)"#);
        let list = |values: &[i32]| Value::List(values.iter().map(|it| (*it).into()).collect());
        let done = [list(&[7, 8]), list(&[8, 9])];
        assert_eq!((named.n_signalled(&done), named.n_refused(&done)), (Some(3), 0));
        let partly = [list(&[7, 8]), list(&[]), list(&[8, 400])];
        assert_eq!((named.n_signalled(&partly), named.n_refused(&partly)), (Some(1), 1));
        assert_eq!((of_job.n_signalled(&[]), of_job.n_refused(&[])), (None, 0));
    }
}
