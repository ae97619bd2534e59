//! The root of a node as one connection sees it.
//!
//! In: names and reads. Out: texts of this node, of this connection, and of the sampling pipeline
//! with the visibility of the user that attached. Measures and decides nothing.

use super::identity::{NONE_UID, attach_user};
use super::node::NodeFiles;
use super::process_list::{ListReader, ProcessList};
use super::sexpr::put_pair;
use crate::policy::Peer;
use crate::user_shares::UserShare;
use bytes::Bytes;
use monitor_ninep::stat::{Attributes, Qid};
use monitor_ninep::tree::{Attached, Deferred, Direction, OpenMode, ReadRange, Tree};
use monitor_ninep::{Errno, FileError, User};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A file of the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFile {
    /// The directory.
    Root,
    /// Operating system and machine.
    Arch,
    /// The same under its old name.
    Uname,
    /// This program.
    Version,
    /// The user of the attach.
    Whoami,
    /// All processes.
    Procs,
    /// The state that an administrator has set.
    State,
    /// The default environment of sessions.
    Env,
    /// The last error of the connection.
    Err,
}

/// The files in the order in which they are listed.
const FILES: [(NodeFile, &str); 8] = [
    (NodeFile::Arch, "arch"),
    (NodeFile::Env, "env"),
    (NodeFile::Err, "err"),
    (NodeFile::Procs, "procs"),
    (NodeFile::State, "state"),
    (NodeFile::Uname, "uname"),
    (NodeFile::Version, "version"),
    (NodeFile::Whoami, "whoami"),
];

/// An open file.
pub enum OpenFile {
    /// A text that does not change while it is open.
    Text(Bytes),
    /// The last error: taken again by a read from 0.
    Err(Bytes),
    /// The processes: read again by a read from 0.
    Procs(Box<ListReader>),
}

/// The root for one connection.
pub struct NodeTree {
    node: Arc<NodeFiles>,
    peer: Peer,
    /// The name of the peer's user.
    own_name: String,
    /// The users that have attached.
    names: BTreeMap<u32, String>,
    processes: Arc<ProcessList>,
    /// The explanation of the last error, and how many there were.
    last_error: (String, u32),
}

impl NodeTree {
    /// The root for a connection of this peer.
    pub fn new(
        node: &Arc<NodeFiles>,
        (peer, own_name): (Peer, String),
        share: Arc<UserShare>,
    ) -> Self {
        let processes = Arc::new(ProcessList::new(node.requests.clone(), (peer.pid, share)));
        Self {
            node: Arc::clone(node),
            peer,
            own_name,
            names: BTreeMap::new(),
            processes,
            last_error: (String::new(), 0),
        }
    }

    fn whoami(&self, user: &User) -> String {
        let auth = if user.uid == NONE_UID { "none" } else { "peercred" };
        let mut out = "(whoami ".to_owned();
        put_pair(&mut out, "user", &user.name);
        out.push(' ');
        put_pair(&mut out, "uid", &user.uid.to_string());
        out.push(' ');
        put_pair(&mut out, "auth", auth);
        out.push_str(")\n");
        out
    }

    fn error_text(&self) -> Bytes {
        Bytes::copy_from_slice(self.last_error.0.as_bytes())
    }

    /// The text of a file that is read at once.
    fn text(&self, user: &User, file: NodeFile) -> Bytes {
        match file {
            NodeFile::Arch | NodeFile::Uname => Bytes::copy_from_slice(self.node.arch.as_bytes()),
            NodeFile::Version => Bytes::copy_from_slice(self.node.version.as_bytes()),
            NodeFile::Env => Bytes::from_static(self.node.env.as_bytes()),
            NodeFile::Whoami => self.whoami(user).into(),
            NodeFile::Err => self.error_text(),
            NodeFile::Root | NodeFile::Procs | NodeFile::State => Bytes::new(),
        }
    }
}

impl Tree for NodeTree {
    type Node = NodeFile;
    type File = OpenFile;

    fn attach(&mut self, user: &str, tree: &str) -> Result<Attached<NodeFile>, FileError> {
        if !matches!(tree, "" | "/") {
            let why = format!("there is no tree {tree:?} here: attach without its name");
            return Err(FileError::new(Errno::NotFound, why));
        }
        let user = attach_user(&self.peer, &self.own_name, user)?;
        self.names.insert(user.uid, user.name.clone());
        Ok(Attached { user: Arc::new(user), root: NodeFile::Root })
    }

    fn walk(&mut self, _: &User, from: &NodeFile, name: &str) -> Result<NodeFile, FileError> {
        let found = FILES.iter().find(|it| it.1 == name && *from == NodeFile::Root);
        match found {
            Some((file, _)) => Ok(*file),
            None if name == ".." => Ok(NodeFile::Root),
            None => Err(FileError::new(Errno::NotFound, format!("there is no file {name:?}"))),
        }
    }

    fn attributes(&self, user: &User, file: &NodeFile) -> Attributes {
        let path = *file as u64;
        let name = FILES.iter().find(|it| it.0 == *file).map_or("/", |it| it.1);
        let (version, length) = match file {
            NodeFile::Procs => self.processes.last(user.uid),
            NodeFile::Err => (self.last_error.1, self.last_error.0.len()),
            file => (0, self.text(user, *file).len()),
        };
        let (qid, permissions) = match file {
            NodeFile::Root => (Qid::directory(path), 0o555),
            NodeFile::Err => (Qid { version, ..Qid::file(path) }, 0o400),
            _ => (Qid { version, ..Qid::file(path) }, 0o444),
        };
        let is_own = *file == NodeFile::Err;
        let (uid, gid) =
            if is_own { (user.uid, user.gid) } else { (self.node.owner.0, self.node.group.0) };
        let modified_s = self.node.started_s;
        Attributes {
            qid,
            permissions,
            modified_s,
            length: length as u64,
            name: name.into(),
            uid,
            gid,
        }
    }

    /// The length of `procs` is that of a new reading, which the next open uses: a client that
    /// reads as many bytes as the length says gets whole lines.
    fn stat(
        &mut self,
        user: &Arc<User>,
        file: &NodeFile,
        open: Option<&OpenFile>,
    ) -> Deferred<Attributes> {
        let mut attributes = self.attributes(user, file);
        match (file, open) {
            (NodeFile::Procs, Some(OpenFile::Procs(reader))) => {
                attributes.length = reader.length() as u64;
            }
            (NodeFile::Procs, _) => {
                let (list, user) = (Arc::clone(&self.processes), Arc::clone(user));
                return Deferred::Later(Box::pin(async move {
                    let (version, length) = list.read_for_stat(&user).await?;
                    attributes.qid.version = version;
                    attributes.length = length as u64;
                    Ok(attributes)
                }));
            }
            _ => {}
        }
        Deferred::Now(Ok(attributes))
    }

    fn entries(&mut self, user: &User, _: &NodeFile) -> Result<Vec<Attributes>, FileError> {
        Ok(FILES.iter().map(|(file, _)| self.attributes(user, file)).collect())
    }

    fn open(&mut self, user: &Arc<User>, file: &NodeFile, mode: OpenMode) -> Deferred<OpenFile> {
        if mode.write || mode.truncate {
            // Root passes the permission bits.
            let why = format!("{} is only read", self.attributes(user, file).name);
            return Deferred::Now(Err(FileError::new(Errno::NotPermitted, why)));
        }
        Deferred::Now(Ok(match file {
            NodeFile::Procs => {
                let reader = ListReader::new(Arc::clone(&self.processes), Arc::clone(user));
                OpenFile::Procs(Box::new(reader))
            }
            NodeFile::Err => OpenFile::Err(self.error_text()),
            file => OpenFile::Text(self.text(user, *file)),
        }))
    }

    fn read(
        &mut self,
        file: &mut OpenFile,
        range: ReadRange,
        context: &mut Context<'_>,
    ) -> Poll<Result<Bytes, FileError>> {
        match file {
            OpenFile::Text(text) => Poll::Ready(Ok(part(text, range))),
            OpenFile::Err(text) => {
                if range.offset == 0 {
                    *text = self.error_text();
                }
                Poll::Ready(Ok(part(text, range)))
            }
            OpenFile::Procs(reader) => {
                reader.poll(range.offset, context).map_ok(|text| part(&text, range))
            }
        }
    }

    fn abandon(&mut self, file: &mut OpenFile, _: Direction) {
        if let OpenFile::Procs(reader) = file {
            reader.abandon();
        }
    }

    fn user_name(&self, uid: u32) -> String {
        if uid == self.node.owner.0 {
            return self.node.owner.1.clone();
        }
        self.names.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }

    fn group_name(&self, gid: u32) -> String {
        if gid == self.node.group.0 { self.node.group.1.clone() } else { gid.to_string() }
    }

    fn failed(&mut self, error: &FileError) {
        self.last_error.0 = format!("{}\n", error.explanation);
        self.last_error.1 = self.last_error.1.wrapping_add(1);
    }
}

/// The bytes of a text in a range.
fn part(text: &Bytes, range: ReadRange) -> Bytes {
    let start = usize::try_from(range.offset).unwrap_or(usize::MAX).min(text.len());
    let end = start.saturating_add(range.count).min(text.len());
    text.slice(start..end)
}
