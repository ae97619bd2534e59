//! What is missing when `/proc` is read instead of eBPF: the notes, and their one-line summary.
//!
//! In: the notes of samples. Out: for tables, the notes explained by a missing privilege folded
//! into one; JSON keeps all of them. Such notes begin with these constants, so that they are
//! recognised after a daemon has relayed them.

/// Beginning of the note on why `/proc` is read; the reason follows.
pub const FROM_PROC: &str = "read from /proc instead of eBPF: ";
/// Beginning of the note on processes that no sample contains.
pub const SHORT_LIVED: &str = "processes that start and end between two samples are missed";
/// Beginning of the note on I/O counters of other users.
pub const NO_IO: &str = "no I/O counters of ";
/// Beginning of the note on TCP counters of other users.
pub const NO_TCP: &str = "no TCP counters of ";

/// Beginning of a note, what is missing, and whether only processes of other users are concerned.
const MISSING: [(&str, &str, bool); 3] =
    [(SHORT_LIVED, "short-lived processes", false), (NO_IO, "I/O", true), (NO_TCP, "TCP", true)];

/// Folds the notes of successive samples.
#[derive(Clone, Debug, Default)]
pub struct NoteFolder {
    /// What eBPF needs; known since the first sample with a note on it.
    why: Option<String>,
}

impl NoteFolder {
    /// The notes, with those that eBPF would not need folded into the first.
    pub fn fold(&mut self, notes: Vec<String>) -> Vec<String> {
        if let Some(why) = notes.iter().find_map(|note| note.strip_prefix(FROM_PROC)) {
            self.why = Some(brief(why));
        }
        let Some(why) = &self.why else { return notes };
        let (folded, mut rest): (Vec<_>, Vec<_>) = notes.into_iter().partition(|it| is_folded(it));
        match missing(&folded) {
            Some(what) => rest.insert(0, format!("no {what}: {why}")),
            None => rest.splice(..0, folded).for_each(drop),
        }
        rest
    }
}

fn is_folded(note: &str) -> bool {
    note.starts_with(FROM_PROC) || MISSING.iter().any(|(begin, ..)| note.starts_with(begin))
}

/// What these notes say is missing, as an enumeration.
fn missing(notes: &[String]) -> Option<String> {
    let is_noted = |begin: &str| notes.iter().any(|note| note.starts_with(begin));
    let all = || MISSING.iter().filter(|(begin, ..)| is_noted(begin));
    let parts: Vec<_> = all().map(|(_, what, _)| *what).collect();
    let (last, first) = parts.split_last()?;
    let first = if first.is_empty() { String::new() } else { first.join(", ") + " or " };
    let of_others = if all().any(|(.., of_others)| *of_others) { " of others" } else { "" };
    Some(format!("{first}{last}{of_others}"))
}

/// A missing privilege by name only; any other reason unchanged.
fn brief(why: &str) -> String {
    match why.rsplit_once(" needs ") {
        Some((_, need)) => format!("needs {}", need.replace(" and ", ", ")),
        None => why.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHY: &str =
        "read from /proc instead of eBPF: the snapshot program needs CAP_BPF and CAP_PERFMON";

    fn folded(fold: &mut NoteFolder, notes: &[&str]) -> Vec<String> {
        fold.fold(notes.iter().map(|&note| note.to_owned()).collect())
    }

    #[test]
    fn without_privilege_one_line_says_what_is_missing_and_why() {
        let short_lived = format!("{SHORT_LIVED}: /proc lists only live processes");
        let (io, tcp) = (format!("{NO_IO}9 processes: x"), format!("{NO_TCP}9 processes: x"));
        let mut fold = NoteFolder::default();
        let got = folded(&mut fold, &[WHY, "no block", &short_lived, &io, &tcp]);
        let line = "no short-lived processes, I/O or TCP of others: needs CAP_BPF, CAP_PERFMON";
        assert_eq!(got, [line, "no block"]);
        assert!("note: ".len() + line.len() <= 80);
        let later = folded(&mut fold, &[&io]);
        assert_eq!(later, ["no I/O of others: needs CAP_BPF, CAP_PERFMON"]);
    }

    #[test]
    fn a_reason_other_than_a_privilege_is_printed_unchanged() {
        let why = format!("{FROM_PROC}this kernel has no BTF");
        let got = folded(&mut NoteFolder::default(), &[&why, SHORT_LIVED]);
        assert_eq!(got, ["no short-lived processes: this kernel has no BTF"]);
        assert_eq!(folded(&mut NoteFolder::default(), &[&why]), [why]);
    }

    #[test]
    fn where_proc_was_chosen_nothing_is_folded() {
        let io = format!("{NO_IO}9 processes: x");
        assert_eq!(folded(&mut NoteFolder::default(), &[&io]), [io]);
    }
}
