//! How a request ended: one list, with the numbers and names that PMIx gives them.
//!
//! The numbers are those of `pmix_common.h`, so that a client of either kind reads the same one.

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Status {
    /// All that was asked for was done.
    Success = 0,
    /// It failed, and that is a fault of the monitor or of the machine.
    Error = -1,
    /// Something of that name is there already.
    Exists = -11,
    /// The caller may not.
    NoPermissions = -23,
    /// It took too long.
    Timeout = -24,
    /// Whoever should answer cannot be reached.
    Unreach = -25,
    /// The request makes no sense.
    BadParam = -27,
    /// A limit was reached.
    OutOfResource = -29,
    /// No such process, device, node or monitor.
    NotFound = -46,
    /// This host or this backend cannot.
    NotSupported = -47,
    /// A part was done.
    PartialSuccess = -52,
    /// The service is about to end.
    NotAvailable = -64,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Success,
        Self::Error,
        Self::Exists,
        Self::NoPermissions,
        Self::Timeout,
        Self::Unreach,
        Self::BadParam,
        Self::OutOfResource,
        Self::NotFound,
        Self::NotSupported,
        Self::PartialSuccess,
        Self::NotAvailable,
    ];

    /// Its number.
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// The status of a number.
    pub fn of(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.number() == number)
    }

    /// Its name, as PMIx spells it without the prefix.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "SUCCESS",
            Self::Error => "ERROR",
            Self::Exists => "EXISTS",
            Self::NoPermissions => "NO_PERMISSIONS",
            Self::Timeout => "TIMEOUT",
            Self::Unreach => "UNREACH",
            Self::BadParam => "BAD_PARAM",
            Self::OutOfResource => "OUT_OF_RESOURCE",
            Self::NotFound => "NOT_FOUND",
            Self::NotSupported => "NOT_SUPPORTED",
            Self::PartialSuccess => "PARTIAL_SUCCESS",
            Self::NotAvailable => "NOT_AVAILABLE",
        }
    }
}

/// Why a request was not done: a status, and one sentence that says what, why and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What kind.
    pub status: Status,
    /// The sentence.
    pub message: String,
}

impl Refusal {
    /// With a status.
    pub fn new(status: Status, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// The request makes no sense.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(Status::BadParam, message)
    }

    /// No such thing.
    pub fn absent(message: impl Into<String>) -> Self {
        Self::new(Status::NotFound, message)
    }

    /// A limit was reached.
    pub fn limit(message: impl Into<String>) -> Self {
        Self::new(Status::OutOfResource, message)
    }

    /// The caller may not.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(Status::NoPermissions, message)
    }
}

impl From<super::name::Unknown> for Refusal {
    fn from(unknown: super::name::Unknown) -> Self {
        Self::bad(unknown.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_of_one_status() {
        for status in Status::ALL {
            assert_eq!(Status::of(status.number()), Some(status));
        }
        assert_eq!(Status::of(7), None);
    }
}
