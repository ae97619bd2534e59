//! A line of `ctl`.
//!
//! In: the bytes of the line. Out: what it asks for. Executes nothing.

use super::Stream;
use super::copy_target::{CopyTarget, MAX_WIDTH};
use super::error::{Refusal, SessionError};
use super::words::words;
use crate::signal;
use std::path::PathBuf;

/// What a line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlLine {
    /// Nothing: the line is empty.
    Nothing,
    /// Execute a program, in a directory.
    Exec {
        /// The program: an absolute path, or a name in the directory of the session.
        program: Option<Vec<u8>>,
        /// The working directory; absent, that of the session.
        folder: Option<PathBuf>,
    },
    /// Send a signal to the program.
    Signal(i32),
    /// Close this end of a stream.
    Close(Stream),
    /// When the session ends.
    Type(Lifetime),
    /// The numbers of job and process, as texts; an empty one stays.
    Id(Vec<u8>, Vec<u8>),
    /// Let a stream be a file in the directory of the session.
    Redirect(Redirect),
    /// A limit on what the processes of the session use.
    Limit(Limit),
    /// Copy the session to others, at most this number at a time from here; 0 is all.
    Clone(usize, Vec<CopyTarget>),
    /// End the session.
    Wipe,
}

/// When a session ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifetime {
    /// When no program runs and no file of it is open.
    #[default]
    Normal,
    /// When it is wiped.
    Persistent,
    /// When the open file that has made it is closed, as it is with its connection.
    Attached,
}

/// A stream that is a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The stream.
    pub stream: Stream,
    /// The path of the file, below the directory of the session.
    pub path: Vec<u8>,
}

/// A limit on the processes of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Processors, in percent of one.
    Processor(u64),
    /// Bytes of memory.
    Memory(u64),
    /// Processes and threads.
    Processes(u64),
    /// Output without room is dropped, oldest first, instead of waiting for a reader.
    DropOutput,
}

/// Signals by name (signal(7)), without `SIG`.
const SIGNALS: [(&str, i32); 31] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("PWR", 30),
    ("SYS", 31),
];

impl ControlLine {
    /// Parses a line, without its line break.
    ///
    /// # Errors
    ///
    /// When it is no command, or has other operands than the command.
    pub fn parse(line: &[u8]) -> Result<Self, SessionError> {
        let words = words(line)?;
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        match words.as_slice() {
            [] => Ok(Self::Nothing),
            [b"exec"] => Ok(Self::Exec { program: None, folder: None }),
            [b"exec", program] => Ok(Self::Exec { program: Some(program.to_vec()), folder: None }),
            [b"exec", program, folder] => {
                Ok(Self::Exec { program: Some(program.to_vec()), folder: Some(path(folder)) })
            }
            [b"signal", it] => signal_number(it).map(Self::Signal),
            [b"close", stream] => stream_named(stream).map(Self::Close),
            [b"type", b"normal"] => Ok(Self::Type(Lifetime::Normal)),
            [b"type", b"persistent"] => Ok(Self::Type(Lifetime::Persistent)),
            [b"type", b"attached"] => Ok(Self::Type(Lifetime::Attached)),
            [b"id", it] => id(it),
            [b"redirect", stream, path] => {
                let stream = stream_named(stream)?;
                Ok(Self::Redirect(Redirect { stream, path: path.to_vec() }))
            }
            [b"limit", b"spool", b"drop"] => Ok(Self::Limit(Limit::DropOutput)),
            [b"limit", what, most] => limit(what, most).map(Self::Limit),
            [b"wipe"] => Ok(Self::Wipe),
            [b"clone", width, targets] => {
                let targets = CopyTarget::list(targets)?;
                copy_width(width).map(|width| Self::Clone(width, targets))
            }
            [command, ..] => Err(invalid(format!(
                "{:?} is no command with these operands: expected exec [PROGRAM [DIRECTORY]], \
                 signal S, close STREAM, type normal|persistent|attached, id JOB/PROCESS, redirect \
                 STREAM PATH, limit cpu|mem|pids N, limit spool drop, clone MAX \
                 ADDRESS/SESSION/KEY,…, or wipe",
                shown(command)
            ))),
        }
    }
}

fn copy_width(text: &[u8]) -> Result<usize, SessionError> {
    let width = std::str::from_utf8(text).ok().and_then(|it| it.parse().ok());
    width.filter(|it| *it <= MAX_WIDTH).ok_or_else(|| {
        let text = shown(text);
        invalid(format!("clone: {text:?} copies at a time: expected 0, for all, to {MAX_WIDTH}"))
    })
}

fn path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    std::ffi::OsStr::from_bytes(bytes).into()
}

fn stream_named(name: &[u8]) -> Result<Stream, SessionError> {
    let wrong = || invalid(format!("{:?} is no stream: stdin, stdout or stderr", shown(name)));
    Stream::from_name(name).ok_or_else(wrong)
}

/// A signal by number, or by name with or without `SIG`.
fn signal_number(text: &[u8]) -> Result<i32, SessionError> {
    let text = shown(text);
    let name = text.strip_prefix("SIG").unwrap_or(&text);
    let named = SIGNALS.iter().find(|it| it.0 == name).map(|it| it.1);
    let number = named.or_else(|| text.parse().ok());
    let known = number.filter(|it| signal::check(*it).is_ok());
    known.ok_or_else(|| invalid(format!("{text:?} is no signal: a number of 1 to 64, or a name")))
}

fn id(text: &[u8]) -> Result<ControlLine, SessionError> {
    let mut parts = text.splitn(2, |it| *it == b'/');
    let (job, process) = (parts.next().unwrap_or_default(), parts.next());
    let is_number = |it: &[u8]| it.iter().all(u8::is_ascii_digit);
    match process {
        Some(process) if is_number(process) && process.len() <= 10 && job.len() <= 1024 => {
            Ok(ControlLine::Id(job.to_vec(), process.to_vec()))
        }
        _ => Err(invalid(format!("{:?} is no id: JOB/PROCESS, with a number", shown(text)))),
    }
}

fn limit(what: &[u8], most: &[u8]) -> Result<Limit, SessionError> {
    let number = std::str::from_utf8(most).ok().and_then(|it| it.parse::<u64>().ok());
    let Some(most) = number.filter(|it| *it > 0) else {
        return Err(invalid(format!("{:?} is no limit: a number above 0", shown(most))));
    };
    match what {
        b"cpu" => Ok(Limit::Processor(most)),
        b"mem" => Ok(Limit::Memory(most)),
        b"pids" => Ok(Limit::Processes(most)),
        _ => Err(invalid(format!("{:?} is no limit: cpu, mem, pids or spool", shown(what)))),
    }
}

/// What a message quotes of it.
fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(64)]).into_owned()
}

fn invalid(why: String) -> SessionError {
    SessionError::new(Refusal::Invalid, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<ControlLine, Refusal> {
        ControlLine::parse(line.as_bytes()).map_err(|it| it.refusal)
    }

    #[test]
    fn a_line_is_a_command_and_its_operands() {
        let program = Some(b"/bin/a b".to_vec());
        assert_eq!(
            parse("exec '/bin/a b' /tmp"),
            Ok(ControlLine::Exec { program, folder: Some("/tmp".into()) })
        );
        assert_eq!(parse("exec"), Ok(ControlLine::Exec { program: None, folder: None }));
        assert_eq!(parse("signal SIGTERM"), Ok(ControlLine::Signal(15)));
        assert_eq!(parse("signal KILL"), Ok(ControlLine::Signal(9)));
        assert_eq!(parse("signal 64"), Ok(ControlLine::Signal(64)));
        assert_eq!(parse("type attached"), Ok(ControlLine::Type(Lifetime::Attached)));
        assert_eq!(parse("close stdin"), Ok(ControlLine::Close(Stream::Input)));
        assert_eq!(parse("id 7/"), Ok(ControlLine::Id(b"7".to_vec(), Vec::new())));
        let targets = CopyTarget::list(b"/run/a.9p/1/k").expect("one");
        assert_eq!(parse("clone 4 /run/a.9p/1/k,"), Ok(ControlLine::Clone(4, targets)));
        assert_eq!(parse("limit pids 9"), Ok(ControlLine::Limit(Limit::Processes(9))));
        assert_eq!(parse(" "), Ok(ControlLine::Nothing));
    }

    #[test]
    fn what_is_no_command_is_refused() {
        let all = [
            "execute",
            "exec a b c",
            "signal",
            "signal 0",
            "signal 65",
            "signal -9",
            "signal FOO",
            "close",
            "close all",
            "type",
            "type odd",
            "id 7",
            "id 7/-1",
            "redirect stdout",
            "limit pids 0",
            "limit pids -1",
            "limit disk 1",
            "wipe now",
            "exec '",
            "exec a\0b",
        ];
        for line in all {
            assert_eq!(parse(line), Err(Refusal::Invalid), "{line:?}");
        }
        for line in ["clone", "clone 2", "clone 2 a/1", "clone x a/1/k", "clone 65 a/1/k"] {
            assert_eq!(parse(line), Err(Refusal::Invalid), "{line:?}");
        }
    }
}
