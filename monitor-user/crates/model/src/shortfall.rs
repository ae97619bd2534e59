//! What `/proc` lacks beside eBPF: how its notes begin, and the same in one line.
//!
//! In: the notes of samples. Out: those of them that a missing privilege explains, folded into one
//! for who reads a table; who reads JSON gets them all. Writers begin their notes with these words,
//! so that a note is known again when a daemon has relayed it.

/// Why it is `/proc`: the reason follows.
pub const FROM_PROC: &str = "read from /proc instead of eBPF: ";
/// Those that no sample met.
pub const SHORT_LIVED: &str = "processes that start and end between two samples are missed";
/// I/O of other users.
pub const NO_IO: &str = "no I/O counters of ";
/// TCP of other users.
pub const NO_TCP: &str = "no TCP counters of ";

/// What is missing, and whether it is missing of others only.
const MISSING: [(&str, &str, bool); 3] =
    [(SHORT_LIVED, "short-lived processes", false), (NO_IO, "I/O", true), (NO_TCP, "TCP", true)];

/// Folds the notes of one sample after the other.
#[derive(Clone, Debug, Default)]
pub struct Fold {
    /// What eBPF needs; known from the sample that told it on.
    why: Option<String>,
}

impl Fold {
    /// The notes, those that eBPF would have no need of folded into the first.
    pub fn folded(&mut self, notes: Vec<String>) -> Vec<String> {
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

/// What these notes miss, as people list it.
fn missing(notes: &[String]) -> Option<String> {
    let told = |begin: &str| notes.iter().any(|note| note.starts_with(begin));
    let all = || MISSING.iter().filter(|(begin, ..)| told(begin));
    let whats: Vec<_> = all().map(|(_, what, _)| *what).collect();
    let (last, first) = whats.split_last()?;
    let first = if first.is_empty() { String::new() } else { first.join(", ") + " or " };
    let of_others = if all().any(|(.., of_others)| *of_others) { " of others" } else { "" };
    Some(format!("{first}{last}{of_others}"))
}

/// A missing privilege by its name alone; any other reason as it is.
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

    fn folded(fold: &mut Fold, notes: &[&str]) -> Vec<String> {
        fold.folded(notes.iter().map(|&note| note.to_owned()).collect())
    }

    #[test]
    fn without_privilege_one_line_says_what_is_missing_and_why() {
        let short_lived = format!("{SHORT_LIVED}: /proc shows only those that live");
        let (io, tcp) = (format!("{NO_IO}9 processes: x"), format!("{NO_TCP}9 processes: x"));
        let mut fold = Fold::default();
        let got = folded(&mut fold, &[WHY, "no block", &short_lived, &io, &tcp]);
        let line = "no short-lived processes, I/O or TCP of others: needs CAP_BPF, CAP_PERFMON";
        assert_eq!(got, [line, "no block"]);
        assert!("note: ".len() + line.len() <= 80);
        let later = folded(&mut fold, &[&io]);
        assert_eq!(later, ["no I/O of others: needs CAP_BPF, CAP_PERFMON"]);
    }

    #[test]
    fn a_reason_that_is_no_privilege_is_told_as_it_is() {
        let why = format!("{FROM_PROC}this kernel has no BTF");
        let got = folded(&mut Fold::default(), &[&why, SHORT_LIVED]);
        assert_eq!(got, ["no short-lived processes: this kernel has no BTF"]);
        assert_eq!(folded(&mut Fold::default(), &[&why]), [why]);
    }

    #[test]
    fn where_proc_was_chosen_nothing_is_folded() {
        let io = format!("{NO_IO}9 processes: x");
        assert_eq!(folded(&mut Fold::default(), &[&io]), [io]);
    }
}
