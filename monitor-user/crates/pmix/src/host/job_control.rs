//! What a process does to processes of its host: `PMIx_Job_control`.

use super::hosted_job::{HostedJob, job_of};
use crate::attribute::{Attribute, Datum, ProcName, WILDCARD, find};
use crate::status;
use rustix::process::Signal;
use std::ffi::c_int;

/// Sends signals; the status. All processes are of the user of the requestor.
pub fn act(
    jobs: &[HostedJob],
    requestor: &ProcName,
    targets: &[ProcName],
    attributes: &[Attribute],
) -> c_int {
    let Some(signal) = signal(attributes) else { return status::NOT_SUPPORTED };
    let own = [ProcName { nspace: requestor.nspace.clone(), rank: WILDCARD }];
    let targets = if targets.is_empty() { &own } else { targets };
    let mut all = Vec::new();
    for target in targets {
        let Some(job) = job_of(jobs, &target.nspace) else {
            return status::NOT_FOUND;
        };
        match target.rank {
            WILDCARD => all.extend(&job.ranks),
            rank => match job.rank(rank) {
                Some(rank) => all.push(rank),
                None => return status::NOT_FOUND,
            },
        }
    }
    all.iter().for_each(|it| it.process.signal(signal));
    status::SUCCESS
}

/// The signal of a request.
fn signal(attributes: &[Attribute]) -> Option<Signal> {
    let is_set = |key| find(attributes, key).is_some_and(Datum::is_set);
    if is_set("pmix.jctrl.kill") {
        return Some(Signal::KILL);
    }
    if is_set("pmix.jctrl.term") {
        return Some(Signal::TERM);
    }
    if is_set("pmix.jctrl.pause") {
        return Some(Signal::STOP);
    }
    if is_set("pmix.jctrl.resume") {
        return Some(Signal::CONT);
    }
    let number = find(attributes, "pmix.jctrl.sig")?.number()?;
    Signal::from_named_raw(i32::try_from(number).ok()?)
}
