//! The first result of every service.
//!
//! The specification says "integer status" and leaves its values open, 0 being success.
//! Another monitor may answer with numbers that have no name here.

/// How a service went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(pub i32);

/// A status that this monitor gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its number.
    pub status: Status,
    /// Its name.
    pub name: &'static str,
    /// What it tells the caller.
    pub meaning: &'static str,
}

macro_rules! statuses {
    ($($number:literal $name:ident $meaning:literal)*) => {
        impl Status {
            $(#[doc = $meaning] pub const $name: Self = Self($number);)*
        }

        /// Every status, in the order of numbers.
        pub const TABLE: &[Row] = &[
            $(Row { status: Status::$name, name: stringify!($name), meaning: $meaning },)*
        ];
    };
}

statuses! {
    0   OK "done"
    1   PARTIAL "some elements of a list failed; the others were served"
    2   OK_DEGRADED "done by a weaker method than was asked for"
    100 SYNTAX "the line is no request"
    101 LEX "a number, a string or a token is malformed"
    102 UNKNOWN_SERVICE "no service has this name"
    103 ARITY "too few or too many parameters"
    104 TYPE "a parameter of another type was wanted"
    105 RANGE "a number is out of its range"
    106 CLASS "an event stands where an action is wanted, or the other way round"
    107 UNBOUND_VAR "the event has no such variable, or there is no event"
    108 DUP_ID "a stored request has this id already"
    109 LIMIT "the request is longer, deeper or has more elements than is allowed"
    200 NO_SUCH_NODE "no node has this number"
    201 NODE_DOWN "the node does not answer any more"
    202 TIMEOUT "it did not happen in time"
    203 REORDERED "the set of nodes changed; the request was not executed"
    204 CANCELLED "the caller went away or took the request back"
    300 NO_SUCH_OBJECT "no object has this name"
    301 GONE "the object existed, and has ended"
    302 NOT_ATTACHED "the object is outside the scope of this session"
    303 WRONG_STATE "the object is not in a state that allows it"
    304 NO_SUCH_EVENT "no user-defined event has this number"
    305 EXISTS "there is one already"
    306 NO_SUCH_REQUEST "no stored request has this id here"
    307 BUSY "somebody else traces the process"
    308 LOCKED "another tool holds the object"
    309 AMBIGUOUS "the name means more than one thing"
    400 PERMISSION "the caller may not do this"
    401 FAULT "the address is not mapped, or not for this use"
    402 UNSUPPORTED "this node cannot do it"
    403 RESOURCE "no probe, hardware breakpoint or table row is left"
    404 IO "reading or writing failed"
    405 UNSAFE_SITE "a probe at this address would damage the program"
    406 INTERRUPTED "it was begun and not finished"
    407 LOST "events were dropped; the second result is their number"
    408 EVENT_STORM "too many events; the request was disabled"
    900 INTERNAL "a mistake of the monitor itself"
}

impl Status {
    /// Whether what was asked for was done, if only in part or by a weaker method.
    pub const fn is_success(self) -> bool {
        self.0 >= 0 && self.0 < 100
    }

    /// Its row, if it has one.
    pub fn row(self) -> Option<&'static Row> {
        let place = TABLE.binary_search_by_key(&self, |row| row.status).ok()?;
        Some(&TABLE[place])
    }

    /// Its name; a number of another monitor has none.
    pub fn name(self) -> Option<&'static str> {
        self.row().map(|row| row.name)
    }

    /// The status of that name.
    pub fn named(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.name == name).map(|row| row.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_and_name_is_there_once() {
        assert!(TABLE.is_sorted_by(|a, b| a.status < b.status));
        for row in TABLE {
            assert_eq!(row.status.name(), Some(row.name));
            assert_eq!(Status::named(row.name), Some(row.status));
        }
    }

    #[test]
    fn a_number_of_another_monitor_has_no_name() {
        assert_eq!(Status(1234).name(), None);
        assert_eq!(Status(-1).name(), None);
    }

    #[test]
    fn what_is_below_a_hundred_was_done() {
        let done = TABLE.iter().filter(|row| row.status.is_success()).map(|row| row.name);
        assert_eq!(Vec::from_iter(done), ["OK", "PARTIAL", "OK_DEGRADED"]);
        assert!(!Status(-1).is_success());
    }
}
