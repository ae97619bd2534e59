//! A file of this node for several others: announced to all, then uploaded to each that takes it.
//!
//! In: a file of a user, a set of nodes. Out: what became of it on each node.

use super::sender::{FileToSend, send};
use crate::blocking::blocking;
use crate::cluster::{ClusterJobs, GatherCall};
use crate::files::NodeFiles;
use crate::user_shares::UserShare;
use monitor_model::{Credentials, Refusal};
use monitor_protocol::call::Call;
use monitor_protocol::cluster::{Gather, NodeOutcome, NodeReply};
use monitor_protocol::reply::CallReply;
use monitor_protocol::transfer::{NodeSent, ReceiveFile, ReceivingFile, SendFile, SentFile};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Nodes that a file is uploaded to at a time.
const WIDTH: usize = 8;

/// What files are sent with.
#[derive(Clone)]
pub struct FileSender {
    /// The bus.
    pub jobs: ClusterJobs,
    /// The files of this node, with its certificate.
    pub node: Arc<NodeFiles>,
    /// The user that is charged.
    pub share: Arc<UserShare>,
}

impl FileSender {
    /// Announces a file of a user to nodes, and uploads it to those that take it.
    ///
    /// # Errors
    /// The file cannot be read, the nodes are none, or this node is not connected.
    pub async fn send(&self, user: Credentials, params: SendFile) -> Result<SentFile, Refusal> {
        let SendFile { path, nodes, name, within_ns } = params;
        let of_path = || Some(Path::new(&path).file_name()?.to_str()?.to_owned());
        let nameless = || Refusal::bad(format!("name: {path:?} has none: give one"));
        let name = name.or_else(of_path).ok_or_else(nameless)?;
        let file = blocking(move || FileToSend::open(&path, (user.uid, user.gid))).await?;
        let (bytes, sha256, executable) = (file.bytes, file.sha256, file.executable);
        let call = Call::ReceiveFile(ReceiveFile { name, bytes, sha256, executable });
        let gather = Gather { nodes: Some(nodes), line: call.to_text(), within_ns };
        let gathered = self.jobs.gather(GatherCall { uid: user.uid, params: gather }).await?;
        let nodes = self.upload(Arc::new(file), gathered.nodes).await;
        Ok(SentFile { bytes, sha256, nodes })
    }

    async fn upload(&self, file: Arc<FileToSend>, replies: Vec<NodeReply>) -> Vec<NodeSent> {
        let permits = Arc::new(Semaphore::new(WIDTH));
        let (mut tasks, mut sent) = (JoinSet::new(), Vec::new());
        for it in replies {
            let NodeReply { node, outcome, reply, why, .. } = it;
            match reply.map(|line| receiving(&line)) {
                None => sent.push(NodeSent { node, outcome, path: None, why }),
                Some(Err(why)) => {
                    let (outcome, why) = (NodeOutcome::Refused, Some(why));
                    sent.push(NodeSent { node, outcome, path: None, why });
                }
                Some(Ok(to)) => {
                    let connector = self.node.connector.clone();
                    let (file, share) = (Arc::clone(&file), Arc::clone(&self.share));
                    let permits = Arc::clone(&permits);
                    tasks.spawn(async move {
                        // The semaphore is never closed.
                        let _permit = permits.acquire_owned().await;
                        let (path, outcome, why) =
                            match send(&connector, &file, (&to, &share)).await {
                                Ok(()) => (Some(to.path), NodeOutcome::Executed, None),
                                Err((outcome, why)) => (None, outcome, Some(why)),
                            };
                        NodeSent { node, outcome, path, why }
                    });
                }
            }
        }
        sent.extend(tasks.join_all().await);
        sent.sort_by(|one, other| one.node.cmp(&other.node));
        sent
    }
}

/// Reads the reply to `receive_file`.
fn receiving(line: &str) -> Result<ReceivingFile, String> {
    let malformed = |why| format!("its reply is malformed: {why}");
    let reply: CallReply<ReceivingFile> = serde_json::from_str(line).map_err(malformed)?;
    reply.into_result("its reply has no result")
}
