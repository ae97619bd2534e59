//! The root of a node as one connection sees it.
//!
//! In: names, reads and writes. Out: texts of this node, of this connection, and of the sampling
//! pipeline with the visibility of the user that attached; the sessions of that user. Measures and
//! decides nothing.

use super::identity::{NONE_UID, attach_user};
use super::mon_file::MonFile;
use super::node::NodeFiles;
use super::node_control::NodeControlFile;
use super::node_file::NodeFile::{self, Mon, Root};
use super::node_file::{FILES, mon_file, node_text};
use super::node_texts::NodeText;
use super::open_monitor::{MonitorFiles, OpenMonitorFile};
use super::reading::{ReadingFile, ReadingKind, Readings};
use super::session::{
    LiveSession, OpenSessionFile, SessionContent, SessionFile, file_error, tree as session_tree,
};
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

/// A file of the tree.
#[derive(Clone)]
pub enum TreeFile {
    /// One of the node.
    Node(NodeFile),
    /// One of a session.
    Session(Arc<LiveSession>, SessionFile),
}

/// Longest explanation of an error that is kept, in bytes.
const MAX_EXPLANATION: usize = 1024;

/// An open file.
pub enum OpenFile {
    /// A text that does not change while it is open.
    Text(Bytes),
    /// The last error: taken again by a read from 0.
    Err(Bytes),
    /// A reading: made again by a read from 0.
    Reading(Box<ReadingFile>),
    /// A text of the node.
    NodeText(NodeText),
    /// Commands for the node, and what it says: taken again by a read from 0.
    Control(NodeControlFile, Bytes),
    /// A file of a session.
    Session(Box<OpenSessionFile>),
    /// What happens to the node or a session.
    Monitor(Box<OpenMonitorFile>),
}

/// The root for one connection.
pub struct NodeTree {
    node: Arc<NodeFiles>,
    peer: Peer,
    /// The name of the peer's user.
    own_name: String,
    /// The users that have attached.
    names: BTreeMap<u32, String>,
    processes: Arc<Readings>,
    node_samples: Arc<Readings>,
    /// Those of sessions, by their numbers.
    session_samples: BTreeMap<u32, Arc<Readings>>,
    /// What happens to the node and to sessions.
    monitor: MonitorFiles,
    /// The share of the peer's user.
    share: Arc<UserShare>,
    /// The explanation of the last error, and how many there were.
    last_error: (Bytes, u32),
}

impl NodeTree {
    /// The root for a connection of this peer.
    pub fn new(
        node: &Arc<NodeFiles>,
        (peer, own_name): (Peer, String),
        share: Arc<UserShare>,
    ) -> Self {
        let readings = |kind| {
            let of_peer = (peer.pid, Arc::clone(&share));
            Arc::new(Readings::new(kind, Arc::clone(node), of_peer))
        };
        let processes = readings(ReadingKind::Processes);
        let node_samples = readings(ReadingKind::Node);
        let monitor = MonitorFiles::new(Arc::clone(node), peer.pid, Arc::clone(&share));
        Self {
            node: Arc::clone(node),
            peer,
            own_name,
            names: BTreeMap::new(),
            processes,
            node_samples,
            session_samples: BTreeMap::new(),
            monitor,
            share,
            last_error: (Bytes::new(), 0),
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

    /// The readings of a file that has some.
    const fn readings(&self, file: NodeFile) -> Option<&Arc<Readings>> {
        match file {
            NodeFile::Procs => Some(&self.processes),
            NodeFile::MonPull => Some(&self.node_samples),
            _ => None,
        }
    }

    /// The readings of a session.
    fn session_readings(&mut self, session: &LiveSession) -> Arc<Readings> {
        let number = session.record.number;
        if !self.session_samples.contains_key(&number) {
            let sessions = &self.node.sessions;
            self.session_samples.retain(|number, _| sessions.get(*number).is_some());
        }
        let new = || {
            let of_peer = (self.peer.pid, Arc::clone(&self.share));
            let kind = ReadingKind::Session(number);
            Arc::new(Readings::new(kind, Arc::clone(&self.node), of_peer))
        };
        Arc::clone(self.session_samples.entry(number).or_insert_with(new))
    }

    /// How many sessions there are.
    fn control_text(&self) -> Bytes {
        let (sessions, running) = self.node.sessions.count();
        let draining = if self.node.sessions.is_draining() { "yes" } else { "no" };
        format!("(running {running} (sessions {sessions}) (draining {draining}))\n").into()
    }

    fn clear_text(&self, text: NodeText) {
        self.node.texts.clear(text);
        self.report_state(text);
    }

    /// A changed state of the node is an event.
    fn report_state(&self, text: NodeText) {
        if text == NodeText::State {
            let state = self.node.texts.get(text).0;
            let state = String::from_utf8_lossy(&state);
            let mut content = String::new();
            put_pair(&mut content, "state", state.trim_end());
            self.node.feeds.report(&content);
        }
    }

    fn error_text(&self) -> Bytes {
        self.last_error.0.clone()
    }

    /// The text of a file that is read at once.
    fn text(&self, user: &User, file: NodeFile) -> Bytes {
        match file {
            NodeFile::Arch | NodeFile::Uname => Bytes::copy_from_slice(self.node.arch.as_bytes()),
            NodeFile::Version => Bytes::copy_from_slice(self.node.version.as_bytes()),
            NodeFile::Env => self.node.texts.get(NodeText::Env).0,
            NodeFile::State => self.node.texts.get(NodeText::State).0,
            NodeFile::Control => self.control_text(),
            NodeFile::Whoami => self.whoami(user).into(),
            NodeFile::Err => self.error_text(),
            NodeFile::MonDesc => self.node.description.clone(),
            // Those of a reading, and those that wait for what happens.
            _ => Bytes::new(),
        }
    }
}

impl NodeTree {
    fn walk_node(&self, user: &User, from: NodeFile, name: &str) -> Result<TreeFile, FileError> {
        let named = FILES.iter().find(|it| it.1 == from && it.2 == name);
        match named.filter(|it| self.is_there(it.0)) {
            Some((file, ..)) => return Ok(TreeFile::Node(*file)),
            None if name == ".." => return Ok(TreeFile::Node(Root)),
            None => {}
        }
        let number = name.parse().ok().filter(|_| from == Root);
        let session = number.and_then(|number| self.node.sessions.get(number));
        // A session has one name, and is seen by its user.
        let session = session.filter(|it| it.record.number.to_string() == name);
        let session = session.filter(|it| user.uid == 0 || user.uid == it.record.user.uid);
        let absent = || FileError::new(Errno::NotFound, format!("there is no file {name:?}"));
        session.map(|it| TreeFile::Session(it, SessionFile::Directory)).ok_or_else(absent)
    }

    /// Without sessions there is no file that opens one.
    fn is_there(&self, file: NodeFile) -> bool {
        file != NodeFile::Clone || self.node.sessions.is_on()
    }

    fn node_attributes(&self, user: &User, file: NodeFile) -> Attributes {
        let path = file as u64;
        let name = FILES.iter().find(|it| it.0 == file).map_or("/", |it| it.2);
        let (version, length) = match (self.readings(file), file) {
            (Some(readings), _) => readings.last(user.uid),
            (None, NodeFile::Err) => (self.last_error.1, self.last_error.0.len()),
            (None, file) => {
                let version = node_text(file).map_or(0, |it| self.node.texts.get(it).1);
                (version, self.text(user, file).len())
            }
        };
        let (qid, permissions) = match file {
            Root | Mon => (Qid::directory(path), 0o555),
            NodeFile::Err | NodeFile::Clone => (Qid { version, ..Qid::file(path) }, 0o400),
            NodeFile::Control => (Qid { version, ..Qid::file(path) }, 0o600),
            NodeFile::Env | NodeFile::State => (Qid { version, ..Qid::file(path) }, 0o644),
            NodeFile::MonPush => (Qid::file(path), MonFile::Push.permissions()),
            _ => (Qid { version, ..Qid::file(path) }, 0o444),
        };
        // Permission bits name one group; whether a user may open sessions is its own answer.
        let is_own =
            file == NodeFile::Err || file == NodeFile::Clone && self.node.sessions.allows(user);
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

    fn open_node(
        &mut self,
        user: &Arc<User>,
        file: NodeFile,
        mode: OpenMode,
    ) -> Result<OpenFile, FileError> {
        if let Some(text) = node_text(file) {
            if mode.truncate {
                self.clear_text(text);
            }
            return Ok(OpenFile::NodeText(text));
        }
        if file == NodeFile::Control {
            let control = NodeControlFile::new(&self.node, user);
            return Ok(OpenFile::Control(control, self.control_text()));
        }
        if mode.write || mode.truncate {
            // Root passes the permission bits.
            let why = format!("{} is only read", self.node_attributes(user, file).name);
            return Err(FileError::new(Errno::NotPermitted, why));
        }
        if let Some(readings) = self.readings(file) {
            let reader = ReadingFile::new(Arc::clone(readings), Arc::clone(user));
            return Ok(OpenFile::Reading(Box::new(reader)));
        }
        Ok(match file {
            NodeFile::Err => OpenFile::Err(self.error_text()),
            NodeFile::Clone => {
                let env = self.node.texts.get(NodeText::Env).0;
                let session = self.node.sessions.open((user, &self.share), &env);
                let session = session.map_err(file_error)?;
                OpenFile::session(OpenSessionFile::new(&session, SessionContent::Number)?)
            }
            file => OpenFile::Text(self.text(user, file)),
        })
    }
}

impl NodeTree {
    fn open_session_sample(
        &mut self,
        user: &Arc<User>,
        session: &Arc<LiveSession>,
        mode: OpenMode,
    ) -> Result<OpenFile, FileError> {
        if mode.write || mode.truncate {
            return Err(FileError::new(Errno::NotPermitted, "this file is only read"));
        }
        let hold = session.record.hold().map_err(file_error)?;
        let readings = self.session_readings(session);
        Ok(OpenFile::Reading(Box::new(ReadingFile::of_session(readings, Arc::clone(user), hold))))
    }
}

impl OpenFile {
    fn session(file: OpenSessionFile) -> Self {
        Self::Session(Box::new(file))
    }

    fn monitor(file: Deferred<OpenMonitorFile>) -> Deferred<Self> {
        let opened = |it| Self::Monitor(Box::new(it));
        match file {
            Deferred::Now(it) => Deferred::Now(it.map(opened)),
            Deferred::Later(it) => Deferred::Later(Box::pin(async move { it.await.map(opened) })),
        }
    }
}

impl Tree for NodeTree {
    type Node = TreeFile;
    type File = OpenFile;

    fn attach(&mut self, user: &str, tree: &str) -> Result<Attached<TreeFile>, FileError> {
        if !matches!(tree, "" | "/") {
            let why = format!("there is no tree {tree:?} here: attach without its name");
            return Err(FileError::new(Errno::NotFound, why));
        }
        let user = attach_user(&self.peer, &self.own_name, user)?;
        self.names.insert(user.uid, user.name.clone());
        Ok(Attached { user: Arc::new(user), root: TreeFile::Node(Root) })
    }

    fn walk(&mut self, user: &User, from: &TreeFile, name: &str) -> Result<TreeFile, FileError> {
        match from {
            TreeFile::Node(file) => self.walk_node(user, *file, name),
            TreeFile::Session(session, file) => {
                let found = session_tree::walk(session, file, name)?;
                let session = |file| TreeFile::Session(Arc::clone(session), file);
                Ok(found.map_or(TreeFile::Node(Root), session))
            }
        }
    }

    fn attributes(&self, user: &User, file: &TreeFile) -> Attributes {
        match file {
            TreeFile::Node(file) => self.node_attributes(user, *file),
            TreeFile::Session(session, file) => {
                session_tree::attributes(session, file, self.node.started_s)
            }
        }
    }

    /// The length of a reading is that of a new one, which the next open uses: a client that
    /// reads as many bytes as the length says gets whole lines.
    fn stat(
        &mut self,
        user: &Arc<User>,
        file: &TreeFile,
        open: Option<&OpenFile>,
    ) -> Deferred<Attributes> {
        let mut attributes = self.attributes(user, file);
        let readings = match file {
            TreeFile::Node(file) => self.readings(*file).map(Arc::clone),
            TreeFile::Session(session, SessionFile::MonitorSample) => {
                Some(self.session_readings(session))
            }
            TreeFile::Session(..) => None,
        };
        if let Some(OpenFile::Reading(reader)) = open {
            attributes.length = reader.length() as u64;
        } else if let Some(readings) = readings {
            let user = Arc::clone(user);
            return Deferred::Later(Box::pin(async move {
                let (version, length) = readings.read_for_stat(user).await?;
                attributes.qid.version = version;
                attributes.length = length as u64;
                Ok(attributes)
            }));
        }
        Deferred::Now(Ok(attributes))
    }

    fn entries(&mut self, user: &User, of: &TreeFile) -> Result<Vec<Attributes>, FileError> {
        let of = match of {
            TreeFile::Session(session, file) => {
                return session_tree::entries(session, file, self.node.started_s);
            }
            TreeFile::Node(file) => *file,
        };
        let files = FILES.iter().filter(|it| it.1 == of && self.is_there(it.0));
        let mut all: Vec<_> = files.map(|it| self.node_attributes(user, it.0)).collect();
        if of == Root {
            let started_s = self.node.started_s;
            let directory = |it: Arc<LiveSession>| {
                session_tree::attributes(&it, &SessionFile::Directory, started_s)
            };
            all.extend(self.node.sessions.of_user(user).into_iter().map(directory));
        }
        Ok(all)
    }

    fn open(&mut self, user: &Arc<User>, file: &TreeFile, mode: OpenMode) -> Deferred<OpenFile> {
        let waiting = match file {
            TreeFile::Node(file) => {
                mon_file(*file).map(|file| self.monitor.open_node(user, file, mode))
            }
            TreeFile::Session(session, SessionFile::MonitorWaiting(file)) => {
                Some(self.monitor.open_session(user, (session, *file), mode))
            }
            TreeFile::Session(..) => None,
        };
        if let Some(opened) = waiting {
            return OpenFile::monitor(opened);
        }
        Deferred::Now(match file {
            TreeFile::Node(file) => self.open_node(user, *file, mode),
            TreeFile::Session(session, SessionFile::MonitorSample) => {
                self.open_session_sample(user, session, mode)
            }
            TreeFile::Session(session, file) => {
                session_tree::open(session, file, mode).map(OpenFile::session)
            }
        })
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
            OpenFile::NodeText(text) => Poll::Ready(Ok(part(&self.node.texts.get(*text).0, range))),
            OpenFile::Control(_, text) => {
                if range.offset == 0 {
                    *text = self.control_text();
                }
                Poll::Ready(Ok(part(text, range)))
            }
            OpenFile::Reading(reader) => {
                reader.poll(range.offset, context).map_ok(|text| part(&text, range))
            }
            OpenFile::Session(file) => file.poll_read(range, context),
            OpenFile::Monitor(file) => file.poll_read(range, context),
        }
    }

    fn write(
        &mut self,
        file: &mut OpenFile,
        (offset, content): (u64, &[u8]),
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, FileError>> {
        match file {
            OpenFile::Session(file) => file.poll_write((offset, content), context),
            OpenFile::NodeText(text) => {
                let written = self.node.texts.write(*text, offset, content);
                if written.is_ok() {
                    self.report_state(*text);
                }
                Poll::Ready(written.map(|()| content.len()))
            }
            OpenFile::Control(control, _) => Poll::Ready(control.write(content)),
            OpenFile::Monitor(file) => Poll::Ready(file.write(content)),
            OpenFile::Text(_) | OpenFile::Err(_) | OpenFile::Reading(_) => {
                Poll::Ready(Err(FileError::new(Errno::NotPermitted, "this file is only read")))
            }
        }
    }

    fn abandon(&mut self, file: &mut OpenFile, direction: Direction) {
        match file {
            OpenFile::Reading(reader) => reader.abandon(),
            OpenFile::Session(file) => file.abandon(direction),
            // What the others have is there, or taken with the reply alone.
            OpenFile::Text(_)
            | OpenFile::Err(_)
            | OpenFile::NodeText(_)
            | OpenFile::Control(..)
            | OpenFile::Monitor(_) => {}
        }
    }

    fn truncate(&mut self, _: &User, file: &TreeFile) -> Result<(), FileError> {
        match file {
            TreeFile::Session(session, file) => session_tree::truncate(session, file),
            // A shell truncates what it writes to; there is nothing to be removed.
            TreeFile::Node(NodeFile::Control | NodeFile::MonPush) => Ok(()),
            TreeFile::Node(file) => match node_text(*file) {
                Some(text) => {
                    self.clear_text(text);
                    Ok(())
                }
                None => Err(FileError::new(Errno::NotPermitted, "this file is only read")),
            },
        }
    }

    fn remove(&mut self, _: &User, file: &TreeFile) -> Result<(), FileError> {
        match file {
            TreeFile::Session(session, file) => session_tree::remove(session, file),
            TreeFile::Node(_) => {
                Err(FileError::new(Errno::NotPermitted, "files of the node are not removed"))
            }
        }
    }

    fn create(
        &mut self,
        _: &User,
        directory: &TreeFile,
        (name, permissions, _): (&str, u32, OpenMode),
    ) -> Result<(TreeFile, Option<OpenFile>), FileError> {
        let TreeFile::Session(session, file) = directory else {
            let why = "files are created below fs/ of a session only";
            return Err(FileError::new(Errno::NotPermitted, why));
        };
        let (file, opened) = session_tree::create(session, file, (name, permissions))?;
        let file = TreeFile::Session(Arc::clone(session), file);
        Ok((file, opened.map(OpenFile::session)))
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
        // It quotes what the client has sent, and each open of the file keeps it.
        let length = error.explanation.floor_char_boundary(MAX_EXPLANATION);
        self.last_error.0 = format!("{}\n", &error.explanation[..length]).into();
        self.last_error.1 = self.last_error.1.wrapping_add(1);
    }
}

/// The bytes of a text in a range.
fn part(text: &Bytes, range: ReadRange) -> Bytes {
    let start = usize::try_from(range.offset).unwrap_or(usize::MAX).min(text.len());
    let end = start.saturating_add(range.count).min(text.len());
    text.slice(start..end)
}
