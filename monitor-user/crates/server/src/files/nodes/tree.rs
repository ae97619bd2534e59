//! The files of `nodes/`: names, attributes, and how each is opened.

use super::super::event_file::{EventFile, StreamFile};
use super::control::{self, NodesControlFile};
use super::other_node::OtherNode;
use super::proxy::{PROXIED, ProxiedFile, ProxyFile};
use super::table::OtherNodes;
use super::usage::NodesUse;
use bytes::Bytes;
use monitor_ninep::stat::{Attributes, Qid};
use monitor_ninep::tree::{Deferred, OpenMode, ReadRange};
use monitor_ninep::{Errno, FileError, User};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::task::{Context, Poll};

/// The name of the directory.
pub const NODES: &str = "nodes";
/// The bit of a qid path that says: a file of `nodes/`.
const NODES_BIT: u64 = 1 << 61;
/// The same for a node and its files, whose numbers are in the low bits.
const NODE_BIT: u64 = NODES_BIT | 1 << 60;
/// Bits of the number of a file of a node.
const DETAIL_BITS: u32 = 4;
/// Bits of a hash of the name of a node.
const NAME_BITS: u32 = 55;

/// A file of the directory.
#[derive(Clone)]
pub enum NodesFile {
    /// The directory.
    Directory,
    /// One of its files.
    Summary(NodesSummary),
    /// The directory of a node.
    Node(Arc<OtherNode>),
    /// A file of it.
    Detail(Arc<OtherNode>, Detail),
    /// Its directory `mon/`.
    Monitor(Arc<OtherNode>),
    /// A file of that, which is read there.
    Proxied(Arc<OtherNode>, ProxiedFile),
}

/// A file that is about all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodesSummary {
    /// Changes as they occur.
    Changes,
    /// Commands.
    Control,
    /// The next changes, once for each open.
    Notify,
    /// What is known of all.
    State,
    /// The same as lists.
    Lists,
}

/// A file that is about one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Its address.
    Address,
    /// Operating system and machine.
    Arch,
    /// The number of its sessions.
    Jobs,
    /// How long its last answer took.
    Rtt,
    /// Its status.
    State,
}

/// The files of the directory, in the order in which they are listed.
const SUMMARIES: [(NodesSummary, &str); 5] = [
    (NodesSummary::Changes, "changes"),
    (NodesSummary::Control, "ctl"),
    (NodesSummary::Notify, "notify"),
    (NodesSummary::State, "state"),
    (NodesSummary::Lists, "state.sx"),
];
/// Those of a node.
const DETAILS: [(Detail, &str); 5] = [
    (Detail::Address, "addr"),
    (Detail::Arch, "arch"),
    (Detail::Jobs, "jobs"),
    (Detail::Rtt, "rtt_us"),
    (Detail::State, "state"),
];

/// The directory of a node with the files that are read there.
const MONITOR: &str = "mon";
/// The number of that directory among the files of a node; those of it follow.
const MONITOR_AT: u64 = 8;

/// An open file.
pub struct OpenNodesFile {
    kind: OpenKind,
    /// While it is open, members of the cluster are asked.
    _use: NodesUse,
}

/// What an open file has.
enum OpenKind {
    /// A text, taken again by a read from 0.
    Text(Arc<OtherNodes>, NodesFile, Bytes),
    /// Commands, and what is set.
    Control(NodesControlFile, Bytes),
    /// The next changes.
    Notify(EventFile),
    /// Changes as they occur.
    Changes(StreamFile),
    /// A file that another node has.
    Proxied(ProxyFile),
}

/// The file of this name; `None` for the parent of the directory.
///
/// # Errors
///
/// When there is none.
pub fn walk(
    nodes: &OtherNodes,
    from: &NodesFile,
    name: &str,
) -> Result<Option<NodesFile>, FileError> {
    let absent = || FileError::new(Errno::NotFound, format!("there is no file {name:?}"));
    match from {
        NodesFile::Directory if name == ".." => Ok(None),
        NodesFile::Directory => {
            let summary = SUMMARIES.iter().find(|it| it.1 == name).map(|it| it.0);
            let node = || nodes.get(name).map(NodesFile::Node);
            summary.map(NodesFile::Summary).or_else(node).map(Some).ok_or_else(absent)
        }
        NodesFile::Node(_) if name == ".." => Ok(Some(NodesFile::Directory)),
        NodesFile::Node(node) if name == MONITOR => Ok(Some(NodesFile::Monitor(Arc::clone(node)))),
        NodesFile::Monitor(node) if name == ".." => Ok(Some(NodesFile::Node(Arc::clone(node)))),
        NodesFile::Monitor(node) => {
            let file = PROXIED.iter().find(|it| it.1 == name).map(|it| it.0);
            let of_node = |it| Some(NodesFile::Proxied(Arc::clone(node), it));
            file.map(of_node).ok_or_else(absent)
        }
        NodesFile::Node(node) => {
            let detail = DETAILS.iter().find(|it| it.1 == name).map(|it| it.0);
            let of_node = |it| NodesFile::Detail(Arc::clone(node), it);
            detail.map(of_node).map(Some).ok_or_else(absent)
        }
        NodesFile::Summary(_) | NodesFile::Detail(..) | NodesFile::Proxied(..) => Err(absent()),
    }
}

/// The attributes of a file; `base` has the owner, and when the service began.
pub fn attributes(nodes: &OtherNodes, file: &NodesFile, base: &Attributes) -> Attributes {
    let of_name = |node: &OtherNode, at: u64| {
        let mut hasher = DefaultHasher::new();
        node.name.hash(&mut hasher);
        let name = hasher.finish() & ((1 << NAME_BITS) - 1);
        Qid::file(NODE_BIT | name << DETAIL_BITS | at)
    };
    let (name, qid, permissions) = match file {
        NodesFile::Directory => (NODES, Qid::directory(NODES_BIT), 0o555),
        NodesFile::Summary(summary) => {
            let listed = (1..).zip(&SUMMARIES).find(|it| it.1.0 == *summary);
            let (at, name) = listed.map_or((0, ""), |(at, it)| (at, it.1));
            let permissions = if *summary == NodesSummary::Control { 0o644 } else { 0o444 };
            (name, Qid::file(NODES_BIT | at), permissions)
        }
        NodesFile::Node(node) => {
            let Qid { path, .. } = of_name(node, 0);
            (node.name.as_str(), Qid::directory(path), 0o555)
        }
        NodesFile::Monitor(node) => {
            let Qid { path, .. } = of_name(node, MONITOR_AT);
            (MONITOR, Qid::directory(path), 0o555)
        }
        NodesFile::Proxied(node, file) => {
            let listed = (MONITOR_AT + 1..).zip(&PROXIED).find(|it| it.1.0 == *file);
            let (at, name) = listed.map_or((0, ""), |(at, it)| (at, it.1));
            (name, of_name(node, at), 0o444)
        }
        NodesFile::Detail(node, detail) => {
            let listed = (1..).zip(&DETAILS).find(|it| it.1.0 == *detail);
            let (at, name) = listed.map_or((0, ""), |(at, it)| (at, it.1));
            (name, of_name(node, at), 0o444)
        }
    };
    let length = text(nodes, file).len() as u64;
    Attributes { qid, permissions, length, name: name.to_owned(), ..base.clone() }
}

/// The attributes of the files of a directory.
pub fn entries(nodes: &OtherNodes, of: &NodesFile, base: &Attributes) -> Vec<Attributes> {
    let attributes = |it| attributes(nodes, &it, base);
    drop(nodes.usage.begin());
    match of {
        NodesFile::Directory => {
            let summaries = SUMMARIES.map(|it| NodesFile::Summary(it.0)).into_iter();
            let all = summaries.chain(nodes.all().into_iter().map(NodesFile::Node));
            let mut all: Vec<_> = all.map(attributes).collect();
            all.sort_by(|one, other| one.name.cmp(&other.name));
            all
        }
        NodesFile::Node(node) => {
            let details = DETAILS.map(|it| NodesFile::Detail(Arc::clone(node), it.0));
            let mut all = details.map(attributes).to_vec();
            all.push(attributes(NodesFile::Monitor(Arc::clone(node))));
            all.sort_by(|one, other| one.name.cmp(&other.name));
            all
        }
        NodesFile::Monitor(node) => {
            PROXIED.map(|it| attributes(NodesFile::Proxied(Arc::clone(node), it.0))).to_vec()
        }
        NodesFile::Summary(_) | NodesFile::Detail(..) | NodesFile::Proxied(..) => Vec::new(),
    }
}

/// Opens a file.
pub fn open(
    nodes: &Arc<OtherNodes>,
    (user, file): (&User, &NodesFile),
    mode: OpenMode,
) -> Deferred<OpenNodesFile> {
    let held = nodes.usage.begin();
    let NodesFile::Proxied(node, file) = file else {
        let opened = open_own(nodes, (user, file), mode);
        return Deferred::Now(opened.map(|kind| OpenNodesFile { kind, _use: held }));
    };
    if mode.write || mode.truncate {
        let why = "files of other nodes are only read";
        return Deferred::Now(Err(FileError::new(Errno::NotPermitted, why)));
    }
    let opened = Arc::clone(&node.proxy).open(user.uid, *file);
    Deferred::Later(Box::pin(async move {
        let kind = OpenKind::Proxied(opened.await?);
        Ok(OpenNodesFile { kind, _use: held })
    }))
}

/// Opens a file that is about nodes.
fn open_own(
    nodes: &Arc<OtherNodes>,
    (user, file): (&User, &NodesFile),
    mode: OpenMode,
) -> Result<OpenKind, FileError> {
    if (mode.write || mode.truncate) && !is_control(file) {
        // Root passes the permission bits.
        return Err(FileError::new(Errno::NotPermitted, "this file is only read"));
    }
    Ok(match file {
        NodesFile::Summary(NodesSummary::Control) => {
            OpenKind::Control(NodesControlFile::new(nodes, user.uid), Bytes::new())
        }
        NodesFile::Summary(NodesSummary::Notify) => {
            let places = nodes.places.user_places(user.uid);
            OpenKind::Notify(EventFile::new(&nodes.changes, (places, None), None))
        }
        NodesFile::Summary(NodesSummary::Changes) => {
            OpenKind::Changes(StreamFile::new(&nodes.changes))
        }
        file => OpenKind::Text(Arc::clone(nodes), file.clone(), Bytes::new()),
    })
}

/// Whether it is the file of commands.
pub const fn is_control(file: &NodesFile) -> bool {
    matches!(file, NodesFile::Summary(NodesSummary::Control))
}

/// The text of a file that is read at once.
fn text(nodes: &OtherNodes, file: &NodesFile) -> Bytes {
    let number = |it: Option<u64>| it.map(|it| format!("{it}\n")).unwrap_or_default();
    match file {
        NodesFile::Summary(NodesSummary::State) => nodes.texts().lines,
        NodesFile::Summary(NodesSummary::Lists) => nodes.texts().lists,
        NodesFile::Summary(NodesSummary::Control) => control::text(nodes),
        NodesFile::Detail(node, detail) => {
            let status = node.status();
            match detail {
                Detail::Address if node.address.is_none() => Bytes::new(),
                Detail::Address => format!("{}\n", node.written_address()).into(),
                Detail::Arch if status.arch.is_empty() => Bytes::new(),
                Detail::Arch => format!("{}\n", status.arch).into(),
                Detail::Jobs => number(status.jobs).into(),
                Detail::Rtt => number(status.rtt_us).into(),
                Detail::State => format!("{}\n", status.word).into(),
            }
        }
        // Those that wait, and directories.
        NodesFile::Summary(NodesSummary::Changes | NodesSummary::Notify)
        | NodesFile::Directory
        | NodesFile::Monitor(_)
        | NodesFile::Proxied(..)
        | NodesFile::Node(_) => Bytes::new(),
    }
}

impl OpenNodesFile {
    /// The bytes of a range.
    pub fn poll_read(
        &mut self,
        range: ReadRange,
        context: &mut Context<'_>,
    ) -> Poll<Result<Bytes, FileError>> {
        match &mut self.kind {
            OpenKind::Text(nodes, file, kept) => {
                if range.offset == 0 {
                    *kept = text(nodes, file);
                }
                Poll::Ready(Ok(range.part(kept)))
            }
            OpenKind::Control(control, kept) => {
                if range.offset == 0 {
                    *kept = control.text();
                }
                Poll::Ready(Ok(range.part(kept)))
            }
            OpenKind::Notify(file) => file.poll_read(range, context).map(Ok),
            OpenKind::Changes(file) => file.poll_read(range.count, context).map(Ok),
            OpenKind::Proxied(file) => file.poll_read(range, context),
        }
    }

    /// A read is not waited for any longer.
    pub fn abandon(&mut self) {
        if let OpenKind::Proxied(file) = &mut self.kind {
            file.abandon();
        }
    }

    /// Carries out commands.
    ///
    /// # Errors
    ///
    /// As the first that fails; when the file has none.
    pub fn write(&mut self, content: &[u8]) -> Result<usize, FileError> {
        match &mut self.kind {
            OpenKind::Control(control, _) => control.write(content),
            _ => Err(FileError::new(Errno::NotPermitted, "this file is only read")),
        }
    }
}
