//! Signal numbers: those of Linux on x86-64, and those of the remote protocol.
//!
//! The protocol has numbers of its own (include/gdb/signals.def of binutils-gdb), so that a
//! debugger on another system understands them.

use gdbstub::common::Signal;

/// Linux and protocol, where the numbers differ, up to 31.
const DIFFERENT: &[(i32, u8)] = &[
    (7, 10),
    (10, 30),
    (12, 31),
    (16, UNKNOWN),
    (17, 20),
    (18, 19),
    (19, 17),
    (20, 18),
    (23, 16),
    (29, 23),
    (30, 32),
    (31, 12),
    (32, 77),
    (64, 78),
];
/// `GDB_SIGNAL_UNKNOWN`.
const UNKNOWN: u8 = 143;
/// The protocol's number of the signal 33, which 34 and so on follow.
const FIRST_REAL_TIME: u8 = 45;
const REAL_TIME: std::ops::RangeInclusive<i32> = 33..=63;

/// The protocol's number of a signal of Linux.
pub fn to_gdb(signal: i32) -> Signal {
    if let Some((_, own)) = DIFFERENT.iter().find(|(linux, _)| *linux == signal) {
        return Signal(*own);
    }
    if REAL_TIME.contains(&signal) {
        let above = u8::try_from(signal - REAL_TIME.start()).unwrap_or(0);
        return Signal(FIRST_REAL_TIME + above);
    }
    Signal(u8::try_from(signal).unwrap_or(UNKNOWN))
}

/// The signal of Linux with the protocol's number; none, if it has none.
pub fn from_gdb(signal: Signal) -> Option<i32> {
    (1..=64).find(|linux| to_gdb(*linux) == signal && signal.0 != UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_has_a_number_of_its_own() {
        let mut numbers: Vec<u8> = (1..=64).map(|signal| to_gdb(signal).0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 64);
        for signal in (1..=64).filter(|it| *it != 16) {
            assert_eq!(from_gdb(to_gdb(signal)), Some(signal));
        }
    }

    #[test]
    fn the_numbers_are_those_of_the_protocol() {
        let known = [(10, Signal::SIGUSR1), (11, Signal::SIGSEGV), (17, Signal::SIGCHLD)];
        for (linux, gdb) in known {
            assert_eq!(to_gdb(linux), gdb);
        }
        assert_eq!(to_gdb(34), Signal(46));
        assert_eq!(from_gdb(Signal(143)), None);
    }
}
