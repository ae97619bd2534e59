//! The status, which is the first result of every service.
//!
//! The specification says "integer status" and defines only 0, success; this module defines the
//! others. Another monitor may answer with numbers that have no name here.
//! docs/REQUESTS.md has the same table; a test compares them.

/// The status of a service: success below 100, failure otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(pub i32);

/// A row of the table of statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusSpec {
    /// The number.
    pub status: Status,
    /// The name.
    pub name: &'static str,
    /// The meaning, as the manual prints it.
    pub meaning: &'static str,
}

macro_rules! statuses {
    ($($number:literal $name:ident $meaning:literal)*) => {
        impl Status {
            $(#[doc = $meaning] pub const $name: Self = Self($number);)*
        }

        /// All statuses, ordered by number.
        pub const TABLE: &[StatusSpec] = &[
            $(StatusSpec { status: Status::$name, name: stringify!($name), meaning: $meaning },)*
        ];
    };
}

statuses! {
    0   OK "done"
    1   PARTIAL "some elements of a list failed; the others were served"
    2   OK_DEGRADED "done by a weaker method than requested"
    100 SYNTAX "the line is not a request"
    101 LEX "a number, a string or a token is malformed"
    102 UNKNOWN_SERVICE "no service has this name"
    103 ARITY "too few or too many parameters"
    104 TYPE "a parameter has the wrong type"
    105 RANGE "a number is out of its range"
    106 CLASS "an event in place of an action, or an action in place of an event"
    107 UNBOUND_VAR "the event has no such variable, or there is no event"
    108 DUP_ID "a stored request has this id already"
    109 LIMIT "the request is longer, deeper or has more elements than is allowed"
    200 NO_SUCH_NODE "no node has this number"
    201 NODE_DOWN "the node no longer answers"
    202 TIMEOUT "timed out"
    203 REORDERED "the set of nodes changed; the request was not executed"
    204 CANCELLED "the client disconnected or cancelled the request"
    300 NO_SUCH_OBJECT "no object has this name"
    301 GONE "the object existed and has ended"
    302 NOT_ATTACHED "the object is outside the scope of this session"
    303 WRONG_STATE "not allowed in the current state of the object"
    304 NO_SUCH_EVENT "no user-defined event has this number"
    305 EXISTS "it already exists"
    306 NO_SUCH_REQUEST "no stored request has this id here"
    307 BUSY "another tracer is attached to the process"
    308 LOCKED "another client has locked the object"
    309 AMBIGUOUS "the name is ambiguous"
    400 PERMISSION "permission denied"
    401 FAULT "the address is not mapped, or its protection forbids the access"
    402 UNSUPPORTED "not supported on this node"
    403 RESOURCE "no probe, hardware breakpoint or table row is left"
    404 IO "reading or writing failed"
    405 UNSAFE_SITE "a probe at this address would corrupt the program"
    406 INTERRUPTED "started but not finished"
    407 LOST "events were dropped; the second result is the number, or -1 with a reason"
    408 EVENT_STORM "too many events; the request was disabled"
    900 INTERNAL "internal error of the monitor"
}

impl Status {
    /// Returns whether the service was done, also partly or by a weaker method.
    pub const fn is_success(self) -> bool {
        self.0 >= 0 && self.0 < 100
    }

    /// Returns the row of the table, if this monitor defines the status.
    pub fn spec(self) -> Option<&'static StatusSpec> {
        let index = TABLE.binary_search_by_key(&self, |row| row.status).ok()?;
        Some(&TABLE[index])
    }

    /// Returns the name; a number that only another monitor defines has none.
    pub fn name(self) -> Option<&'static str> {
        self.spec().map(|row| row.name)
    }

    /// Returns the status with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.name == name).map(|row| row.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique() {
        assert!(TABLE.is_sorted_by(|a, b| a.status < b.status));
        for row in TABLE {
            assert_eq!(row.status.name(), Some(row.name));
            assert_eq!(Status::from_name(row.name), Some(row.status));
        }
    }

    #[test]
    fn a_number_of_another_monitor_has_no_name() {
        assert_eq!(Status(1234).name(), None);
        assert_eq!(Status(-1).name(), None);
    }

    #[test]
    fn statuses_below_a_hundred_are_success() {
        let done = TABLE.iter().filter(|row| row.status.is_success()).map(|row| row.name);
        assert_eq!(Vec::from_iter(done), ["OK", "PARTIAL", "OK_DEGRADED"]);
        assert!(!Status(-1).is_success());
    }
}
