//! Commands around recordings: one file each.
//!
//! `record` writes what is read, `replay` reads what was written as if it happened now,
//! `report` tells what used what, `export` gives it to other programs,
//! `save` fetches one that the daemon has kept.

mod course;
mod export;
mod feed;
mod here;
mod page;
mod player;
mod progress;
mod record;
mod relayed;
mod replay;
mod report;
mod save;
mod stage;
mod when;
pub mod words;

pub use course::Course;
pub use export::export;
pub use record::{existing, record};
pub use replay::replay;
pub use report::report;
pub use save::save;

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
