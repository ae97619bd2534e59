//! The commands around recordings, one file each.
//!
//! `record` writes samples (`sink`), of other nodes too (`record_nodes`), `replay` prints them as
//! `watch` would, `report` summarizes them, `export` converts them, `save` fetches the daemon's
//! flight recorder.

pub mod args;
mod page;
mod record;
mod record_nodes;
mod replay;
mod report;
mod save;
mod sink;

pub use record::{RunRecorder, record};
pub use replay::{export, replay};
pub use report::report;
pub use save::save;
pub use sink::existing;

use super::exit::{Exit, Failure};
use monitor_recording::Error;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = match &error {
            Error::Exists { .. } => Exit::Usage,
            Error::File { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                Exit::Denied
            }
            _ => Exit::Failed,
        };
        Self { message: error.to_string(), exit }
    }
}
