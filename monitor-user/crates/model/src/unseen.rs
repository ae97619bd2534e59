//! Processes that a reader cannot see: whoever named one is told why it is not there.
//!
//! In: what a backend or a service says of itself. Out: the end of a sentence, or nothing, where
//! a process that is not there is simply none.

use super::id::Pid;

/// Whom a reader cannot see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unseen {
    /// This one alone; whoever belongs to another user, if absent.
    pub pid: Option<Pid>,
    /// Why, and what to do.
    pub why: String,
}

/// What follows on "no process 7, 9": why one of them may be there all the same.
pub fn cause(unseen: &[Unseen], absent: impl Iterator<Item = Pid> + Clone) -> String {
    let meant = |it: &&Unseen| match it.pid {
        Some(one) => absent.clone().any(|pid| pid == one),
        None => absent.clone().next().is_some(),
    };
    // The one that is said of a single process is surer than what holds for many.
    let (mut one, mut many): (Vec<_>, Vec<_>) = unseen.iter().partition(|it| it.pid.is_some());
    one.append(&mut many);
    one.into_iter().find(meant).map(|it| format!(": {}", it.why)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(absent: &[u32], want: &str) {
        let one = Unseen { pid: Some(Pid(1)), why: "this kernel shows it to nobody".into() };
        let others = Unseen { pid: None, why: "hidepid".into() };
        let pids = absent.iter().copied().map(Pid);
        assert_eq!(cause(&[others, one], pids), want);
    }

    #[test]
    fn who_is_hidden_alone_is_told_so_and_others_by_what_hides_many() {
        check(&[1], ": this kernel shows it to nobody");
        check(&[9, 1], ": this kernel shows it to nobody");
        check(&[9], ": hidepid");
        check(&[], "");
    }

    #[test]
    fn where_everybody_is_seen_there_is_no_cause() {
        assert_eq!(cause(&[], [Pid(9)].into_iter()), "");
    }
}
