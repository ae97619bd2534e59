//! A parallel job whose ranks join a session when they start.
//!
//! In: the job and the rank of a process, and its user. Out: whether the session waits for it.
//! Reads no process.

use monitor_jobs::RankSet;
use std::sync::Arc;

/// A job, or some ranks of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitedJob {
    /// Its id.
    pub id: Arc<str>,
    /// The user of its ranks; of any user if absent.
    pub uid: Option<u32>,
    /// The ranks; all of them if absent.
    pub ranks: Option<RankSet>,
}

/// What a process is in a job.
#[derive(Clone, Copy, Debug)]
pub struct JobMember<'p> {
    /// The id of the job.
    pub job: &'p str,
    /// The user of the process.
    pub uid: Option<u32>,
    /// The rank.
    pub rank: u32,
}

impl AwaitedJob {
    /// Whether a process is one of these. The job of another user with the same id is another one.
    pub fn has(&self, member: &JobMember<'_>) -> bool {
        *self.id == *member.job
            && (self.uid.is_none() || self.uid == member.uid)
            && self.ranks.as_ref().is_none_or(|ranks| ranks.contains(member.rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_awaited_by_job_user_and_rank() {
        let has = |uid, ranks: Option<&str>, member| {
            let ranks = ranks.map(|it| it.parse().expect("ranks"));
            AwaitedJob { id: "77".into(), uid, ranks }.has(&member)
        };
        let member = JobMember { job: "77", uid: Some(7), rank: 3 };
        assert!(has(None, None, member) && has(Some(7), Some("1-3"), member));
        assert!(!has(Some(8), None, member), "the job of another user");
        assert!(!has(Some(7), Some("0-2"), member));
        assert!(!has(Some(7), None, JobMember { uid: None, ..member }));
        assert!(!has(None, None, JobMember { job: "7", ..member }));
    }
}
