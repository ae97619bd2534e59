//! The tree of a node as one connection sees it.
//!
//! In: names, reads and writes. Out: files of the node's root, of the sessions of the user that
//! attached, and of what happens to both. Measures and decides nothing.

use super::aggregator::AggregatorFile;
use super::aggregator::tree::{self as agg_tree, AGG};
use super::client::FilesClient;
use super::identity::attach_user;
use super::mon_file::MonFile;
use super::node::NodeFiles;
use super::node_file::NodeFile::{self, Root};
use super::node_file::{kernel_log_file, mon_file, node_text};
use super::node_root::NodeRoot;
use super::nodes::NodesFile;
use super::nodes::tree::{self as nodes_tree, NODES};
use super::open_file::OpenFile;
use super::open_monitor::MonitorFiles;
use super::reading::{ReadingFile, ReadingKind, Readings};
use super::session::{LiveSession, SessionFile, file_error, tree as session_tree};
use crate::user_shares::UserShare;
use bytes::Bytes;
use monitor_ninep::stat::Attributes;
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
    /// One of `nodes/`.
    Nodes(NodesFile),
    /// One of `agg/`.
    Aggregator(AggregatorFile),
    /// One of a session.
    Session(Arc<LiveSession>, SessionFile),
}

/// The root for one connection.
pub struct NodeTree {
    node: Arc<NodeFiles>,
    /// The files of the node.
    root: NodeRoot,
    client: FilesClient,
    /// The users that have attached.
    names: BTreeMap<u32, String>,
    /// The readings of sessions, by their numbers.
    session_samples: BTreeMap<u32, Arc<Readings>>,
    /// What happens to the node and to sessions.
    monitor: MonitorFiles,
    /// The share of the peer's user.
    share: Arc<UserShare>,
}

impl NodeTree {
    /// The root for a connection of this client.
    pub fn new(node: &Arc<NodeFiles>, client: FilesClient, share: Arc<UserShare>) -> Self {
        Self {
            node: Arc::clone(node),
            root: NodeRoot::new(node, (&client, &share)),
            names: BTreeMap::new(),
            session_samples: BTreeMap::new(),
            monitor: MonitorFiles::new(Arc::clone(node), client.peer.pid, Arc::clone(&share)),
            client,
            share,
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
            let of_peer = (self.client.peer.pid, Arc::clone(&self.share));
            let kind = ReadingKind::Session(number);
            Arc::new(Readings::new(kind, Arc::clone(&self.node), of_peer))
        };
        Arc::clone(self.session_samples.entry(number).or_insert_with(new))
    }

    /// The session whose directory has this name, for a user that may see it.
    fn session(&self, user: &User, name: &str) -> Option<Arc<LiveSession>> {
        let session = self.node.sessions.get(name.parse().ok()?)?;
        // A session has one name, and is seen by its user.
        let is_named = session.record.number.to_string() == name;
        let is_seen = user.uid == 0 || user.uid == session.record.user.uid;
        (is_named && is_seen).then_some(session)
    }

    fn nodes_attributes(&self, user: &User, file: &NodesFile) -> Attributes {
        let base = self.root.attributes(user, Root);
        nodes_tree::attributes(&self.node.others, file, &base)
    }

    fn aggregator_attributes(&self, user: &User, file: AggregatorFile) -> Attributes {
        let base = self.root.attributes(user, Root);
        agg_tree::attributes(file, &self.node.aggregator, &base)
    }

    fn walk_node(&self, user: &User, from: NodeFile, name: &str) -> Result<TreeFile, FileError> {
        if let Some(file) = self.root.walk(from, name) {
            return Ok(TreeFile::Node(file));
        }
        if from == Root && name == NODES && self.node.others.is_on() {
            return Ok(TreeFile::Nodes(NodesFile::Directory));
        }
        if from == Root && name == AGG && self.node.aggregator.is_on() {
            return Ok(TreeFile::Aggregator(AggregatorFile::Directory));
        }
        let session = if from == Root { self.session(user, name) } else { None };
        let absent = || FileError::new(Errno::NotFound, format!("there is no file {name:?}"));
        session.map(|it| TreeFile::Session(it, SessionFile::Directory)).ok_or_else(absent)
    }

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

impl Tree for NodeTree {
    type Node = TreeFile;
    type File = OpenFile;

    fn attach(&mut self, user: &str, tree: &str) -> Result<Attached<TreeFile>, FileError> {
        if !matches!(tree, "" | "/") {
            let why = format!("there is no tree {tree:?} here: attach without its name");
            return Err(FileError::new(Errno::NotFound, why));
        }
        let user = attach_user(&self.client, user)?;
        self.names.insert(user.uid, user.name.clone());
        Ok(Attached { user: Arc::new(user), root: TreeFile::Node(Root) })
    }

    fn walk(&mut self, user: &User, from: &TreeFile, name: &str) -> Result<TreeFile, FileError> {
        match from {
            TreeFile::Node(file) => self.walk_node(user, *file, name),
            TreeFile::Nodes(file) => {
                let found = nodes_tree::walk(&self.node.others, file, name)?;
                Ok(found.map_or(TreeFile::Node(Root), TreeFile::Nodes))
            }
            TreeFile::Aggregator(file) => {
                let found = agg_tree::walk(*file, name)?;
                Ok(found.map_or(TreeFile::Node(Root), TreeFile::Aggregator))
            }
            TreeFile::Session(session, file) => {
                let found = session_tree::walk(session, file, name)?;
                let session = |file| TreeFile::Session(Arc::clone(session), file);
                Ok(found.map_or(TreeFile::Node(Root), session))
            }
        }
    }

    fn attributes(&self, user: &User, file: &TreeFile) -> Attributes {
        match file {
            TreeFile::Node(file) => self.root.attributes(user, *file),
            TreeFile::Nodes(file) => self.nodes_attributes(user, file),
            TreeFile::Aggregator(file) => self.aggregator_attributes(user, *file),
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
            TreeFile::Node(file) => self.root.readings(*file).map(Arc::clone),
            TreeFile::Session(session, SessionFile::MonitorSample) => {
                Some(self.session_readings(session))
            }
            TreeFile::Session(..) | TreeFile::Nodes(_) | TreeFile::Aggregator(_) => None,
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
            TreeFile::Nodes(file) => {
                let base = self.root.attributes(user, Root);
                return Ok(nodes_tree::entries(&self.node.others, file, &base));
            }
            TreeFile::Aggregator(file) => {
                let base = self.root.attributes(user, Root);
                return Ok(agg_tree::entries(*file, &self.node.aggregator, &base));
            }
            TreeFile::Node(file) => *file,
        };
        let mut all = self.root.entries(user, of);
        if of == Root {
            if self.node.others.is_on() {
                all.push(self.nodes_attributes(user, &NodesFile::Directory));
            }
            if self.node.aggregator.is_on() {
                all.push(self.aggregator_attributes(user, AggregatorFile::Directory));
            }
            all.sort_by(|one, other| one.name.cmp(&other.name));
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
            TreeFile::Node(file) if kernel_log_file(*file).is_some() => {
                let opened = |it| self.monitor.open_kernel_log(user, it, mode);
                kernel_log_file(*file).map(opened)
            }
            TreeFile::Node(file) => {
                let category = file.category();
                mon_file(*file).map(|it| self.monitor.open_node(user, (it, category), mode))
            }
            TreeFile::Session(session, SessionFile::MonitorWaiting(file)) => {
                Some(self.monitor.open_session(user, (session, *file), mode))
            }
            TreeFile::Session(..) | TreeFile::Nodes(_) | TreeFile::Aggregator(_) => None,
        };
        if let Some(opened) = waiting {
            return OpenFile::monitor(opened);
        }
        let control = |session| {
            let opened = self.monitor.open_control(user, session)?;
            Ok(OpenFile::MonControl(Box::new(opened), Bytes::new()))
        };
        Deferred::Now(match file {
            TreeFile::Node(NodeFile::MonControl) => control(None),
            TreeFile::Session(session, SessionFile::MonitorControl) => control(Some(session)),
            TreeFile::Node(file) => self.root.open(user, *file, mode),
            TreeFile::Nodes(file) => {
                let opened = nodes_tree::open(&self.node.others, (user, file), mode);
                return OpenFile::nodes(opened);
            }
            TreeFile::Aggregator(file) => {
                let opened =
                    agg_tree::open(&self.node.aggregator, (user, &self.share), *file, mode);
                opened.map(|it| OpenFile::Aggregator(Box::new(it)))
            }
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
        file.poll_read(range, context)
    }

    fn write(
        &mut self,
        file: &mut OpenFile,
        (offset, content): (u64, &[u8]),
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, FileError>> {
        file.poll_write((offset, content), context)
    }

    fn abandon(&mut self, file: &mut OpenFile, direction: Direction) {
        file.abandon(direction);
    }

    fn truncate(&mut self, _: &User, file: &TreeFile) -> Result<(), FileError> {
        match file {
            TreeFile::Session(session, file) => session_tree::truncate(session, file),
            TreeFile::Nodes(file) if nodes_tree::is_control(file) => Ok(()),
            TreeFile::Aggregator(file) if agg_tree::is_control(*file) => Ok(()),
            TreeFile::Nodes(_) | TreeFile::Aggregator(_) => {
                Err(FileError::new(Errno::NotPermitted, "this file is only read"))
            }
            // A shell truncates what it writes to; there is nothing to be removed.
            TreeFile::Node(file) if takes_writes(*file) => Ok(()),
            TreeFile::Node(file) => match node_text(*file) {
                Some(text) => {
                    self.node.clear_text(text);
                    Ok(())
                }
                None => Err(FileError::new(Errno::NotPermitted, "this file is only read")),
            },
        }
    }

    fn set_permissions(
        &mut self,
        _: &User,
        file: &TreeFile,
        permissions: u32,
    ) -> Result<(), FileError> {
        let TreeFile::Session(session, file) = file else { return Err(not_changed("a mode")) };
        session_tree::set_permissions(session, file, permissions)
    }

    fn set_modified(
        &mut self,
        _: &User,
        file: &TreeFile,
        modified_s: u32,
    ) -> Result<(), FileError> {
        let TreeFile::Session(session, file) = file else { return Ok(()) };
        session_tree::set_modified(session, file, modified_s)
    }

    fn rename(&mut self, _: &User, file: &TreeFile, name: &str) -> Result<TreeFile, FileError> {
        let TreeFile::Session(session, file) = file else { return Err(not_changed("a name")) };
        let new = session_tree::rename(session, file, name)?;
        Ok(TreeFile::Session(Arc::clone(session), new))
    }

    fn follow_rename(&self, file: &mut TreeFile, (old, new): (&TreeFile, &TreeFile)) {
        if let (
            TreeFile::Session(of, file),
            TreeFile::Session(renamed, old),
            TreeFile::Session(_, new),
        ) = (file, old, new)
            && Arc::ptr_eq(of, renamed)
            && let Some(followed) = session_tree::renamed(file, (old, new))
        {
            *file = followed;
        }
    }

    fn remove(&mut self, _: &User, file: &TreeFile) -> Result<(), FileError> {
        match file {
            TreeFile::Session(session, file) => session_tree::remove(session, file),
            TreeFile::Node(_) | TreeFile::Nodes(_) | TreeFile::Aggregator(_) => {
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
        self.root.failed(error);
    }
}

fn not_changed(what: &str) -> FileError {
    let why = format!("{what} is changed below fs/ of a session only");
    FileError::new(Errno::NotPermitted, why)
}

/// Whether a file takes what is written, and keeps no content.
const fn takes_writes(file: NodeFile) -> bool {
    let is_control = matches!(file, NodeFile::Control | NodeFile::MonControl);
    is_control || matches!(mon_file(file), Some(MonFile::Push))
}
