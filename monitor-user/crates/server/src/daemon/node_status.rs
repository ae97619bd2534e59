//! The call `node_status`: what a node says of itself.
//!
//! In: the caller. Out: facts of the program and the kernel, load and memory of one reading, and
//! the jobs, all as the caller may see them: they are read on a connection of its user inside the
//! daemon.

use super::DaemonLoop;
use super::cluster_bridge::reply_later;
use crate::cluster::answered;
use crate::http::message::{Message, lines};
use crate::http::{DaemonRequest, LoopbackClient};
use crate::policy::Peer;
use monitor_model::{Refusal, Status};
use monitor_omis::{Value, parse};
use monitor_protocol::cluster::{MemberState, Members, NodeStatus};
use monitor_protocol::{Conn, call::Tag};
use monitor_sys::{clock, users};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long readings are awaited: what is not there then is absent.
const WITHIN: Duration = Duration::from_secs(2);
/// The tag of the reading.
const READING: u64 = 0;
/// The request for the jobs.
const JOBS: &str = "1 [0] job_list()";

impl DaemonLoop {
    /// Answers `node_status`.
    pub(super) fn node_status(&self, to: Conn, tag: Tag) {
        let (Some(viewer), Some(tool)) = (self.clients.viewer(to), self.clients.tool(to)) else {
            return;
        };
        let usage = self.usage.status();
        let status = NodeStatus {
            node: self.cluster_bridge.node().to_owned(),
            version: usage.version,
            backend: self.backend_name.to_owned(),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            uptime_ns: usage.uptime_ns,
            files: self.files_bridge.address_for_nodes(),
            ..NodeStatus::default()
        };
        let requests = self.http.requests();
        let members = self.cluster_bridge.members();
        let (uid, gid, pid) = (tool.uid, tool.gid, tool.pid);
        reply_later(viewer, tag, async move {
            let groups = tokio::task::spawn_blocking(move || users::groups(uid, gid)).await;
            let peer = Peer { uid, gid, pid, groups: groups.unwrap_or_default() };
            complete(status, (requests, peer), members).await
        });
    }
}

/// Adds what has to be read.
async fn complete(
    mut status: NodeStatus,
    (requests, peer): (Sender<DaemonRequest>, Peer),
    members: Option<oneshot::Receiver<Members>>,
) -> Result<NodeStatus, Refusal> {
    let denied = |why| Refusal::new(Status::NoPermissions, why);
    let client = LoopbackClient::connect_user(&requests, peer).await.map_err(denied)?;
    // What is not read in time is absent.
    let _ = timeout(WITHIN, read(&client, &mut status)).await;
    if let Some(members) = members {
        let members = answered(members).await?;
        let own = members.members.into_iter().find(|it| it.node == status.node);
        let own = own.filter(|it| matches!(it.state, MemberState::Up | MemberState::Draining));
        status.member_since_unix_ns = own.and_then(|it| it.since_unix_ns);
    }
    status.unix_ns = clock::now().unix.0;
    Ok(status)
}

/// The part of a sample that is read.
#[derive(Deserialize)]
struct NodeSample {
    node_stats: NodeNumbers,
}

#[derive(Deserialize)]
struct NodeNumbers {
    load1: Option<f64>,
    mem_total_bytes: Option<u64>,
    mem_available_bytes: Option<u64>,
}

/// Reads load, memory and jobs.
async fn read(client: &LoopbackClient, status: &mut NodeStatus) {
    let fields = ["load1", "mem_total_bytes", "mem_available_bytes"];
    client.call(READING, "monitor", &json!({"part": "node", "fields": fields})).await;
    client.request(JOBS.to_owned()).await;
    let (mut has_reading, mut has_jobs) = (false, false);
    while !(has_reading && has_jobs) {
        let Some(chunk) = client.next_lines().await else { return };
        for line in lines(&chunk) {
            match Message::from_line(line) {
                Some(message) if message.id == Some(READING) => {
                    has_reading = true;
                    let sample = message.sample().and_then(|it| it.0);
                    let numbers = sample.and_then(|it| serde_json::from_str(it.get()).ok());
                    if let Some(NodeSample { node_stats: numbers }) = numbers {
                        status.load1 = numbers.load1;
                        status.mem_total_bytes = numbers.mem_total_bytes;
                        status.mem_available_bytes = numbers.mem_available_bytes;
                    }
                }
                Some(_) => {}
                None => {
                    has_jobs = true;
                    status.jobs = n_jobs(line);
                }
            }
        }
    }
}

/// Values of a job in the reply of `job_list`.
const JOB_VALUES: usize = 8;

/// The number of jobs in the reply of `job_list`: one list with the values of all.
fn n_jobs(line: &[u8]) -> Option<u64> {
    let reply = parse::reply(line).ok()?;
    let answer = reply.0.first().filter(|it| it.status.is_success())?;
    let Some(Value::List(values)) = answer.results.first() else { return None };
    u64::try_from(values.len() / JOB_VALUES).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jobs_of_a_reply_are_counted() {
        assert_eq!(n_jobs(b"1 [0] job_list(0,[])"), Some(0));
        let one = r#""77","slurm",6,0,1,2,"running",9.0"#;
        assert_eq!(n_jobs(format!("1 [0] job_list(0,[{one},{one}])").as_bytes()), Some(2));
        assert_eq!(n_jobs(b"1 [0] job_list(400)"), None);
        assert_eq!(n_jobs(b"nonsense"), None);
    }
}
