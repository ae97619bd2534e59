//! Finds the job that a user names: by its id, the beginning of it, or a pid; a step of Slurm also
//! by `JOB.STEP` where its MPI has given it a namespace.
//!
//! In: the jobs and a text. Out: the job, or why there is none or more than one. The whole id comes
//! first, then a pid of a launcher, of a daemon of the runtime, or of a process of a rank, then the
//! beginning of ids: a pid is the whole number, so it wins over ids that only begin so. `JOB:RANKS`
//! names some ranks of a job.

use crate::discovery::{ParallelJob, RankProcesses};
use crate::rank_set::{RankSet, RankSetError};
use crate::runtime::slurm_step;
use monitor_model::{Identity, Pid, name};

/// Maximum number of jobs that a message names.
const MAX_NAMED: usize = 8;

/// Why a text names no job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// No job has this id or pid.
    #[error("no job {written:?}{hint}")]
    Unknown {
        /// The text.
        written: String,
        /// The nearest id, or all ids; else that there is none.
        hint: String,
    },
    /// Jobs of several users have this id.
    #[error("job {written:?} is of {users} users: name it by the pid of its launcher or of a rank")]
    OfSeveralUsers {
        /// The id.
        written: String,
        /// Number of the users.
        users: usize,
    },
    /// The ids of several jobs begin so.
    #[error("{written:?} is the beginning of {}: write more of the id", ids.join(", "))]
    Ambiguous {
        /// The text.
        written: String,
        /// Ids of the jobs, of many the first ones.
        ids: Vec<String>,
    },
    /// What follows the job is no set of ranks.
    #[error(transparent)]
    Ranks(#[from] RankSetError),
    /// The job has no such rank on this node.
    #[error("job {id} has no rank {rank} on this node: here are ranks {here}")]
    NoSuchRank {
        /// The id of the job.
        id: String,
        /// The first rank that it lacks.
        rank: u32,
        /// Its ranks here.
        here: RankSet,
    },
}

/// The job that a text names.
///
/// # Errors
/// If it names none, or more than one.
pub fn find<'j>(jobs: &'j [ParallelJob], written: &str) -> Result<&'j ParallelJob, FindError> {
    let is_named = |it: &&ParallelJob| &*it.id == written || slurm_step(&it.id) == Some(written);
    let same: Vec<&ParallelJob> = jobs.iter().filter(is_named).collect();
    match same[..] {
        [] => {}
        [job] => return Ok(job),
        _ => {
            let (written, users) = (written.to_owned(), same.len());
            return Err(FindError::OfSeveralUsers { written, users });
        }
    }
    if let Some(job) = written.parse().ok().and_then(|pid| of_pid(jobs, Pid(pid))) {
        return Ok(job);
    }
    let is_meant = |it: &&ParallelJob| !written.is_empty() && it.id.starts_with(written);
    let matching: Vec<&ParallelJob> = jobs.iter().filter(is_meant).collect();
    match matching[..] {
        [job] => Ok(job),
        [] => Err(unknown(jobs, written)),
        _ => {
            let ids = matching.iter().take(MAX_NAMED).map(|it| it.id.to_string()).collect();
            Err(FindError::Ambiguous { written: written.to_owned(), ids })
        }
    }
}

/// The job, and those of its ranks on this node, that `JOB` or `JOB:RANKS` names: `77:0-3,7`.
///
/// # Errors
/// If it names no job, or more than one, or a rank that is not here.
pub fn find_ranks<'j>(
    jobs: &'j [ParallelJob],
    written: &str,
) -> Result<(&'j ParallelJob, Vec<&'j RankProcesses>), FindError> {
    let (job, wanted) = find_named(jobs, written)?;
    let Some(wanted) = wanted else { return Ok((job, job.ranks.iter().collect())) };
    let here: RankSet = job.ranks.iter().map(|it| it.rank).collect();
    if let Some(rank) = wanted.first_not_in(&here) {
        return Err(FindError::NoSuchRank { id: job.id.to_string(), rank, here });
    }
    Ok((job, job.ranks.iter().filter(|it| wanted.contains(it.rank)).collect()))
}

/// The job that `JOB` or `JOB:RANKS` names, and the ranks, if some are named.
///
/// # Errors
/// If it names no job, or more than one, or what is no set of ranks.
pub fn find_named<'j>(
    jobs: &'j [ParallelJob],
    written: &str,
) -> Result<(&'j ParallelJob, Option<RankSet>), FindError> {
    match (find(jobs, written), written.rsplit_once(':')) {
        (Err(FindError::Unknown { .. }), Some((job, ranks))) => {
            Ok((find(jobs, job)?, Some(ranks.parse()?)))
        }
        (whole, _) => whole.map(|job| (job, None)),
    }
}

/// The job of a process. A launcher within a rank of another job is its own job's; the innermost
/// job that has the process as a rank is the one that started last.
fn of_pid(jobs: &[ParallelJob], pid: Pid) -> Option<&ParallelJob> {
    let is_pid = |it: &Identity| it.pid == pid;
    let by_launcher =
        jobs.iter().find(|it| it.launcher.or(it.daemon).is_some_and(|it| is_pid(&it)));
    by_launcher.or_else(|| {
        let has_process = |it: &&ParallelJob| {
            it.daemon.is_some_and(|it| is_pid(&it))
                || it.ranks.iter().any(|rank| rank.all.iter().any(is_pid))
        };
        jobs.iter().filter(has_process).max_by_key(|it| it.start)
    })
}

fn unknown(jobs: &[ParallelJob], written: &str) -> FindError {
    let ids = || jobs.iter().map(|it| &*it.id);
    let hint = match jobs.is_empty() {
        true => ": no parallel job is visible on this node".to_owned(),
        false => name::hint("job", ids(), written),
    };
    FindError::Unknown { written: written.to_owned(), hint }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::{JobState, RankProcesses};
    use crate::runtime::Runtime;
    use monitor_model::Ns;

    fn id(pid: u32) -> Identity {
        Identity { pid: Pid(pid), start: Ns(u64::from(pid)) }
    }

    fn job(name: &str, launcher: u32, rank: u32) -> ParallelJob {
        ParallelJob {
            id: name.into(),
            runtime: Runtime::Unknown,
            launcher: Some(id(launcher)),
            daemon: None,
            uid: None,
            ranks: vec![RankProcesses { rank: 0, process: id(rank), all: vec![id(rank)] }],
            local_size: None,
            size: None,
            state: JobState::Running,
            start: Ns(u64::from(rank)),
        }
    }

    #[track_caller]
    fn check(written: &str, want: Result<&str, &str>) {
        let jobs = [job("1200", 10, 11), job("1480", 12, 13), job("hydra-7", 8, 1480)];
        check_among(&jobs, written, want);
    }

    #[track_caller]
    fn check_among(jobs: &[ParallelJob], written: &str, want: Result<&str, &str>) {
        let got = find(jobs, written).map(|it| &*it.id).map_err(|why| why.to_string());
        assert_eq!(got, want.map_err(str::to_owned));
    }

    #[test]
    fn a_job_is_named_by_id_by_pid_or_by_the_beginning_of_its_id() {
        check("1480", Ok("1480"));
        check("10", Ok("1200"));
        check("13", Ok("1480"));
        check("148", Ok("1480"));
        check("hyd", Ok("hydra-7"));
    }

    #[test]
    fn a_step_of_slurm_with_a_namespace_of_its_mpi_is_named_as_slurm_names_it() {
        let jobs = [job("slurm.pmix.7.1", 10, 11), job("7.10", 12, 13)];
        check_among(&jobs, "7.1", Ok("slurm.pmix.7.1"));
        check_among(&jobs, "7.10", Ok("7.10"));
    }

    #[test]
    fn an_unknown_job_is_reported_with_the_nearest() {
        check("hidra-7", Err(r#"no job "hidra-7"; did you mean "hydra-7"?"#));
        check("x", Err(r#"no job "x": there are 1200, 1480, hydra-7"#));
        check("", Err(r#"no job "": there are 1200, 1480, hydra-7"#));
        let none = r#"no job "x": no parallel job is visible on this node"#;
        assert_eq!(find(&[], "x").map_err(|why| why.to_string()), Err(none.to_owned()));
    }

    #[track_caller]
    fn check_ranks(written: &str, want: Result<(&str, &[u32]), &str>) {
        let mut jobs = [job("1200", 10, 11), job("a:0", 12, 13)];
        let more = [1, 2, 5].map(|rank| RankProcesses { rank, ..jobs[0].ranks[0].clone() });
        jobs[0].ranks.extend(more);
        let got = find_ranks(&jobs, written).map(|(job, ranks)| {
            (job.id.to_string(), ranks.iter().map(|it| it.rank).collect::<Vec<_>>())
        });
        let want = want.map(|(id, ranks)| (id.to_owned(), ranks.to_vec()));
        assert_eq!(got.map_err(|why| why.to_string()), want.map_err(str::to_owned));
    }

    #[test]
    fn ranks_follow_the_job() {
        check_ranks("1200", Ok(("1200", &[0, 1, 2, 5])));
        check_ranks("10:1-2,5", Ok(("1200", &[1, 2, 5])));
        check_ranks("12:0", Ok(("a:0", &[0])));
        // This is the id of the job.
        check_ranks("a:0", Ok(("a:0", &[0])));
    }

    #[test]
    fn ranks_that_a_job_lacks_are_named_with_those_that_it_has() {
        let why = "job 1200 has no rank 3 on this node: here are ranks 0-2,5";
        check_ranks("1200:1-7", Err(why));
        let why = r#""x" is no rank and no range of ranks: write ranks as 0-3,7"#;
        check_ranks("1200:x", Err(why));
        check_ranks("z:1", Err(r#"no job "z": there are 1200, a:0"#));
    }

    #[test]
    fn an_ambiguous_beginning_is_reported_with_the_jobs() {
        check("1", Err("\"1\" is the beginning of 1200, 1480: write more of the id"));
    }

    #[test]
    fn an_id_of_two_users_is_refused_and_each_job_has_its_pids() {
        let jobs = [job("77", 10, 11), job("77", 12, 13)];
        let why = r#"job "77" is of 2 users: name it by the pid of its launcher or of a rank"#;
        assert_eq!(find(&jobs, "77").map_err(|why| why.to_string()), Err(why.to_owned()));
        assert_eq!(find(&jobs, "13"), Ok(&jobs[1]));
    }

    #[test]
    fn a_process_of_two_jobs_is_of_the_inner_one() {
        let mut outer = job("outer", 10, 11);
        outer.ranks[0].all.push(id(20));
        outer.ranks[0].all.push(id(21));
        let inner = job("inner", 20, 21);
        let jobs = [outer, inner];
        assert_eq!(find(&jobs, "20").map(|it| &*it.id), Ok("inner"));
        assert_eq!(find(&jobs, "21").map(|it| &*it.id), Ok("inner"));
    }
}
