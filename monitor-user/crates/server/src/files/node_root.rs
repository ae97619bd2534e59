//! The files of the root of a node and of its `mon/`, as one connection has them.
//!
//! In: names, and opens. Out: attributes, texts of this node and of this connection, and open
//! files. Sessions and what waits for events are beside it, in `tree.rs`.

use super::client::{ClientOrigin, FilesClient, NONE_UID};
use super::last_error::LastError;
use super::node::NodeFiles;
use super::node_control::{self, NodeControlFile};
use super::node_file::NodeFile::{self, Mon, Root};
use super::node_file::{CategoryFile, mon_file, node_text};
use super::node_sample::{self, SampleCategory};
use super::node_texts::NodeText;
use super::open_file::OpenFile;
use super::reading::{ReadingFile, ReadingKind, Readings};
use super::session::copy::receiver::CopyReceiver;
use super::session::{OpenSessionFile, SessionContent, file_error};
use super::sexpr::put_pair;
use super::upload::UploadReceiver;
use super::{cpu_counters, kernel_log};
use crate::user_shares::UserShare;
use bytes::Bytes;
use monitor_ninep::stat::{Attributes, Qid};
use monitor_ninep::tree::OpenMode;
use monitor_ninep::{Errno, FileError, User};
use std::sync::Arc;

/// The files for one connection.
pub struct NodeRoot {
    node: Arc<NodeFiles>,
    processes: Arc<Readings>,
    samples: Arc<Readings>,
    /// Those of the categories.
    of_categories: [Arc<Readings>; SampleCategory::ALL.len()],
    /// The share of the peer's user.
    share: Arc<UserShare>,
    /// How the client is known.
    origin: ClientOrigin,
    /// The last error of the connection.
    error: Arc<LastError>,
}

impl NodeRoot {
    /// Those for a connection of a client whose user has this share.
    pub fn new(node: &Arc<NodeFiles>, (client, share): (&FilesClient, &Arc<UserShare>)) -> Self {
        let pid = client.peer.pid;
        let readings =
            |kind| Arc::new(Readings::new(kind, Arc::clone(node), (pid, Arc::clone(share))));
        Self {
            node: Arc::clone(node),
            processes: readings(ReadingKind::Processes),
            samples: readings(ReadingKind::Node),
            of_categories: SampleCategory::ALL.map(|it| readings(ReadingKind::Category(it))),
            share: Arc::clone(share),
            origin: client.origin,
            error: Arc::default(),
        }
    }

    fn whoami(&self, user: &User) -> String {
        let auth = match self.origin {
            ClientOrigin::Node => "tls",
            ClientOrigin::Process if user.uid != NONE_UID => "peercred",
            ClientOrigin::Process | ClientOrigin::Loopback => "none",
        };
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
    pub fn readings(&self, file: NodeFile) -> Option<&Arc<Readings>> {
        match file {
            NodeFile::Procs => Some(&self.processes),
            NodeFile::MonPull => Some(&self.samples),
            NodeFile::InCategory(category, CategoryFile::Pull) => {
                Some(&self.of_categories[category.index()])
            }
            _ => None,
        }
    }

    /// The text of a file that is read at once.
    fn text(&self, user: &User, file: NodeFile) -> Bytes {
        match file {
            NodeFile::Address => {
                self.node.address().map_or_else(Bytes::new, |it| format!("{it}\n").into())
            }
            NodeFile::Arch | NodeFile::Uname => Bytes::copy_from_slice(self.node.arch.as_bytes()),
            NodeFile::Version => Bytes::copy_from_slice(self.node.version.as_bytes()),
            NodeFile::Env => self.node.texts.get(NodeText::Env).0,
            NodeFile::State => self.node.texts.get(NodeText::State).0,
            NodeFile::Control => node_control::text(&self.node),
            NodeFile::Whoami => self.whoami(user).into(),
            NodeFile::Err => self.error.text().0,
            NodeFile::MonDesc => self.node.description.clone(),
            NodeFile::MonControl => self.node.monitor.text().into(),
            NodeFile::InCategory(SampleCategory::COUNTERS, CategoryFile::Desc) => {
                cpu_counters::description().into()
            }
            NodeFile::InCategory(category, CategoryFile::Desc) => {
                node_sample::description(category.fields()).into()
            }
            NodeFile::SyslogDesc => kernel_log::description().into(),
            // Those of a reading, and those that wait for what happens.
            _ => Bytes::new(),
        }
    }

    /// The file of this name in a directory.
    pub fn walk(&self, from: NodeFile, name: &str) -> Option<NodeFile> {
        if name == ".." {
            return Some(from.parent());
        }
        from.files().into_iter().find(|it| it.name() == name && self.is_there(*it))
    }

    /// The attributes of the files of a directory.
    pub fn entries(&self, user: &User, of: NodeFile) -> Vec<Attributes> {
        let files = of.files().into_iter().filter(|it| self.is_there(*it));
        files.map(|it| self.attributes(user, it)).collect()
    }

    /// Without sessions there is no file that opens one; files of others come to a member alone.
    fn is_there(&self, file: NodeFile) -> bool {
        match file {
            NodeFile::Clone | NodeFile::Copy => self.node.sessions.is_on(),
            NodeFile::Upload => self.node.uploads.is_some(),
            _ => true,
        }
    }

    /// The attributes of a file: a length may be of the past.
    pub fn attributes(&self, user: &User, file: NodeFile) -> Attributes {
        let path = file.qid_path();
        let (version, length) = match (self.readings(file), file) {
            (Some(readings), _) => readings.last(user.uid),
            (None, file) => {
                let version = match node_text(file) {
                    Some(text) => self.node.texts.get(text).1,
                    None if file == NodeFile::Err => self.error.text().1,
                    None => 0,
                };
                (version, self.text(user, file).len())
            }
        };
        let (qid, permissions) = match file {
            Root | Mon | NodeFile::Syslog | NodeFile::Category(_) => (Qid::directory(path), 0o555),
            NodeFile::Err | NodeFile::Clone => (Qid { version, ..Qid::file(path) }, 0o400),
            NodeFile::Control => (Qid { version, ..Qid::file(path) }, 0o644),
            NodeFile::Copy => (Qid { version, ..Qid::file(path) }, 0o666),
            NodeFile::Upload => (Qid { version, ..Qid::file(path) }, 0o222),
            NodeFile::Env | NodeFile::State | NodeFile::MonControl => {
                (Qid { version, ..Qid::file(path) }, 0o644)
            }
            file => (Qid { version, ..Qid::file(path) }, mon_permissions(file)),
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
            name: file.name().into(),
            uid,
            gid,
        }
    }

    /// Opens a file that waits for nothing.
    ///
    /// # Errors
    ///
    /// When it cannot be opened so, or no session can.
    pub fn open(
        &self,
        user: &Arc<User>,
        file: NodeFile,
        mode: OpenMode,
    ) -> Result<OpenFile, FileError> {
        if let Some(text) = node_text(file) {
            if mode.truncate {
                self.node.clear_text(text);
            }
            return Ok(OpenFile::NodeText(Arc::clone(&self.node), text));
        }
        if file == NodeFile::Copy {
            return self.open_copy(mode);
        }
        if file == NodeFile::Upload {
            return self.open_upload(mode);
        }
        if file == NodeFile::Control {
            let control = NodeControlFile::new(&self.node, user);
            return Ok(OpenFile::Control(control, Bytes::new()));
        }
        if mode.write || mode.truncate {
            // Root passes the permission bits.
            let why = format!("{} is only read", self.attributes(user, file).name);
            return Err(FileError::new(Errno::NotPermitted, why));
        }
        if let Some(readings) = self.readings(file) {
            let reader = ReadingFile::new(Arc::clone(readings), Arc::clone(user));
            return Ok(OpenFile::Reading(Box::new(reader)));
        }
        Ok(match file {
            NodeFile::Err => OpenFile::Err(Arc::clone(&self.error), Bytes::new()),
            NodeFile::Clone => {
                let env = self.node.texts.get(NodeText::Env).0;
                let session = self.node.sessions.open((user, &self.share), &env);
                let session = session.map_err(file_error)?;
                OpenFile::session(OpenSessionFile::new(&session, SessionContent::Number)?)
            }
            file => OpenFile::Text(self.text(user, file)),
        })
    }

    /// Opens what takes a copy of a session: of another node, or of a process of this machine.
    fn open_copy(&self, mode: OpenMode) -> Result<OpenFile, FileError> {
        if self.origin == ClientOrigin::Loopback {
            let why = "nothing is changed over TCP without TLS: use the Unix socket, or TLS";
            return Err(FileError::new(Errno::Denied, why));
        }
        if !(mode.read && mode.write) {
            let why = "copy is opened to read and to write, by `clone` of a session";
            return Err(FileError::new(Errno::Invalid, why));
        }
        let receiver = CopyReceiver::new(&self.node.sessions, Arc::clone(&self.share));
        Ok(OpenFile::Copy(Box::new(receiver)))
    }

    /// Opens what takes a file of another node: only a client with the certificate of one.
    fn open_upload(&self, mode: OpenMode) -> Result<OpenFile, FileError> {
        let Some(uploads) = &self.node.uploads else {
            return Err(FileError::new(Errno::NotFound, "this node is in no cluster"));
        };
        if self.origin != ClientOrigin::Node {
            let why = "files of other nodes come over TLS: use `monitor send`";
            return Err(FileError::new(Errno::Denied, why));
        }
        if mode.read || !mode.write {
            return Err(FileError::new(Errno::Invalid, "upload is only written"));
        }
        Ok(OpenFile::Upload(Box::new(UploadReceiver::new(Arc::clone(uploads)))))
    }

    /// An error has been sent: what `err` says from now on.
    pub fn failed(&self, error: &FileError) {
        self.error.set(error);
    }
}

/// Permission bits of a file that all users may read.
const fn mon_permissions(file: NodeFile) -> u32 {
    match mon_file(file) {
        Some(file) => file.permissions(),
        None => 0o444,
    }
}
