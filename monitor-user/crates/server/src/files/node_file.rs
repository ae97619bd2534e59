//! The files of the root of a node and of its `mon/`: their names, and where each is.
//!
//! What they contain is in `node_root.rs`.

use super::mon_file::MonFile;
use super::node_texts::NodeText;

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
    /// The directory of the node monitor.
    Mon,
    /// What a sample of the node has.
    MonDesc,
    /// The next events.
    MonEvent,
    /// The events that are kept.
    MonLog,
    /// A sample of the node.
    MonPull,
    /// Samples of the node.
    MonPush,
    /// Opens a session.
    Clone,
    /// Commands of an administrator.
    Control,
}

/// The files in the order in which they are listed: each with its directory and its name.
pub const FILES: [(NodeFile, NodeFile, &str); 16] = [
    (NodeFile::Arch, NodeFile::Root, "arch"),
    (NodeFile::Clone, NodeFile::Root, "clone"),
    (NodeFile::Control, NodeFile::Root, "ctl"),
    (NodeFile::Env, NodeFile::Root, "env"),
    (NodeFile::Err, NodeFile::Root, "err"),
    (NodeFile::Mon, NodeFile::Root, "mon"),
    (NodeFile::Procs, NodeFile::Root, "procs"),
    (NodeFile::State, NodeFile::Root, "state"),
    (NodeFile::Uname, NodeFile::Root, "uname"),
    (NodeFile::Version, NodeFile::Root, "version"),
    (NodeFile::Whoami, NodeFile::Root, "whoami"),
    (NodeFile::MonDesc, NodeFile::Mon, "desc"),
    (NodeFile::MonEvent, NodeFile::Mon, MonFile::Event.name()),
    (NodeFile::MonLog, NodeFile::Mon, MonFile::Log.name()),
    (NodeFile::MonPull, NodeFile::Mon, "pull"),
    (NodeFile::MonPush, NodeFile::Mon, MonFile::Push.name()),
];

/// The text that a file of the node has and an administrator writes.
pub const fn node_text(file: NodeFile) -> Option<NodeText> {
    match file {
        NodeFile::Env => Some(NodeText::Env),
        NodeFile::State => Some(NodeText::State),
        _ => None,
    }
}

/// Which file of `mon/` that waits for what happens this is.
pub const fn mon_file(file: NodeFile) -> Option<MonFile> {
    match file {
        NodeFile::MonEvent => Some(MonFile::Event),
        NodeFile::MonLog => Some(MonFile::Log),
        NodeFile::MonPush => Some(MonFile::Push),
        _ => None,
    }
}
