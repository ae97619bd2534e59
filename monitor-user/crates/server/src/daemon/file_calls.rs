//! The calls `send_file` and `receive_file`: files that go from node to node beside the bus.
//!
//! In: a file and a set of nodes; or what another node announces. Out: what became of the file on
//! each node; or a key for it. The bus carries name, size and SHA-256, and the key back.

use super::DaemonLoop;
use super::cluster_bridge::{alone, reply_later};
use crate::cluster::{ClusterJobs, GatherCall};
use crate::files::{FileToSend, NodeFiles, Uploads, send};
use crate::user_shares::UserShare;
use monitor_model::{Credentials, Refusal, Status};
use monitor_protocol::call::{Call, Tag};
use monitor_protocol::cluster::{Gather, NodeOutcome, NodeReply};
use monitor_protocol::reply::CallReply;
use monitor_protocol::transfer::{NodeSent, ReceiveFile, ReceivingFile, SendFile, SentFile};
use monitor_protocol::{Conn, reply};
use monitor_remote::Address;
use monitor_sys::users;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_blocking};

/// Nodes that a file is uploaded to at a time.
const WIDTH: usize = 8;

impl DaemonLoop {
    /// Answers `receive_file` with the key that permits to upload the file.
    pub(super) fn receive_file(&self, to: Conn, tag: Tag, file: ReceiveFile) {
        let Some(viewer) = self.clients.viewer(to) else { return };
        let node = self.files_bridge.node();
        let Some((uploads, address)) = node.and_then(|it| receives(it)) else {
            let why = "this node takes no files of others: set files.tls in its configuration";
            let refusal = Refusal::new(Status::NotSupported, why);
            return viewer.outbox.reply(reply::refusal_line(&tag, &refusal));
        };
        let uid = viewer.uid;
        reply_later(viewer, tag, async move {
            let user = known_user(uid).await?;
            let announced = blocking(move || uploads.announce(user, file, Instant::now()));
            let (key, path) = announced.await?;
            let path = path.display().to_string();
            Ok(ReceivingFile { address: address.to_string(), key, path })
        });
    }

    /// Answers `send_file` when the file is on all nodes, or known not to be.
    pub(super) fn send_file(&mut self, to: Conn, tag: Tag, params: SendFile) {
        let (Some(viewer), Some(share)) = (self.clients.viewer(to), self.clients.share(to)) else {
            return;
        };
        let uid = viewer.uid;
        let ready = || {
            let jobs = self.cluster_bridge.jobs().ok_or_else(alone)?;
            let unserved = || {
                let why = "this node serves no files: see files.tls in its configuration";
                Refusal::new(Status::NotSupported, why)
            };
            let node = Arc::clone(self.files_bridge.node().ok_or_else(unserved)?);
            self.file_sends.check_room(uid)?;
            Ok(Sending { jobs, node, share, uid })
        };
        let sending = match ready() {
            Ok(sending) => sending,
            Err(refusal) => return viewer.outbox.reply(reply::refusal_line(&tag, &refusal)),
        };
        let task = tokio::spawn(async move {
            let line = match sending.send(params).await {
                Ok(sent) => reply::result_line(&tag, sent),
                Err(refusal) => reply::refusal_line(&tag, &refusal),
            };
            viewer.outbox.reply(line);
        });
        self.file_sends.add(to, uid, task.abort_handle());
    }
}

/// What a node takes files with, and where; `None` if it takes none.
fn receives(node: &NodeFiles) -> Option<(Arc<Uploads>, Address)> {
    let address = node.address().filter(|it| matches!(it, Address::Tls(_)))?;
    Some((Arc::clone(node.uploads.as_ref()?), address))
}

/// What a file is sent with.
struct Sending {
    jobs: ClusterJobs,
    node: Arc<NodeFiles>,
    share: Arc<UserShare>,
    uid: u32,
}

impl Sending {
    /// Announces a file to nodes, and uploads it to those that take it.
    async fn send(self, params: SendFile) -> Result<SentFile, Refusal> {
        let user = known_user(self.uid).await?;
        let SendFile { path, nodes, name, within_ns } = params;
        let of_path = || Some(Path::new(&path).file_name()?.to_str()?.to_owned());
        let nameless = || Refusal::bad(format!("name: {path:?} has none: give one"));
        let name = name.or_else(of_path).ok_or_else(nameless)?;
        let file = blocking(move || FileToSend::open(&path, (user.uid, user.gid))).await?;
        let (bytes, sha256, executable) = (file.bytes, file.sha256, file.executable);
        let call = Call::ReceiveFile(ReceiveFile { name, bytes, sha256, executable });
        let gather = Gather { nodes: Some(nodes), line: call.to_text(), within_ns };
        let gathered = self.jobs.gather(GatherCall { uid: self.uid, params: gather }).await?;
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

/// A user of this host.
async fn known_user(uid: u32) -> Result<Credentials, Refusal> {
    // The look-up may wait for a name service.
    let gid = blocking(move || Ok(users::primary_group(uid))).await?;
    let unknown = || Refusal::denied(format!("user {uid} is not known on this node"));
    gid.map(|gid| Credentials { uid, gid }).ok_or_else(unknown)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let stopping = |_| Refusal::new(Status::NotAvailable, "the daemon is stopping");
    spawn_blocking(work).await.map_err(stopping)?
}
