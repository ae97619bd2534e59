//! What is found in the files of a process, with the rights of this process.
//!
//! In: a process and a query. Out: data alone, bounded before it is used elsewhere.

use super::{FileQuery, FoundInFiles, message_queue};
use monitor_model::Pid;
use monitor_symbols::{SymbolError, calls, diag_probes, report::Report};
use std::path::Path;

const PROC: &str = "/proc";
/// Most static probes of a process.
const MOST_PROBES: usize = 1024;

/// Reads files.
pub fn answer(pid: Pid, query: &FileQuery) -> Result<FoundInFiles, Report> {
    let found = match query {
        FileQuery::Calls(query) => {
            calls::find(Path::new(PROC), pid, query).map(FoundInFiles::Calls)
        }
        FileQuery::Queue(query) => {
            message_queue::answer(Path::new(PROC), pid, query).map(FoundInFiles::Queue)
        }
        FileQuery::DiagProbes => {
            let found = diag_probes::in_process(Path::new(PROC), pid);
            found.map(|(found, failed)| {
                for error in failed {
                    tracing::debug!("static probes of process {}: {error}", pid.0);
                }
                FoundInFiles::DiagProbes(found)
            })
        }
    };
    found.map_err(|error| Report::from(&error))
}

impl FoundInFiles {
    /// The same, if it is within bounds: the user controls what the process reports.
    ///
    /// # Errors
    ///
    /// If it is not.
    pub fn checked(self) -> Result<Self, SymbolError> {
        match self {
            Self::Calls(found) => found.checked().map(Self::Calls),
            // The length of the frame is its bound.
            Self::Queue(_) => Ok(self),
            Self::DiagProbes(mut found) => {
                found.truncate(MOST_PROBES);
                Ok(Self::DiagProbes(found))
            }
        }
    }
}
