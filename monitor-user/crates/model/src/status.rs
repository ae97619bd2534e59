//! Status of a request: one list, with the numbers and names of PMIx.
//!
//! The numbers are those of `pmix_common.h`, so that PMIx clients and ours read the same.

use crate::names;

/// Status of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Status {
    /// Everything requested was done.
    Success = 0,
    /// Failure of the monitor or the machine.
    Error = -1,
    /// An object with that name exists already.
    Exists = -11,
    /// The caller lacks the permission.
    NoPermissions = -23,
    /// The timeout expired.
    Timeout = -24,
    /// The node or process that should reply cannot be reached.
    Unreach = -25,
    /// The request is invalid.
    BadParam = -27,
    /// A limit was reached.
    OutOfResource = -29,
    /// No such process, device, node or monitor.
    NotFound = -46,
    /// Not supported by this host or this backend.
    NotSupported = -47,
    /// Partly done.
    PartialSuccess = -52,
    /// The service is shutting down.
    NotAvailable = -64,
}

// As PMIx spells them, without the prefix.
names! { Status {
    Success "SUCCESS", Error "ERROR", Exists "EXISTS", NoPermissions "NO_PERMISSIONS",
    Timeout "TIMEOUT", Unreach "UNREACH", BadParam "BAD_PARAM", OutOfResource "OUT_OF_RESOURCE",
    NotFound "NOT_FOUND", NotSupported "NOT_SUPPORTED", PartialSuccess "PARTIAL_SUCCESS",
    NotAvailable "NOT_AVAILABLE",
} }

impl Status {
    /// Number of the status.
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// The status with this number.
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.number() == number)
    }
}

/// Refusal of a request: a status, and one sentence that says what, why and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The status.
    pub status: Status,
    /// The sentence, for the client.
    pub message: String,
}

impl Refusal {
    /// A refusal with a status.
    pub fn new(status: Status, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// The request is invalid.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(Status::BadParam, message)
    }

    /// The object does not exist.
    pub fn absent(message: impl Into<String>) -> Self {
        Self::new(Status::NotFound, message)
    }

    /// A limit was reached.
    pub fn limit(message: impl Into<String>) -> Self {
        Self::new(Status::OutOfResource, message)
    }

    /// The caller lacks the permission.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(Status::NoPermissions, message)
    }
}

impl From<super::name::UnknownName> for Refusal {
    fn from(unknown: super::name::UnknownName) -> Self {
        Self::bad(unknown.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_belongs_to_one_status() {
        for status in Status::ALL {
            assert_eq!(Status::from_number(status.number()), Some(*status));
        }
        assert_eq!(Status::from_number(7), None);
    }
}
