//! The calls `send_file` and `receive_file`: files that go from node to node beside the bus.
//!
//! In: a file and a set of nodes; or what another node announces. Out: what became of the file on
//! each node; or a key for it. The bus carries name, size and SHA-256, and the key back.

use super::DaemonLoop;
use super::cluster_bridge::{alone, reply_later};
use crate::blocking::blocking;
use crate::files::{FileSender, NodeFiles, Uploads};
use monitor_model::{Credentials, Refusal, Status};
use monitor_protocol::call::Tag;
use monitor_protocol::transfer::{ReceiveFile, ReceivingFile, SendFile};
use monitor_protocol::{Conn, reply};
use monitor_remote::Address;
use monitor_sys::users;
use std::sync::Arc;
use std::time::Instant;

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
        let Some(viewer) = self.clients.viewer(to) else { return };
        let uid = viewer.uid;
        let sender = self.file_sender(to);
        let sender = sender.and_then(|it| self.file_sends.check_room(uid).map(|()| it));
        let sender = match sender {
            Ok(sender) => sender,
            Err(refusal) => return viewer.outbox.reply(reply::refusal_line(&tag, &refusal)),
        };
        let task = tokio::spawn(async move {
            let sent = async { sender.send(known_user(uid).await?, params).await };
            let line = match sent.await {
                Ok(sent) => reply::result_line(&tag, sent),
                Err(refusal) => reply::refusal_line(&tag, &refusal),
            };
            viewer.outbox.reply(line);
        });
        self.file_sends.add(to, uid, task.abort_handle());
    }
}

impl DaemonLoop {
    /// What sends files for a client.
    pub(super) fn file_sender(&mut self, to: Conn) -> Result<FileSender, Refusal> {
        let gone = || Refusal::new(Status::NotAvailable, "the client has gone");
        let jobs = self.cluster_bridge.jobs().ok_or_else(alone)?;
        let unserved = || {
            let why = "this node serves no files: see files.tls in its configuration";
            Refusal::new(Status::NotSupported, why)
        };
        let node = Arc::clone(self.files_bridge.node().ok_or_else(unserved)?);
        Ok(FileSender { jobs, node, share: self.clients.share(to).ok_or_else(gone)? })
    }
}

/// What a node takes files with, and where; `None` if it takes none.
fn receives(node: &NodeFiles) -> Option<(Arc<Uploads>, Address)> {
    let address = node.address().filter(|it| matches!(it, Address::Tls(_)))?;
    Some((Arc::clone(node.uploads.as_ref()?), address))
}

/// A user of this host.
async fn known_user(uid: u32) -> Result<Credentials, Refusal> {
    // The look-up may wait for a name service.
    let gid = blocking(move || Ok(users::primary_group(uid))).await?;
    let unknown = || Refusal::denied(format!("user {uid} is not known on this node"));
    gid.map(|gid| Credentials { uid, gid }).ok_or_else(unknown)
}
