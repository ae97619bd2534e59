//! Files of `mon/` of another node, read there as the user `none`: `nodes/NAME/mon/`.
//!
//! In: opens and reads. Out: what the other node replies, by the same offsets. All open files of a
//! node share a connection, which is made for the first and closed a while after the last: a
//! connection that has opened `event` makes the other node follow its events.

use crate::lock::lock;
use bytes::Bytes;
use monitor_ninep::tree::{Later, ReadRange};
use monitor_ninep::{Errno, FileError};
use monitor_remote::{Address, Connector, Remote, RemoteError, RemoteFile, RemoteMode};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::sleep;

/// Most open files of a node, and those of one user except root.
const MAX_OPEN: (usize, usize) = (64, 16);
/// How long the other node may take to answer all but reads.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// How long the connection stays when the last file was closed: a shell opens it again.
const CLOSE_DELAY: Duration = Duration::from_secs(60);
/// Reads that a client has given up and whose replies are kept for its next ones.
const MAX_KEPT: usize = 4;
/// The user that observes what any may.
const USER: &str = "none";

/// A file that is read on the other node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxiedFile {
    /// What a sample has.
    Desc,
    /// The next events.
    Event,
    /// A sample.
    Pull,
}

/// The files in the order in which they are listed.
pub const PROXIED: [(ProxiedFile, &str); 3] =
    [(ProxiedFile::Desc, "desc"), (ProxiedFile::Event, "event"), (ProxiedFile::Pull, "pull")];

impl ProxiedFile {
    /// Its name.
    pub fn name(self) -> &'static str {
        PROXIED.iter().find(|it| it.0 == self).map_or("", |it| it.1)
    }
}

/// The open files of a node.
pub struct NodeProxy {
    name: String,
    address: Option<Address>,
    connector: Connector,
    connection: tokio::sync::Mutex<Option<Arc<Remote>>>,
    open: Mutex<OpenFiles>,
}

#[derive(Default)]
struct OpenFiles {
    /// By uid.
    users: BTreeMap<u32, usize>,
    /// How many files were opened so far.
    opened: u64,
}

/// A file that counts until it is dropped.
struct OpenSlot {
    proxy: Arc<NodeProxy>,
    uid: u32,
}

impl Drop for OpenSlot {
    fn drop(&mut self) {
        let mut open = lock(&self.proxy.open);
        if let Some(count) = open.users.get_mut(&self.uid) {
            *count -= 1;
            if *count == 0 {
                open.users.remove(&self.uid);
            }
        }
        // At the end of the service there is nothing to run it, and nothing to close.
        if open.users.is_empty()
            && let Ok(runtime) = Handle::try_current()
        {
            drop(runtime.spawn(disconnect(Arc::clone(&self.proxy), open.opened)));
        }
    }
}

/// Closes the connection, unless a file is opened meanwhile.
async fn disconnect(proxy: Arc<NodeProxy>, opened: u64) {
    sleep(CLOSE_DELAY).await;
    let mut connection = proxy.connection.lock().await;
    if lock(&proxy.open).opened == opened {
        *connection = None;
    }
}

impl NodeProxy {
    /// No open files of the node of this name and address, which the connector connects to.
    pub fn new((name, address): (String, Option<Address>), connector: Connector) -> Arc<Self> {
        Arc::new(Self {
            name,
            address,
            connector,
            connection: tokio::sync::Mutex::default(),
            open: Mutex::default(),
        })
    }

    /// Opens a file, for a user.
    ///
    /// # Errors
    ///
    /// When too many are open, or the other node does not answer or refuses.
    pub async fn open(
        self: Arc<Self>,
        uid: u32,
        file: ProxiedFile,
    ) -> Result<ProxyFile, FileError> {
        let address = self.address.as_ref().ok_or_else(|| self.no_address())?;
        let slot = self.slot(uid)?;
        let remote = self.remote(address).await.map_err(file_error)?;
        let path = format!("mon/{}", file.name());
        let file = remote.open(&path, RemoteMode::Read).await.map_err(file_error)?;
        Ok(ProxyFile { file: Arc::new(file), reads: BTreeMap::new(), _slot: slot })
    }

    fn slot(self: &Arc<Self>, uid: u32) -> Result<OpenSlot, FileError> {
        let mut open = lock(&self.open);
        let own = open.users.get(&uid).copied().unwrap_or(0);
        let all: usize = open.users.values().sum();
        if all >= MAX_OPEN.0 || uid != 0 && own >= MAX_OPEN.1 {
            let why = "too many files of this node are open: close one";
            return Err(FileError::new(Errno::TryAgain, why));
        }
        open.users.insert(uid, own + 1);
        open.opened += 1;
        Ok(OpenSlot { proxy: Arc::clone(self), uid })
    }

    fn no_address(&self) -> FileError {
        let name = &self.name;
        let why = format!("no address of the files of {name} is known: does it have files.tls?");
        FileError::new(Errno::NoProcess, why)
    }

    /// The connection that all files share.
    async fn remote(&self, address: &Address) -> Result<Arc<Remote>, RemoteError> {
        let mut connection = self.connection.lock().await;
        if let Some(remote) = connection.as_ref().filter(|it| it.closed().is_none()) {
            return Ok(Arc::clone(remote));
        }
        let remote = self.connector.connect(address, USER, ANSWER_TIME).await;
        let remote = Arc::new(remote?);
        Ok(Arc::clone(connection.insert(remote)))
    }
}

/// An open file.
pub struct ProxyFile {
    file: Arc<RemoteFile>,
    /// Reads that wait for the other node, by their offsets. One that its client has given up
    /// stays, so that what it takes there is for the next read.
    reads: BTreeMap<u64, Later<Bytes>>,
    _slot: OpenSlot,
}

impl ProxyFile {
    /// The bytes of a range.
    pub fn poll_read(
        &mut self,
        range: ReadRange,
        context: &mut Context<'_>,
    ) -> Poll<Result<Bytes, FileError>> {
        let read = self.reads.entry(range.offset).or_insert_with(|| {
            let file = Arc::clone(&self.file);
            let count = u32::try_from(range.count).unwrap_or(u32::MAX);
            Box::pin(async move { file.read(range.offset, count).await.map_err(file_error) })
        });
        let Poll::Ready(read) = read.as_mut().poll(context) else { return Poll::Pending };
        self.reads.remove(&range.offset);
        // A reply to an earlier read may be longer than this one asks for: the rest is read again.
        Poll::Ready(read.map(|it| it.slice(..it.len().min(range.count))))
    }

    /// A read is not waited for any longer.
    pub fn abandon(&mut self) {
        if self.reads.len() > MAX_KEPT {
            self.reads.clear();
        }
    }
}

/// The error of a call to the other node, for a client of this one.
fn file_error(why: RemoteError) -> FileError {
    let errno = match &why {
        RemoteError::NotFound => Errno::NotFound,
        RemoteError::Refused { text } => {
            let known = Errno::ALL.into_iter().find(|it| it.text() == text);
            known.unwrap_or(Errno::Io)
        }
        RemoteError::TooManyFiles { .. } => Errno::TryAgain,
        _ => Errno::Io,
    };
    FileError::new(errno, format!("the other node: {why}"))
}
