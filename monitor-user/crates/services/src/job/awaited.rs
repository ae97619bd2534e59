//! The job that a tool attaches: its processes now, and what its later ranks are known by.
//!
//! In: the name of a job, or its id and user. Out: the processes that the tool may read, and the
//! job. Attaches nothing itself.

use super::{act::all_of, job_text, jobs, refusal, visible_processes};
use crate::CallContext;
use crate::session::awaited_job::{AwaitedJob, JobMember};
use crate::spec::params;
use monitor_event::Refusal;
use monitor_jobs::{RankProcesses, find_named, find_ranks};
use monitor_model::Process;
use monitor_omis::{Status, Value};

/// The job that the first parameter names, and its processes.
///
/// # Errors
/// The caller sees no such job or rank, or several jobs have this name.
pub fn awaited_job(
    ctx: &mut CallContext<'_>,
    args: &[Value],
) -> Result<(AwaitedJob, Vec<Process>), Refusal> {
    let processes = visible_processes(ctx)?;
    let (jobs, written) = (jobs(ctx, &processes), job_text(args));
    let (job, named) = find_named(&jobs, &written).map_err(|why| refusal(&why))?;
    let (_, ranks) = find_ranks(&jobs, &written).map_err(|why| refusal(&why))?;
    let awaited = AwaitedJob { id: job.id.clone(), uid: job.uid, ranks: named };
    Ok((awaited, all_of(&ranks, processes)))
}

/// The job with an id and a user, and its processes, if there are any.
///
/// # Errors
/// The id or the user is none, or the processes cannot be read.
pub fn job_with_id(
    ctx: &mut CallContext<'_>,
    args: &[Value],
) -> Result<(AwaitedJob, Vec<Process>), Refusal> {
    let [_, user] = params(args);
    let id = job_text(args);
    let uid = match user.integer::<i64>() {
        Some(-1) => None,
        number => {
            let uid = number.and_then(|number| u32::try_from(number).ok());
            let text = format!("uid {user}: expected the number of a user, or -1");
            Some(uid.ok_or_else(|| Refusal::new(Status::RANGE, text))?)
        }
    };
    if id.is_empty() {
        return Err(Refusal::new(Status::RANGE, "id: expected the whole id of a job"));
    }
    let awaited = AwaitedJob { id: id.into(), uid, ranks: None };
    let processes = visible_processes(ctx)?;
    let all = jobs(ctx, &processes);
    let is_meant = |job: &str, uid, rank: &RankProcesses| {
        awaited.has(&JobMember { job, uid, rank: rank.rank })
    };
    let ranks: Vec<&RankProcesses> = all
        .iter()
        .flat_map(|job| job.ranks.iter().filter(|rank| is_meant(&job.id, job.uid, rank)))
        .collect();
    let found = all_of(&ranks, processes);
    Ok((awaited, found))
}
