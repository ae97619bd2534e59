//! What the search for code and queues could not do, as a refusal.

use crate::event::outcome::Refusal;
use crate::omis::Status;
use crate::probe::error::Error;

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::Gone { .. } => Status::GONE,
            Error::Unreadable { .. } => Status::RANGE,
            Error::File { source, .. } => match source.kind() {
                std::io::ErrorKind::PermissionDenied => Status::PERMISSION,
                std::io::ErrorKind::NotFound => Status::NO_SUCH_OBJECT,
                _ => Status::IO,
            },
            Error::Malformed { .. } => Status::IO,
            Error::Unsupported { .. } | Error::Lacking { .. } => Status::UNSUPPORTED,
            Error::Missing { .. } | Error::Unloaded { .. } => Status::NO_SUCH_OBJECT,
            Error::Unsafe { .. } => Status::UNSAFE_SITE,
            Error::Moving => Status::INTERRUPTED,
        };
        let errno = match &error {
            Error::File { source, .. } => source.raw_os_error().unwrap_or(0),
            _ => 0,
        };
        Self::new(status, error.to_string()).with_errno(errno)
    }
}
