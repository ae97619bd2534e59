//! Commands around recordings: one file each.
//!
//! `record` writes what is read, `replay` reads what was written as if it happened now.

mod feed;
mod here;
mod player;
mod progress;
mod record;
mod relayed;
mod replay;
mod when;
pub mod words;

pub use record::record;
pub use replay::replay;

use super::exit::{Exit, Failure};
use crate::record::Error;

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
