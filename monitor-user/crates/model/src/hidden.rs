//! Processes hidden from a backend, and the reason in error messages.
//!
//! In: what a backend or a service reports about itself. Out: the end of a sentence, or nothing if
//! an absent process does not exist.

use super::Pid;

/// Hidden processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenProcess {
    /// A single process; all processes of other users, if absent.
    pub pid: Option<Pid>,
    /// Why it is hidden, and what to do.
    pub why: String,
}

/// What follows "no process 7, 9": why one of them may exist although it was not found.
pub fn cause(unseen: &[HiddenProcess], absent: impl Iterator<Item = Pid> + Clone) -> String {
    let meant = |it: &&HiddenProcess| match it.pid {
        Some(one) => absent.clone().any(|pid| pid == one),
        None => absent.clone().next().is_some(),
    };
    // A reason for a single process is more specific than one for all of them.
    let (mut one, mut many): (Vec<_>, Vec<_>) = unseen.iter().partition(|it| it.pid.is_some());
    one.append(&mut many);
    one.into_iter().find(meant).map(|it| format!(": {}", it.why)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(absent: &[u32], want: &str) {
        let one = HiddenProcess { pid: Some(Pid(1)), why: "this kernel hides it".into() };
        let others = HiddenProcess { pid: None, why: "hidepid".into() };
        let pids = absent.iter().copied().map(Pid);
        assert_eq!(cause(&[others, one], pids), want);
    }

    #[test]
    fn a_reason_for_one_process_precedes_a_reason_for_all() {
        check(&[1], ": this kernel hides it");
        check(&[9, 1], ": this kernel hides it");
        check(&[9], ": hidepid");
        check(&[], "");
    }

    #[test]
    fn without_hidden_processes_there_is_no_cause() {
        assert_eq!(cause(&[], [Pid(9)].into_iter()), "");
    }
}
