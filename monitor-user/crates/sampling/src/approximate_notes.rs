//! Notes on processes whose totals are approximate: those of ended ones date from before the end,
//! or threads of a living one ended while it was read.
//!
//! In: the rows of a view, after its filter. Out: one note for each reason. They are made for each
//! view, of its own rows, so no recording has them: a replay makes its own. Marks no row;
//! `approximate` is set where the row is made.

use monitor_model::{BackendKind, Identity, Note, Process, ProcessField, Sample};

/// Totals of an exit record: the final record did not arrive.
const AS_OF_EXIT: &str = "exited and the final record was lost, counted as of exit";
/// Totals of the last reading, where hooks report ends.
const WITHOUT_RECORD: &str = "exited without a final record, counted as last read";
/// Totals of the last reading, where nothing reports ends.
const BETWEEN_READINGS: &str = "ended between two readings, counted as last read";

/// Totals of a living process without those of some threads; the next reading has them.
const READ_MEANWHILE: &str = "read while their threads ended: totals lack those of some threads";

/// All reasons, in the order of their notes.
const REASONS: [&str; 4] = [AS_OF_EXIT, WITHOUT_RECORD, BETWEEN_READINGS, READ_MEANWHILE];

/// The notes on the processes of a sample that the view shows. The ended ones in `last_read` have
/// the totals of the last reading that had them.
pub fn approximate_notes(
    sample: &Sample,
    last_read: &[Identity],
    is_shown: impl Fn(&Process) -> bool,
) -> Vec<Note> {
    let mut counts = REASONS.map(|reason| (reason, 0));
    let is_approximate = |it: &&Process| it.row.get(ProcessField::Approximate) == Some(1);
    for process in sample.processes.iter().filter(is_approximate).filter(|it| is_shown(it)) {
        let reason = match (process.ended(), sample.backend, last_read.contains(&process.id)) {
            (false, ..) => READ_MEANWHILE,
            (_, BackendKind::Procfs, _) => BETWEEN_READINGS,
            (_, _, true) => WITHOUT_RECORD,
            (_, _, false) => AS_OF_EXIT,
        };
        counts.iter_mut().filter(|(it, _)| *it == reason).for_each(|(_, n)| *n += 1);
    }
    let counted = counts.into_iter().filter(|(_, n)| *n > 0);
    counted.map(|(reason, n)| Note::remark(format!("{n} {reason}"))).collect()
}

/// Whether a note is one of these, which a recording does not contain.
pub fn is_approximate_note(note: &Note) -> bool {
    let reason = note.text.split_once(' ').filter(|(n, _)| n.parse::<u64>().is_ok());
    reason.is_some_and(|(_, it)| REASONS.contains(&it))
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::{Ns, Pid};

    fn sample(backend: BackendKind) -> Sample {
        let process = |(pid, approximate)| {
            let id = Identity { pid: Pid(pid), start: Ns(1) };
            let mut it = Process { id, ..Process::default() };
            it.row.set(ProcessField::Ended, 1);
            it.row.set_some(ProcessField::Approximate, approximate);
            it
        };
        let mut processes = vec![process((1, None))];
        processes.extend([2, 3, 4].map(|pid| process((pid, Some(1)))));
        Sample { backend, processes, ..Sample::default() }
    }

    #[test]
    fn a_living_process_that_was_read_while_its_threads_ended_is_noted() {
        let mut torn = sample(BackendKind::Ebpf);
        torn.processes.iter_mut().for_each(|it| it.row.set(ProcessField::Ended, 0));
        let notes = approximate_notes(&torn, &[], |it| it.id.pid.0 != 4);
        let text = "2 read while their threads ended: totals lack those of some threads";
        assert_eq!(notes, [Note::remark(text)]);
        assert!(is_approximate_note(&notes[0]));
    }

    #[track_caller]
    fn check(backend: BackendKind, last_read: &[u32], hidden: u32, want: &[&str]) {
        let last_read: Vec<_> =
            last_read.iter().map(|pid| Identity { pid: Pid(*pid), start: Ns(1) }).collect();
        let notes = approximate_notes(&sample(backend), &last_read, |it| it.id.pid.0 != hidden);
        assert_eq!(notes, want.iter().map(|it| Note::remark(*it)).collect::<Vec<_>>());
        assert!(notes.iter().all(is_approximate_note));
    }

    #[test]
    fn each_reason_is_noted_with_the_number_of_processes_shown() {
        let [exit, record, between] = [
            "exited and the final record was lost, counted as of exit",
            "exited without a final record, counted as last read",
            "ended between two readings, counted as last read",
        ];
        check(BackendKind::Ebpf, &[], 0, &[&format!("3 {exit}")]);
        check(BackendKind::Ebpf, &[], 2, &[&format!("2 {exit}")]);
        check(BackendKind::Ebpf, &[4], 2, &[&format!("1 {exit}"), &format!("1 {record}")]);
        check(BackendKind::Procfs, &[2, 3, 4], 3, &[&format!("2 {between}")]);
        assert!(!is_approximate_note(&Note::remark("no disk sdz")));
    }
}
