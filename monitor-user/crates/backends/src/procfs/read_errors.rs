//! Errors of one reading, summarised in a few notes for any number of processes.
//!
//! In: one call for each file that was refused or malformed. Out: notes. A process that ended is
//! not an error.

use super::path::File;
use monitor_model::{Note, NoteAbout, ProcessField as F, degradation::NO_IO};
use monitor_proc::scan::MalformedProc;
use rustix::io::Errno;
use std::fmt;

/// Counts, and the first case of each kind.
#[derive(Debug, Default)]
pub struct ReadErrors {
    /// Processes whose `io` was refused.
    pub io_denied: u32,
    /// Processes whose `smaps_rollup` was refused.
    pub pss_denied: u32,
    /// Processes that are listed but unreadable.
    pub hidden: u32,
    /// Other refused files; not reported separately for hidden processes.
    refused: ErrorCount,
    malformed: ErrorCount,
    failed: ErrorCount,
}

#[derive(Debug, Default)]
struct ErrorCount {
    count: u32,
    first: String,
}

impl ErrorCount {
    fn add(&mut self, case: impl fmt::Display) {
        if self.count == 0 {
            self.first = case.to_string();
        }
        self.count += 1;
    }
}

impl ReadErrors {
    /// Counts a refused file.
    pub fn denied(&mut self, pid: u32, file: File) {
        match file {
            File::Io => self.io_denied += 1,
            File::Stat => self.hidden += 1,
            File::Status | File::Schedstat => {
                self.refused.add(format_args!("{pid}/{} (refused)", file.name()));
            }
        }
    }

    /// Counts a malformed file.
    pub fn malformed(&mut self, pid: u32, file: &str, error: MalformedProc) {
        self.malformed.add(format_args!("{pid}/{file} (no {})", error.want));
    }

    /// Counts a file that could not be read.
    pub fn failed(&mut self, pid: u32, file: &str, errno: Errno) {
        self.failed.add(format_args!("{pid}/{file} ({errno})"));
    }

    /// The notes.
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        if self.io_denied > 0 {
            let note = Note::remark(format!(
                "{NO_IO}{}: /proc/<pid>/io of other users needs \
                 CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH",
                processes(self.io_denied)
            ));
            notes.push(note.about(NoteAbout::Fields(&F::IO)));
        }
        if self.pss_denied > 0 {
            let note = Note::missing(format!(
                "no pss_bytes of {}: /proc/<pid>/smaps_rollup of other users needs CAP_SYS_PTRACE",
                processes(self.pss_denied)
            ));
            notes.push(note.about(NoteAbout::Fields(&[F::Pss])));
        }
        if self.hidden > 0 {
            notes.push(Note::missing(format!(
                "{} left out: reading /proc/<pid>/stat was refused; it needs CAP_SYS_PTRACE",
                processes(self.hidden)
            )));
        }
        if self.hidden == 0 {
            notes.extend(note(&self.refused, "refused"));
        }
        notes.extend(note(&self.malformed, "malformed"));
        notes.extend(note(&self.failed, "unreadable"));
        for note in notes.iter_mut().filter(|it| it.about == NoteAbout::Anything) {
            note.about = NoteAbout::Processes;
        }
        notes
    }
}

fn note(errors: &ErrorCount, what: &str) -> Option<Note> {
    let ErrorCount { count, first } = errors;
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
    fn many_errors_are_one_note() {
        let mut errors = ReadErrors { io_denied: 7, ..ReadErrors::default() };
        errors.malformed(3, "stat", MalformedProc { want: "utime" });
        errors.malformed(4, "stat", MalformedProc { want: "comm" });
        let notes = errors.notes();
        assert_eq!(notes.len(), 2);
        assert!(notes[0].text.starts_with("no I/O counters of 7 processes"), "{notes:?}");
        assert_eq!(notes[1].text, "2 files of /proc malformed, first 3/stat (no utime)");
    }
}
