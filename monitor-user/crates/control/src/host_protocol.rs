//! What commands ask the host of a job, and what it answers: a line of JSON each, on a Unix socket
//! in the folder of the job.

use crate::output_log::OutputPart;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::time::Duration;

/// How long a command may take to send its request.
pub const REQUEST_TIME: Duration = Duration::from_secs(10);
/// Longest time to wait for the first part of an output.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);
/// The socket in the folder of the job.
const SOCKET: &str = "host";

/// The variable with the folder where the output of a job is kept: of a launcher in the background
/// and its ranks, and of the program of a session.
pub const OUTPUT_FOLDER: &str = "MONITOR_JOB_OUTPUT";

/// The path of the socket of a host, in its open folder: that of the folder may be longer than a
/// path of a socket (unix(7)).
pub fn socket_path(folder: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(SOCKET)
}

/// A request: one for each connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostRequest {
    /// The values of keys, about a namespace.
    Query {
        /// The keys, as PMIx calls them.
        keys: Vec<String>,
        /// The namespace.
        namespace: String,
    },
    /// An event for ranks.
    Notify {
        /// Its number (`pmix_status_t`).
        code: i32,
        /// The namespace of the ranks; all that the host knows, if there is none.
        namespace: Option<String>,
        /// The ranks; all, if there is none.
        ranks: Vec<u32>,
        /// A text for the handlers.
        text: Option<String>,
    },
    /// A text for the standard output or error of the host.
    Log {
        /// The text.
        text: String,
        /// Whether it is for the standard error.
        is_error: bool,
    },
    /// What the ranks have written.
    Output(OutputSpan),
}

/// Which part of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputSpan {
    /// Its position, in bytes of the output of the whole job.
    pub from: u64,
    /// Its length in bytes, rounded up to whole writes.
    pub most: u64,
    /// How long to wait for it.
    pub wait: SpanWait,
    /// Whose it is.
    #[serde(default)]
    pub of: SpanOf,
}

/// Whose output is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanOf {
    /// That of all.
    #[default]
    All,
    /// That of some ranks, which the command selects: refused where no part names its rank.
    Ranks,
}

/// How long to wait for output that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanWait {
    /// Until the job has ended.
    ToTheEnd,
    /// For the first part, at most this number of milliseconds; and not at all for more.
    First(u64),
}

impl SpanWait {
    /// How long to wait for the first part; none: until the job has ended.
    pub fn first_within(self) -> Option<Duration> {
        match self {
            Self::ToTheEnd => None,
            Self::First(milliseconds) => {
                Some(Duration::from_millis(milliseconds).min(LONGEST_WAIT))
            }
        }
    }
}

/// The line in the output of a host for the text of [`HostRequest::Log`].
pub fn log_line(text: &str) -> String {
    format!("{}\n", text.trim_end_matches('\n'))
}

/// An answer; those of an output are many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostAnswer {
    /// It is done.
    Done,
    /// It is not done.
    Refused(String),
    /// The value of each key; `null` where there is none.
    Values(Vec<Json>),
    /// Bytes of older output that are not kept.
    Lost(u64),
    /// A part of the output.
    Output {
        /// The namespace of the rank.
        namespace: String,
        /// The rank; none for the host itself, and for a launcher.
        rank: Option<u32>,
        /// Whether it is standard error.
        is_error: bool,
        /// The bytes, in base64.
        bytes: String,
    },
    /// Where the next part begins, in bytes of the output of the whole job: after the last part.
    Position(u64),
    /// How ranks and launcher ended, at the end of an output; those that have not are left out.
    Ended(Vec<EndedRank>),
}

impl HostAnswer {
    /// It as a line.
    ///
    /// # Errors
    /// If it is no JSON.
    pub fn line(&self) -> io::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }
}

impl From<&OutputPart> for HostAnswer {
    fn from(part: &OutputPart) -> Self {
        Self::Output {
            namespace: part.source.group.to_string(),
            rank: part.source.rank,
            is_error: part.source.is_error,
            bytes: STANDARD.encode(&part.bytes),
        }
    }
}

/// How a rank, or the launcher, ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedRank {
    /// Its namespace.
    pub namespace: String,
    /// Its number; none for the launcher.
    pub rank: Option<u32>,
    /// Its exit code, if it has exited.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}
