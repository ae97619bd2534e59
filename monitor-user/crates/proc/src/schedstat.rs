//! `/proc/<pid>/schedstat`: exact CPU time and run-queue delay of one thread.
//!
//! In: the text of the file, three numbers (Documentation/scheduler/sched-stats.rst). Out:
//! `Schedstat`. The file of a process covers only its main thread. Opens no file.

use super::scan::{MalformedProc, Scan, wanted};

/// Scheduler statistics of one thread, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedstat {
    /// Time on a CPU; up to a tick old while the thread runs.
    pub exec_ns: u64,
    /// Time spent ready, waiting for a CPU.
    pub delay_ns: u64,
    /// Number of time slices on a CPU.
    pub runs: u64,
}

/// Parses the line.
///
/// # Errors
///
/// Fails at the first missing or malformed number.
pub fn parse(text: &[u8]) -> Result<Schedstat, MalformedProc> {
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
    fn a_line_has_three_numbers() {
        let want = Schedstat { exec_ns: 26_807_023, delay_ns: 5_183_967, runs: 98 };
        assert_eq!(parse(b"26807023 5183967 98\n"), Ok(want));
    }

    #[test]
    fn a_truncated_line_names_the_missing_field() {
        assert_eq!(parse(b"26807023 51"), Err(MalformedProc { want: "timeslices" }));
        assert_eq!(parse(b""), Err(MalformedProc { want: "time on a CPU" }));
    }
}
