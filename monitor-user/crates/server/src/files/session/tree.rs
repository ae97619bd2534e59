//! The files of a session: names, attributes, and how each is opened.
//!
//! Only the user of the session may enter its directory, and root. The group of that user has no
//! right, because a client that writes `ctl` executes programs as that user.

use super::super::mon_file::MonFile;
use super::super::session_sample;
use super::control_file::ControlFile;
use super::copy::KEY_DIGITS;
use super::open_file::{OpenSessionFile, SessionContent, SnapshotText};
use super::session_file::{
    MONITOR, MONITOR_FILES, MONITOR_PATH, SESSION_FILES, SessionFile, monitor_files,
};
use super::{LiveSession, file_error};
use bytes::Bytes;
use monitor_control::session::{StoredAccess, StoredStat};
use monitor_ninep::stat::{Attributes, DIRECTORY, Qid};
use monitor_ninep::tree::OpenMode;
use monitor_ninep::{Errno, FileError};
use std::sync::Arc;

/// The directory of files that are pushed.
const STORED: &str = "fs";
/// The bit of a qid path that says: the number of a session and a file of it.
const SESSION_BIT: u64 = 1 << 62;
/// The same for a file below `fs`.
const STORED_BIT: u64 = 1 << 63;
/// Bits of an inode in a qid path.
const INODE_BITS: u32 = 38;

/// The file of this name; `None` for the parent of the session.
///
/// # Errors
///
/// When there is none.
pub fn walk(
    session: &LiveSession,
    from: &SessionFile,
    name: &str,
) -> Result<Option<SessionFile>, FileError> {
    let absent = || FileError::new(Errno::NotFound, format!("there is no file {name:?}"));
    match from {
        SessionFile::Directory if name == ".." => Ok(None),
        SessionFile::Directory if name == STORED => Ok(Some(SessionFile::Stored("".into()))),
        SessionFile::Directory if name == MONITOR => Ok(Some(SessionFile::Monitor)),
        SessionFile::Monitor if name == ".." => Ok(Some(SessionFile::Directory)),
        SessionFile::MonitorCategory if name == ".." => Ok(Some(SessionFile::Monitor)),
        SessionFile::Monitor | SessionFile::MonitorCategory => {
            let found = monitor_files(from).find(|it| it.1 == name);
            found.map(|it| Some(it.0.clone())).ok_or_else(absent)
        }
        SessionFile::Directory => {
            let found = SESSION_FILES.iter().find(|it| it.1 == name);
            found.map(|it| Some(it.0.clone())).ok_or_else(absent)
        }
        SessionFile::Stored(path) if name == ".." => Ok(Some(match path.rsplit_once('/') {
            Some((parent, _)) => SessionFile::Stored(parent.into()),
            None if path.is_empty() => SessionFile::Directory,
            None => SessionFile::Stored("".into()),
        })),
        SessionFile::Stored(path) => {
            let path = below(path, name)?;
            session.stored.stat(&path).map_err(file_error)?;
            Ok(Some(SessionFile::Stored(path.into())))
        }
        _ => Err(absent()),
    }
}

/// The path of a file in a directory below `fs`.
pub fn below(directory: &str, name: &str) -> Result<String, FileError> {
    if name.contains('\0') || name.contains('/') || matches!(name, "" | "." | "..") {
        let why = format!("{name:?} is no name of a file");
        return Err(FileError::new(Errno::IllegalName, why));
    }
    Ok(if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") })
}

/// The attributes of a file; `started_s` is when the service began, in seconds since 1970.
pub fn attributes(session: &LiveSession, file: &SessionFile, started_s: u32) -> Attributes {
    let number = session.record.number;
    let own = |name: &str, qid: Qid, permissions: u32| Attributes {
        qid,
        permissions,
        modified_s: started_s,
        length: 0,
        name: name.to_owned(),
        uid: session.record.user.uid,
        gid: session.record.user.gid,
    };
    let path = |at: u64| SESSION_BIT | u64::from(number) << 8 | at;
    match file {
        SessionFile::Directory => own(&number.to_string(), Qid::directory(path(0)), 0o500),
        SessionFile::Stored(at) => {
            let name = if at.is_empty() { STORED } else { at.rsplit('/').next().unwrap_or(at) };
            // It may have been removed since the walk; then it is a file without content.
            let stat = session.stored.stat(at).ok();
            stored(own(name, Qid::default(), 0), number, stat)
        }
        SessionFile::Monitor => own(MONITOR, Qid::directory(path(MONITOR_PATH)), 0o500),
        SessionFile::MonitorCategory => {
            let at = path(2 * MONITOR_PATH);
            own(session_sample::CATEGORY, Qid::directory(at), 0o500)
        }
        SessionFile::MonitorDescription
        | SessionFile::MonitorControl
        | SessionFile::MonitorSample
        | SessionFile::MonitorWaiting(_) => {
            let listed = (MONITOR_PATH + 1..).zip(&MONITOR_FILES).find(|it| it.1.0 == *file);
            let (at, name) = listed.map_or((0, ""), |(at, it)| (at, it.1));
            let length = length(session, file).0;
            let permissions = match file {
                SessionFile::MonitorWaiting(file) => file.permissions() & 0o700,
                SessionFile::MonitorControl => 0o600,
                _ => 0o400,
            };
            Attributes { length, ..own(name, Qid::file(path(at)), permissions) }
        }
        file => {
            let listed = (1_u64..).zip(&SESSION_FILES).find(|it| it.1.0 == *file);
            let (at, name, permissions) = listed.map_or((0, "", 0), |(at, it)| (at, it.1, it.2));
            let (length, version) = length(session, file);
            let qid = Qid { version, ..Qid::file(path(at)) };
            Attributes { length, ..own(name, qid, permissions) }
        }
    }
}

fn stored(base: Attributes, number: u32, stat: Option<StoredStat>) -> Attributes {
    let Some(stat) = stat else {
        return Attributes { qid: Qid::file(STORED_BIT), ..base };
    };
    let inode = stat.inode & ((1 << INODE_BITS) - 1);
    let path = STORED_BIT | u64::from(number & 0xff_ffff) << INODE_BITS | inode;
    let qid = if stat.is_directory { Qid::directory(path) } else { Qid::file(path) };
    Attributes {
        qid: Qid { version: stat.modified_s, ..qid },
        permissions: stat.permissions,
        modified_s: stat.modified_s,
        length: stat.length,
        ..base
    }
}

/// Length and version of a file; those that block have no length.
fn length(session: &LiveSession, file: &SessionFile) -> (u64, u32) {
    let record = &session.record;
    let of_text = |it: usize| u64::try_from(it).unwrap_or(u64::MAX);
    match file {
        SessionFile::Text(text) => {
            let (length, version) = record.text_length(*text);
            (of_text(length), version)
        }
        SessionFile::Control => (of_text(record.process_text().len()), 0),
        SessionFile::Err => (of_text(record.error().len()), 0),
        SessionFile::Id => (of_text(record.id().len()), 0),
        SessionFile::MonitorControl => (of_text(session.monitor.text().len()), 0),
        SessionFile::MonitorDescription => (of_text(session_sample::description().len()), 0),
        SessionFile::Job => (of_text(record.job_id().len()), 0),
        SessionFile::Key => (of_text(KEY_DIGITS), 0),
        _ => (0, 0),
    }
}

/// The attributes of the files of a directory.
///
/// # Errors
///
/// When it has been removed.
pub fn entries(
    session: &LiveSession,
    directory: &SessionFile,
    started_s: u32,
) -> Result<Vec<Attributes>, FileError> {
    if matches!(directory, SessionFile::Monitor | SessionFile::MonitorCategory) {
        let files = monitor_files(directory).map(|it| attributes(session, &it.0, started_s));
        return Ok(files.collect());
    }
    let SessionFile::Stored(path) = directory else {
        let (fs, monitor) = (SessionFile::Stored("".into()), SessionFile::Monitor);
        let files = SESSION_FILES.iter().map(|it| &it.0).chain([&fs, &monitor]);
        let mut all: Vec<_> = files.map(|it| attributes(session, it, started_s)).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        return Ok(all);
    };
    let base = attributes(session, &SessionFile::Directory, started_s);
    let all = session.stored.list(path).map_err(file_error)?;
    let entry = |(name, stat)| {
        let base = Attributes { name, ..base.clone() };
        stored(base, session.record.number, Some(stat))
    };
    Ok(all.into_iter().map(entry).collect())
}

/// Opens a file.
///
/// # Errors
///
/// When it cannot be opened so.
pub fn open(
    session: &Arc<LiveSession>,
    file: &SessionFile,
    mode: OpenMode,
) -> Result<OpenSessionFile, FileError> {
    if mode.truncate {
        truncate(session, file)?;
    }
    let is_read_only = matches!(
        file,
        SessionFile::Err
            | SessionFile::Id
            | SessionFile::Job
            | SessionFile::Key
            | SessionFile::MonitorDescription
            | SessionFile::MonitorSample
            | SessionFile::Wait
            | SessionFile::Output
            | SessionFile::Errors
    );
    if mode.write && is_read_only || mode.read && *file == SessionFile::Input {
        // Root passes the permission bits.
        return Err(FileError::new(Errno::NotPermitted, "this file has one direction"));
    }
    let record = &session.record;
    let content = match file {
        SessionFile::Text(text) => SessionContent::Text(*text),
        SessionFile::Control => {
            SessionContent::Control(Bytes::new(), ControlFile::new(Arc::clone(session)))
        }
        SessionFile::Err => SessionContent::Snapshot(SnapshotText::Err, Bytes::new()),
        SessionFile::Id => SessionContent::Snapshot(SnapshotText::Id, Bytes::new()),
        SessionFile::Job => SessionContent::Snapshot(SnapshotText::Job, Bytes::new()),
        SessionFile::Key => SessionContent::Key(session.issue_key().map_err(file_error)?.into()),
        SessionFile::Output => SessionContent::Output(record.output.reader_of_kept()),
        SessionFile::Errors => SessionContent::Output(record.errors.reader_of_kept()),
        SessionFile::Input => SessionContent::Input(session.input.writer()),
        SessionFile::Both if mode.read => {
            let reader = record.output.reader_of_kept();
            SessionContent::Both(reader, session.input.writer())
        }
        SessionFile::Both => SessionContent::Input(session.input.writer()),
        SessionFile::Wait => SessionContent::Wait(None, record.wait_place()),
        SessionFile::Stored(path) => {
            let access = match (mode.read, mode.write) {
                (_, false) => StoredAccess::Read,
                (false, true) => StoredAccess::Write,
                (true, true) => StoredAccess::Both,
            };
            SessionContent::Stored(session.stored.open_file(path, access).map_err(file_error)?)
        }
        SessionFile::MonitorDescription => {
            SessionContent::Snapshot(SnapshotText::Description, Bytes::new())
        }
        SessionFile::Directory
        | SessionFile::Monitor
        | SessionFile::MonitorCategory
        | SessionFile::MonitorControl
        | SessionFile::MonitorSample
        | SessionFile::MonitorWaiting(_) => {
            return Err(FileError::new(Errno::IsDirectory, "it is a directory"));
        }
    };
    OpenSessionFile::new(session, content)
}

/// Creates a file or a directory below `fs`, and opens a file.
///
/// # Errors
///
/// When the name cannot be used, or the quota is full.
pub fn create(
    session: &Arc<LiveSession>,
    directory: &SessionFile,
    (name, permissions): (&str, u32),
) -> Result<(SessionFile, Option<OpenSessionFile>), FileError> {
    let SessionFile::Stored(directory) = directory else {
        let why = "files are created below fs/ of a session only";
        return Err(FileError::new(Errno::NotPermitted, why));
    };
    let special = permissions & !(DIRECTORY | 0o777);
    if special != 0 {
        let why = format!("permissions {permissions:#x}: only files and directories are created");
        return Err(FileError::new(Errno::NotPermitted, why));
    }
    let path = below(directory, name)?;
    let file = SessionFile::Stored(path.as_str().into());
    if permissions & DIRECTORY != 0 {
        session.stored.make_directory(&path, permissions & 0o777).map_err(file_error)?;
        return Ok((file, None));
    }
    let created = session.stored.create(&path, permissions & 0o777).map_err(file_error)?;
    let opened = OpenSessionFile::new(session, SessionContent::Stored(created))?;
    Ok((file, Some(opened)))
}

/// Removes a file below `fs`.
///
/// # Errors
///
/// When it is none, or a directory with entries.
pub fn remove(session: &LiveSession, file: &SessionFile) -> Result<(), FileError> {
    match file {
        SessionFile::Stored(path) if !path.is_empty() => {
            session.stored.remove(path).map_err(file_error)
        }
        _ => Err(FileError::new(
            Errno::NotPermitted,
            "files are removed below fs/ of a session only; a session ends with wipe",
        )),
    }
}

/// The path of a file below `fs`.
fn stored_path<'f>(file: &'f SessionFile, what: &str) -> Result<&'f str, FileError> {
    match file {
        SessionFile::Stored(path) => Ok(path),
        _ => {
            let why = format!("{what} is changed below fs/ of a session only");
            Err(FileError::new(Errno::NotPermitted, why))
        }
    }
}

/// Sets the permission bits of a file below `fs`.
///
/// # Errors
///
/// When it is none.
pub fn set_permissions(
    session: &LiveSession,
    file: &SessionFile,
    permissions: u32,
) -> Result<(), FileError> {
    let path = stored_path(file, "a mode")?;
    session.stored.set_permissions(path, permissions).map_err(file_error)
}

/// Sets when a file below `fs` was changed; others have no such time.
///
/// # Errors
///
/// When it has been removed.
pub fn set_modified(
    session: &LiveSession,
    file: &SessionFile,
    modified_s: u32,
) -> Result<(), FileError> {
    match file {
        SessionFile::Stored(path) if !path.is_empty() => {
            session.stored.set_modified(path, modified_s).map_err(file_error)
        }
        _ => Ok(()),
    }
}

/// Gives a file below `fs` another name.
///
/// # Errors
///
/// When it is none, or something has the name.
pub fn rename(
    session: &LiveSession,
    file: &SessionFile,
    name: &str,
) -> Result<SessionFile, FileError> {
    let path = stored_path(file, "a name")?;
    let parent = path.rsplit_once('/').map_or("", |it| it.0);
    let new = below(parent, name)?;
    session.stored.rename(path, name).map_err(file_error)?;
    Ok(SessionFile::Stored(new.into()))
}

/// The name of a file after another one was renamed, if it is that one or below it.
pub fn renamed(
    file: &SessionFile,
    (old, new): (&SessionFile, &SessionFile),
) -> Option<SessionFile> {
    let (SessionFile::Stored(path), SessionFile::Stored(old), SessionFile::Stored(new)) =
        (file, old, new)
    else {
        return None;
    };
    let rest = path.strip_prefix(&**old)?;
    (rest.is_empty() || rest.starts_with('/'))
        .then(|| SessionFile::Stored(format!("{new}{rest}").into()))
}

/// Removes the content of a file.
///
/// # Errors
///
/// When the file has none that can be removed.
pub fn truncate(session: &LiveSession, file: &SessionFile) -> Result<(), FileError> {
    match file {
        SessionFile::Text(text) => session.record.clear_text(*text),
        // A shell truncates what it writes to; there is nothing to be removed.
        SessionFile::Control
        | SessionFile::Input
        | SessionFile::Both
        | SessionFile::MonitorControl
        | SessionFile::MonitorWaiting(MonFile::Push) => {}
        SessionFile::Stored(path) => session.stored.truncate(path).map_err(file_error)?,
        _ => {
            let why = "this file is only read";
            return Err(FileError::new(Errno::NotPermitted, why));
        }
    }
    Ok(())
}
