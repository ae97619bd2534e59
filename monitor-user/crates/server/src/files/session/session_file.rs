//! The files of a session and of its `mon/`: their names, and where each is.
//!
//! What they contain is in `tree.rs`.

use super::super::mon_file::MonFile;
use super::super::session_sample;
use monitor_control::session::TextFile;
use std::sync::Arc;

/// A file of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionFile {
    /// The directory of the session.
    Directory,
    /// A text that clients write.
    Text(TextFile),
    /// Commands.
    Control,
    /// The explanation of the last refusal.
    Err,
    /// Numbers of job and process.
    Id,
    /// The id of its job.
    Job,
    /// A key, which permits a copy of another session to this one.
    Key,
    /// The error output.
    Errors,
    /// The input.
    Input,
    /// Output and input.
    Both,
    /// The output.
    Output,
    /// The end of the program.
    Wait,
    /// The directory of what is measured of its processes.
    Monitor,
    /// What a sample of its processes has.
    MonitorDescription,
    /// A sample of its processes; the connection opens it.
    MonitorSample,
    /// What is set for samples of its processes; the connection opens it.
    MonitorControl,
    /// The directory of the category of its samples: the same files as that of all.
    MonitorCategory,
    /// What happens to its processes; the connection opens it.
    MonitorWaiting(MonFile),
    /// A file of the session's directory, by its path; the directory itself, if that is empty.
    Stored(Arc<str>),
}

/// The files in the order in which they are listed, with their names and permission bits.
pub const SESSION_FILES: [(SessionFile, &str, u32); 13] = [
    (SessionFile::Text(TextFile::Argv), "argv", 0o600),
    (SessionFile::Control, "ctl", 0o600),
    (SessionFile::Text(TextFile::Env), "env", 0o600),
    (SessionFile::Err, "err", 0o400),
    (SessionFile::Id, "id", 0o400),
    (SessionFile::Job, "job", 0o400),
    (SessionFile::Key, "key", 0o400),
    (SessionFile::Text(TextFile::State), "state", 0o600),
    (SessionFile::Errors, "stderr", 0o400),
    (SessionFile::Input, "stdin", 0o200),
    (SessionFile::Both, "stdio", 0o600),
    (SessionFile::Output, "stdout", 0o400),
    (SessionFile::Wait, "wait", 0o400),
];
/// The files of its monitor, with their names.
pub const MONITOR_FILES: [(SessionFile, &str); 7] = [
    (SessionFile::MonitorControl, "ctl"),
    (SessionFile::MonitorDescription, "desc"),
    (SessionFile::MonitorWaiting(MonFile::Event), MonFile::Event.name()),
    (SessionFile::MonitorWaiting(MonFile::Log), MonFile::Log.name()),
    (SessionFile::MonitorCategory, session_sample::CATEGORY),
    (SessionFile::MonitorSample, "pull"),
    (SessionFile::MonitorWaiting(MonFile::Push), MonFile::Push.name()),
];
/// The directory of what is measured.
pub const MONITOR: &str = "mon";
/// What follows the files of a session in a qid path: the directory, and its files.
pub const MONITOR_PATH: u64 = 0x20;

/// The files of a directory of the monitor. There is one category, and what is of all of them is
/// not in its directory.
pub fn monitor_files(
    of: &SessionFile,
) -> impl Iterator<Item = &'static (SessionFile, &'static str)> {
    const FILES: &[(SessionFile, &str)] = &MONITOR_FILES;
    let is_category = *of == SessionFile::MonitorCategory;
    FILES.iter().filter(move |(file, _)| {
        let is_of_all = matches!(
            file,
            SessionFile::MonitorControl
                | SessionFile::MonitorCategory
                | SessionFile::MonitorWaiting(MonFile::Log)
        );
        !(is_category && is_of_all)
    })
}
