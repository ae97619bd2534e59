//! Calls that no probe saw, because the process had none yet.

use monitor_model::{Identity, Pid};
use std::{fmt, time::Duration};

/// Calls of one process that were not seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnseenCalls {
    /// The process.
    pub pid: Pid,
    /// The watched process that has created it; the process itself, if its first thread has ended.
    pub watched: Identity,
    /// Why.
    pub gap: ProbeGap,
}

/// Why a process had no probes, since its creation or the end of its first thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeGap {
    /// They were set after this time.
    Before(Duration),
    /// They were set in a library this time after a thread could call it.
    Library(Duration),
    /// It ended before they were set.
    Ended,
    /// They are refused.
    Refused(String),
}

impl fmt::Display for UnseenCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pid = self.pid.0;
        match &self.gap {
            ProbeGap::Before(gap) => {
                write!(f, "calls of process {pid} were not seen for {gap:.1?}, until it had probes")
            }
            ProbeGap::Library(gap) => write!(
                f,
                "calls of process {pid} to code that it loaded were not seen for {gap:.1?}, until \
                 that had probes"
            ),
            ProbeGap::Ended => {
                write!(f, "calls of process {pid} were not seen: it ended before it had probes")
            }
            ProbeGap::Refused(why) => write!(f, "calls of process {pid} are not seen: {why}"),
        }
    }
}

impl UnseenCalls {
    /// These calls and those of a number of other processes, as one text.
    pub fn with_others(&self, n_others: usize) -> String {
        match n_others {
            0 => self.to_string(),
            1 => format!("{self}; and 1 process like it"),
            n => format!("{self}; and {n} processes like it"),
        }
    }
}
