//! What went wrong in one reading, told in a few sentences however many processes it met.
//!
//! In: one call for each file that was refused or made no sense. Out: notes. A process that
//! vanished is not among them.

use super::descriptors::File;
use monitor_model::sample::Note;
use monitor_model::shortfall::NO_IO;
use monitor_proc::scan::Malformed;
use rustix::io::Errno;
use std::fmt;

/// Counts, and the first case of each kind.
#[derive(Debug, Default)]
pub struct Trouble {
    /// Processes whose `io` was refused.
    pub io_denied: u32,
    /// Processes whose `smaps_rollup` was refused.
    pub pss_denied: u32,
    /// Processes that are listed and may not be looked at.
    pub hidden: u32,
    /// Other files; those of a hidden process are not worth a sentence of their own.
    refused: Tally,
    malformed: Tally,
    failed: Tally,
}

#[derive(Debug, Default)]
struct Tally {
    count: u32,
    first: String,
}

impl Tally {
    fn add(&mut self, case: impl fmt::Display) {
        if self.count == 0 {
            self.first = case.to_string();
        }
        self.count += 1;
    }
}

impl Trouble {
    /// A file was refused.
    pub fn denied(&mut self, pid: u32, file: File) {
        match file {
            File::Io => self.io_denied += 1,
            File::Stat => self.hidden += 1,
            File::Status | File::Schedstat => {
                self.refused.add(format_args!("{pid}/{} (refused)", file.name()));
            }
        }
    }

    /// A file made no sense.
    pub fn malformed(&mut self, pid: u32, file: &str, error: Malformed) {
        self.malformed.add(format_args!("{pid}/{file} (no {})", error.want));
    }

    /// A file could not be read.
    pub fn failed(&mut self, pid: u32, file: &str, errno: Errno) {
        self.failed.add(format_args!("{pid}/{file} ({errno})"));
    }

    /// The sentences.
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        if self.io_denied > 0 {
            notes.push(Note::remark(format!(
                "{NO_IO}{}: /proc/<pid>/io of other users needs \
                 CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH",
                processes(self.io_denied)
            )));
        }
        if self.pss_denied > 0 {
            notes.push(Note::missing(format!(
                "no pss_bytes of {}: /proc/<pid>/smaps_rollup of other users needs CAP_SYS_PTRACE",
                processes(self.pss_denied)
            )));
        }
        if self.hidden > 0 {
            notes.push(Note::missing(format!(
                "{} left out: reading /proc/<pid>/stat was refused; it needs CAP_SYS_PTRACE",
                processes(self.hidden)
            )));
        }
        if self.hidden == 0 {
            notes.extend(told(&self.refused, "that we may not read"));
        }
        notes.extend(told(&self.malformed, "without sense"));
        notes.extend(told(&self.failed, "that could not be read"));
        notes
    }
}

fn told(tally: &Tally, what: &str) -> Option<Note> {
    let Tally { count, first } = tally;
    (*count > 0).then(|| Note::missing(format!("{} of /proc {what}, first {first}", files(*count))))
}

fn files(count: u32) -> String {
    if count == 1 { "1 file".into() } else { format!("{count} files") }
}

fn processes(count: u32) -> String {
    if count == 1 { "1 process".into() } else { format!("{count} processes") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_cases_are_one_sentence() {
        let mut trouble = Trouble { io_denied: 7, ..Trouble::default() };
        trouble.malformed(3, "stat", Malformed { want: "utime" });
        trouble.malformed(4, "stat", Malformed { want: "comm" });
        let notes = trouble.notes();
        assert_eq!(notes.len(), 2);
        assert!(notes[0].text.starts_with("no I/O counters of 7 processes"), "{notes:?}");
        assert_eq!(notes[1].text, "2 files of /proc without sense, first 3/stat (no utime)");
    }
}
