//! `job_report_hold`: where a tool that launches a job holds its ranks.
//!
//! In: a job of the user of the tool, and a place. Out: the transitions of that job, for all tools.
//! A report changes no process: it says what processes cannot show, such as ranks that wait in a
//! library. It counts until ranks that the kernel has stopped run, or else until the tool reports
//! the release, or disconnects.

use super::{job_text, jobs, refusal, visible_processes};
use crate::spec::{error, param, params};
use crate::{CallContext, Handler, Outcome, ServiceSpec};
use monitor_event::{CallResult, Refusal};
use monitor_jobs::hold_table::HoldPoint;
use monitor_jobs::job_log::ReportedHold;
use monitor_jobs::{ParallelJob, find_ranks};
use monitor_model::Identity;
use monitor_omis::param_type::ParamType;
use monitor_omis::{Status, Text, Value};

/// Places at which ranks can be held while their job is launched.
const PLACES: [HoldPoint; 3] = [HoldPoint::Exec, HoldPoint::Init, HoldPoint::App];

/// The services.
pub const SERVICES: &[ServiceSpec] = &[ServiceSpec {
    name: "job_report_hold",
    params: &[super::act::JOB, param("place", ParamType::Text)],
    help: "Reports that this tool has launched a parallel job and holds all ranks of it on this \
           node: `place` is `exec` (before the first instruction of the program), `init` (where \
           it calls MPI_Init) or `app` (where the program waits for a debugger); the empty text \
           reports that they are released. `job_changed` occurs with `stopped` and \
           `ready-for-debug`, and `running` at the end. Where the kernel has stopped the ranks, \
           the hold ends when they run; otherwise with the report of the release, or when the tool \
           disconnects. `job` is the text of \
           `job_info`, of a job of the user that calls. Nothing is done where no tool waits for \
           changes of jobs, and `jobs.follow` is off.",
    examples: &["> 10 [0] job_changed([]): 11 [0] print([$3,$13])\n\
         < 10 [0] job_changed(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
         at 1000ms process 7 state=S $PMIX_NAMESPACE=77 $PMIX_RANK=0\n\
         < 11 [0] print(0,[\"launching\",\"\"])\n< 11 [0] print(0,[\"running\",\"\"])\n\
         > 13 [0] job_report_hold(\"77\",\"app\")\n< 13 [0] job_report_hold(0)\n\
         at 2000ms\n< 11 [0] print(0,[\"stopped\",\"app\"])\n\
         < 11 [0] print(0,[\"ready-for-debug\",\"app\"])\n\
         > 14 [0] job_report_hold(\"77\",\"\")\n< 14 [0] job_report_hold(0)\n\
         at 3000ms\n< 11 [0] print(0,[\"running\",\"\"])"],
    errors: &[
        error(
            Status::NO_SUCH_OBJECT,
            "a job that does not exist, or that the caller may not see",
            "> 10 [0] job_report_hold(\"77\",\"exec\")",
        ),
        error(
            Status::RANGE,
            "another place",
            "process 7 $PMIX_NAMESPACE=77 $PMIX_RANK=0\n\
             > 10 [0] job_report_hold(\"77\",\"main\")",
        ),
        error(Status::PERMISSION, "a job of another user", ""),
        error(Status::RESOURCE, "this tool reports of 64 jobs already", ""),
    ],
    handler: Handler::Synchronous(report),
    ..super::BLANK
}];

fn report(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [_, place] = params(args);
    let written = place.text().map(Text::to_str_lossy).unwrap_or_default().into_owned();
    let place = PLACES.into_iter().find(|it| it.name() == written);
    if place.is_none() && !written.is_empty() {
        let known = PLACES.map(HoldPoint::name).join(", ");
        let why = format!("place {written:?}: expected one of {known}, or an empty text");
        return Err(Refusal::new(Status::RANGE, why));
    }
    let processes = visible_processes(ctx)?;
    let jobs = jobs(ctx, &processes);
    let (job, _) = find_ranks(&jobs, &job_text(args)).map_err(|why| refusal(&why))?;
    let tool = ctx.session.tool;
    if tool.uid != 0 && job.uid != Some(tool.uid) {
        let why = format!("job {} belongs to another user, which alone may report of it", job.id);
        return Err(Refusal::new(Status::PERMISSION, why));
    }
    let job: ParallelJob = job.clone();
    let is_stopped = |id: &Identity| {
        let found = processes.binary_search_by_key(id, |it| it.id);
        found.is_ok_and(|place| processes[place].is_stopped())
    };
    let by_kernel = job.ranks.iter().flat_map(|rank| &rank.all).any(is_stopped);
    let hold = place.map(|place| ReportedHold { place, by_kernel });
    let now = ctx.now;
    ctx.engine.job_watch_mut().report_hold(tool.session, (job, hold), now)?;
    Ok(CallResult::with(Vec::new()).into())
}
