//! `/proc/<pid>/schedstat`: exact CPU time and run-queue delay of one thread.
//!
//! In: the text of the file, three numbers (Documentation/scheduler/sched-stats.rst). Out:
//! `Schedstat`. The file of a process is that of its leader alone. Never opens a file.

use super::scan::{Malformed, Scan, wanted};

/// One thread on the scheduler's books, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedstat {
    /// Time on a CPU; up to a tick old while the thread runs.
    pub exec_ns: u64,
    /// Time spent ready, waiting for a CPU.
    pub delay_ns: u64,
    /// Times it was given a CPU.
    pub runs: u64,
}

/// What the line says.
pub fn parse(text: &[u8]) -> Result<Schedstat, Malformed> {
    let mut scan = Scan::new(text);
    Ok(Schedstat {
        exec_ns: scan.number().ok_or_else(wanted("time on a CPU"))?,
        delay_ns: scan.number().ok_or_else(wanted("run delay"))?,
        runs: scan.number().ok_or_else(wanted("timeslices"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_numbers_are_the_books_of_a_thread() {
        let want = Schedstat { exec_ns: 26_807_023, delay_ns: 5_183_967, runs: 98 };
        assert_eq!(parse(b"26807023 5183967 98\n"), Ok(want));
    }

    #[test]
    fn a_cut_line_names_what_is_missing() {
        assert_eq!(parse(b"26807023 51"), Err(Malformed { want: "timeslices" }));
        assert_eq!(parse(b""), Err(Malformed { want: "time on a CPU" }));
    }
}
