//! The files of the root of a node and of its `mon/`: their names, and where each is.
//!
//! What they contain is in `node_root.rs`.

use super::kernel_log::SYSLOG;
use super::mon_file::MonFile;
use super::node_sample::SampleCategory;
use super::node_texts::NodeText;

/// A file of the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFile {
    /// The directory.
    Root,
    /// Where other nodes find these files.
    Address,
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
    /// What is set for samples.
    MonControl,
    /// The directory of a category of samples.
    Category(SampleCategory),
    /// A file of it.
    InCategory(SampleCategory, CategoryFile),
    /// The directory of the log of the kernel.
    Syslog,
    /// What its records have.
    SyslogDesc,
    /// The next records.
    SyslogEvent,
    /// The records that are kept.
    SyslogLog,
    /// Opens a session.
    Clone,
    /// Takes a copy of a session of another node.
    Copy,
    /// Takes a file that another node has announced.
    Upload,
    /// Commands of an administrator.
    Control,
}

/// A file of a category of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CategoryFile {
    /// What a sample has of it.
    Desc,
    /// The next events.
    Event,
    /// A sample.
    Pull,
    /// Samples.
    Push,
}

/// The files of a category in the order in which they are listed.
pub const CATEGORY_FILES: [(CategoryFile, &str); 4] = [
    (CategoryFile::Desc, "desc"),
    (CategoryFile::Event, MonFile::Event.name()),
    (CategoryFile::Pull, "pull"),
    (CategoryFile::Push, MonFile::Push.name()),
];
/// The qid path of the first category; each has room for its files.
const CATEGORY_PATH: u64 = 0x100;

impl NodeFile {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Category(category) => category.name(),
            Self::InCategory(_, file) => {
                CATEGORY_FILES.iter().find(|it| it.0 == file).map_or("", |it| it.1)
            }
            file => FILES.iter().find(|it| it.0 == file).map_or("/", |it| it.2),
        }
    }

    /// The number that its qid has.
    pub fn qid_path(self) -> u64 {
        let of_category = |it: SampleCategory| CATEGORY_PATH + 8 * it.index() as u64;
        match self {
            Self::Category(category) => of_category(category),
            Self::InCategory(category, file) => of_category(category) + 1 + file as u64,
            file => (1..).zip(&FILES).find(|(_, it)| it.0 == file).map_or(0, |it| it.0),
        }
    }

    /// Its directory.
    pub fn parent(self) -> Self {
        match self {
            Self::Category(_) => Self::Mon,
            Self::InCategory(category, _) => Self::Category(category),
            file => FILES.iter().find(|it| it.0 == file).map_or(Self::Root, |it| it.1),
        }
    }

    /// The files of a directory, in the order of their names.
    pub fn files(self) -> Vec<Self> {
        if let Self::Category(category) = self {
            // Counters have no thresholds.
            let is_there = |it: &CategoryFile| {
                category != SampleCategory::COUNTERS || *it != CategoryFile::Event
            };
            let files = CATEGORY_FILES.into_iter().map(|it| it.0).filter(is_there);
            return files.map(|it| Self::InCategory(category, it)).collect();
        }
        let listed = FILES.iter().filter(|it| it.1 == self).map(|it| it.0);
        let categories = SampleCategory::ALL.map(Self::Category);
        let categories = categories.into_iter().filter(|_| self == Self::Mon);
        let mut all: Vec<_> = listed.chain(categories).collect();
        all.sort_by_key(|it| it.name());
        all
    }

    /// The category of its samples or events, if it has one.
    pub const fn category(self) -> Option<SampleCategory> {
        match self {
            Self::Category(category) | Self::InCategory(category, _) => Some(category),
            _ => None,
        }
    }
}

/// The files in the order in which they are listed: each with its directory and its name.
pub const FILES: [(NodeFile, NodeFile, &str); 24] = [
    (NodeFile::Address, NodeFile::Root, "addr"),
    (NodeFile::Arch, NodeFile::Root, "arch"),
    (NodeFile::Clone, NodeFile::Root, "clone"),
    (NodeFile::Control, NodeFile::Root, "ctl"),
    (NodeFile::Copy, NodeFile::Root, "copy"),
    (NodeFile::Env, NodeFile::Root, "env"),
    (NodeFile::Err, NodeFile::Root, "err"),
    (NodeFile::Mon, NodeFile::Root, "mon"),
    (NodeFile::Procs, NodeFile::Root, "procs"),
    (NodeFile::State, NodeFile::Root, "state"),
    (NodeFile::Uname, NodeFile::Root, "uname"),
    (NodeFile::Version, NodeFile::Root, "version"),
    (NodeFile::Upload, NodeFile::Root, "upload"),
    (NodeFile::Whoami, NodeFile::Root, "whoami"),
    (NodeFile::MonControl, NodeFile::Mon, "ctl"),
    (NodeFile::MonDesc, NodeFile::Mon, "desc"),
    (NodeFile::MonEvent, NodeFile::Mon, MonFile::Event.name()),
    (NodeFile::MonLog, NodeFile::Mon, MonFile::Log.name()),
    (NodeFile::MonPull, NodeFile::Mon, "pull"),
    (NodeFile::MonPush, NodeFile::Mon, MonFile::Push.name()),
    (NodeFile::Syslog, NodeFile::Mon, SYSLOG),
    (NodeFile::SyslogDesc, NodeFile::Syslog, "desc"),
    (NodeFile::SyslogEvent, NodeFile::Syslog, MonFile::Event.name()),
    (NodeFile::SyslogLog, NodeFile::Syslog, MonFile::Log.name()),
];

/// The text that a file of the node has and an administrator writes.
pub const fn node_text(file: NodeFile) -> Option<NodeText> {
    match file {
        NodeFile::Env => Some(NodeText::Env),
        NodeFile::State => Some(NodeText::State),
        _ => None,
    }
}

/// Which file of the log of the kernel this is, if it waits for records.
pub const fn kernel_log_file(file: NodeFile) -> Option<MonFile> {
    match file {
        NodeFile::SyslogEvent => Some(MonFile::Event),
        NodeFile::SyslogLog => Some(MonFile::Log),
        _ => None,
    }
}

/// Which file of `mon/` that waits for what happens this is.
pub const fn mon_file(file: NodeFile) -> Option<MonFile> {
    match file {
        NodeFile::MonEvent | NodeFile::InCategory(_, CategoryFile::Event) => Some(MonFile::Event),
        NodeFile::MonLog => Some(MonFile::Log),
        NodeFile::MonPush | NodeFile::InCategory(_, CategoryFile::Push) => Some(MonFile::Push),
        _ => None,
    }
}
