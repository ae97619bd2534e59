//! `monitor job hold`, `release`, `signal` and `end` with `--nodes`: the ranks of one job on the
//! nodes of a set.
//!
//! In: the ranks that the user names, a set of nodes. Out: a line with the ranks and the nodes on
//! which the service has sent the signal; nodes that refuse it or do not reply, on standard error.
//! All ranks of a job get it by one command in the order of the cluster; of some ranks, those of
//! each node by a command of their own. Users of other nodes need `cluster.control_from` there.

use super::job_on_nodes::{CalledNodes, JobOnNodes, call};
use crate::cli::client::with_daemon;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use monitor_client::Client;
use monitor_cluster::node_set::fold;
use monitor_format::events::signal_name;
use monitor_format::human;
use monitor_jobs::RankSet;
use monitor_model::event::Signal;
use monitor_omis::Value;
use monitor_protocol::cluster::NodeOutcome;
use std::path::Path;
use std::time::Duration;

/// What is done to ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankAction {
    /// They are stopped.
    Hold,
    /// They run again.
    Release,
    /// They get this signal.
    Signal(u32),
    /// The job is ended: its launcher gets SIGTERM, or its ranks if no node has that.
    End,
}

/// SIGCONT and SIGSTOP.
const CONTINUE: u32 = 18;
const STOP: u32 = 19;

impl RankAction {
    /// The request for a job, or for ranks of it.
    fn request(self, job: &str) -> String {
        let job = Value::from(job);
        match self {
            Self::Hold => format!("job_signal({job},{STOP})"),
            Self::Release => format!("job_signal({job},{CONTINUE})"),
            Self::Signal(number) => format!("job_signal({job},{number})"),
            Self::End => format!("job_end({job})"),
        }
    }

    fn done(self) -> String {
        match self {
            Self::Hold => "held".to_owned(),
            Self::Release => "released".to_owned(),
            Self::Signal(number) => {
                format!("sent {} to", signal_name(&Signal { number, code: 0, thread: None }))
            }
            Self::End => "sent SIGTERM to".to_owned(),
        }
    }
}

/// Acts on ranks on the nodes.
///
/// # Errors
/// No node has the job, or several jobs have this name; the set is none, or no service answers.
pub fn act_nodes(
    action: RankAction,
    written: &str,
    (on, socket): ((&str, Duration), Option<&Path>),
) -> Result<Exit, Failure> {
    with_daemon(socket, async |client| -> Result<Exit, Failure> {
        let job = JobOnNodes::find(&client, on, written).await?;
        if action == RankAction::End && job.named.is_some() {
            return Err(Failure::usage("a job is ended as a whole: name it without ranks"));
        }
        act(action, (job, on.1), &client).await
    })
}

async fn act(
    action: RankAction,
    (mut job, within): (JobOnNodes, Duration),
    client: &Client,
) -> Result<Exit, Failure> {
    let launchers = job.parts.values().filter(|part| part.launcher.is_some()).count();
    if action == RankAction::End && launchers > 0 {
        // It ends the ranks on the other nodes.
        job.parts.retain(|_, part| part.launcher.is_some());
    }
    let mut done: Vec<String> = Vec::new();
    let (mut missing, mut is_denied) = (std::mem::take(&mut job.missing), false);
    for (nodes, name) in job.targets() {
        let found = call(client, (&nodes, within), &action.request(&name)).await?;
        let CalledNodes { results, without, missing: refused, is_denied: denied, .. } = found;
        done.extend(results.into_iter().map(|(node, _)| node));
        is_denied |= denied;
        missing.extend(refused);
        for node in without {
            missing.add(&node, (NodeOutcome::Refused, "the job has ended there meanwhile"));
        }
    }
    if done.is_empty() {
        let exit = missing.end(0, Exit::Ok);
        let exit = if is_denied { Exit::Denied } else { exit };
        return Ok(exit);
    }
    let exit = output::print(line(action, &job, (&done, launchers > 0)).as_bytes())?;
    Ok(missing.end(done.len(), exit))
}

/// A line such as `job 77: held ranks 0-3 on n[1-2]`.
fn line(action: RankAction, job: &JobOnNodes, (done, has_launcher): (&[String], bool)) -> String {
    let parts = job.parts.iter().filter(|(node, _)| done.contains(node));
    let ranks: RankSet = parts.flat_map(|(_, part)| part.ranks.iter().map(|it| it.rank)).collect();
    let (id, what) = (human::escaped_text(&job.id), action.done());
    let nodes = fold(done.iter().map(String::as_str));
    let nodes = human::escaped_text(&nodes);
    if action == RankAction::End && has_launcher {
        return format!("job {id}: {what} its launcher on {nodes}\n");
    }
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("job {id}: {what} {noun} {ranks} on {nodes}\n")
}
