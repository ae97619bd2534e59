//! The end of a session of `monitor when`: the table, the command that may still run, the code.
//!
//! In: a session, and why it ended. Out: the summary, one line for each thing that was not watched,
//! and the code of the program: that of the command, unless nothing was watched.

use super::args::WhenArgs;
use super::command::{HeldCommand, SessionEnd};
use super::show::SummaryRow;
use super::watch::{WatchedCall, WhenSession};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::notice;
use monitor_event::tap::Edge;
use monitor_model::histogram::Percentiles;
use monitor_model::id::Pid;
use std::time::Duration;

/// How long a command may take to end after SIGTERM.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

impl WhenSession {
    /// Prints the functions that no process has so far; a library may still be loaded.
    pub(super) fn report_absent_functions(&self) {
        let absent = self.calls.iter().filter(|it| self.taps.tap_counts(&it.tap).is_none());
        for why in absent.filter_map(|it| self.taps.absence(&it.tap)) {
            notice(&format!("not watched so far: {why}"));
        }
    }

    /// Prints the table and what was not watched; returns the exit code.
    pub(super) fn close(
        mut self,
        args: &WhenArgs,
        found: Exit,
        ended: SessionEnd,
    ) -> Result<u8, Failure> {
        let mut rows: Vec<SummaryRow> = self.calls.iter().map(|it| self.call_row(it)).collect();
        let n_absent = rows.iter().filter(|row| row.count.is_none()).count();
        let mut n_lost = self.taps.n_lost();
        for rule in &self.rules {
            n_lost += self.taps.program_counts(rule.id).lost_records;
            let count = Some(self.taps.count(rule.count));
            rows.push(SummaryRow { what: rule.what.clone(), count, times: None });
        }
        // JSON always ends with a summary, so that a reader knows it is complete.
        if self.actions.count || self.actions.time || self.show.is_json {
            let _reader = self.out.put(self.show.summary(&rows, n_lost).as_bytes())?;
        }
        if let Some((calls, n_others)) = &self.unseen {
            notice(&calls.with_others(*n_others));
        }
        if n_lost > 0 {
            notice(&format!("{n_lost} records lost: they arrived faster than they were printed"));
        }
        let exit = match (n_absent, ended) {
            (1.., _) if n_absent == self.calls.len() => Exit::NothingWatched,
            _ if n_lost > 0 || n_absent + self.n_refused > 0 => Exit::Partial,
            (_, SessionEnd::Interrupted) => Exit::Interrupted,
            _ => found,
        };
        let of_command = self.command.as_mut().and_then(|it| command_code(it, args, ended));
        Ok(exit_code(exit, of_command))
    }

    /// The row of a function. Prints why it was not watched, if so.
    fn call_row(&self, WatchedCall { tap, histogram }: &WatchedCall) -> SummaryRow {
        let count = self.taps.tap_counts(tap).map(|it| it.runs);
        if count.is_none() {
            let why = self.taps.absence(tap);
            let none = || format!("no watched process has {}", tap.name);
            notice(&format!("not watched: {}", why.map_or_else(none, str::to_owned)));
        }
        let verb = if tap.edge == Edge::Start { "call" } else { "return" };
        let histogram = histogram.map(|id| self.taps.histogram(id));
        let times = histogram.and_then(|it| Percentiles::default().compute(&it, [50.0, 99.0]));
        SummaryRow { what: format!("{verb} {}", tap.name), count, times }
    }
}

/// The code of the program. A command that failed says more than a missing part of the events does.
const fn exit_code(exit: Exit, of_command: Option<u8>) -> u8 {
    match (exit, of_command) {
        (Exit::Ok, Some(code)) | (Exit::Partial, Some(code @ 1..)) => code,
        _ => exit as u8,
    }
}

/// The exit code of the command; none if it runs on, which is printed.
fn command_code(command: &mut HeldCommand, args: &WhenArgs, ended: SessionEnd) -> Option<u8> {
    if let Some(code) = command.exit_code() {
        return Some(code);
    }
    let pid = command.pid();
    let (why, hint) = match ended {
        SessionEnd::Limit(option) if args.terminate => return terminate(command, option),
        SessionEnd::Limit(option) => (format!("{option} is reached: "), "; --terminate ends it"),
        _ => (String::new(), ""),
    };
    notice(&match is_stopped(pid) {
        true => format!(
            "{why}process {0} is stopped and not watched any more: kill -CONT {0} continues it",
            pid.0
        ),
        false => format!("{why}process {} runs on, and is not watched any more{hint}", pid.0),
    });
    None
}

/// Ends the command. Its code is 0 if it did not choose another one.
fn terminate(command: &mut HeldCommand, option: &str) -> Option<u8> {
    let pid = command.pid().0;
    let code = command.terminate(ENDS_WITHIN);
    notice(&match code {
        Some(_) => format!("{option} is reached: process {pid} was ended with SIGTERM"),
        None => {
            format!(
                "process {pid} runs on, {ENDS_WITHIN:?} after SIGTERM: kill -KILL {pid} ends it"
            )
        }
    });
    code
}

/// Whether a process is stopped by a signal.
fn is_stopped(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.0)).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_the_command_is_passed_on_and_a_missing_part_is_never_success() {
        assert_eq!(exit_code(Exit::Ok, Some(3)), 3);
        assert_eq!(exit_code(Exit::Partial, Some(3)), 3);
        assert_eq!(exit_code(Exit::Partial, Some(0)), 4);
        assert_eq!(exit_code(Exit::NothingWatched, Some(3)), 8);
        assert_eq!(exit_code(Exit::Interrupted, Some(0)), 130);
        assert_eq!(exit_code(Exit::Ok, None), 0);
    }
}
