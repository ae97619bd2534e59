//! What the host answers to commands of its user, and how ranks that wait for a debugger go on.

use super::Host;
use super::hosted_job::{HostedJob, job_of};
use super::job_data::server_name;
use super::query;
use crate::attribute::{Attribute, Datum, ProcName, event_attributes, find};
use crate::attribute_json::as_json;
use crate::status;
use monitor_control::host_protocol::{EndedRank, HostAnswer, HostRequest};
use monitor_jobs::hold_table::HoldPoint;
use std::os::unix::process::ExitStatusExt as _;

impl Host {
    /// The answer to a request.
    pub(super) fn answer(&mut self, request: HostRequest) -> HostAnswer {
        match request {
            HostRequest::Query { keys, namespace } => {
                let of = (self.jobs.as_slice(), self.plan.host.as_str());
                let one = |key: &String| query::one(of, key, Some(&namespace));
                let found = keys.iter().map(|key| one(key).map(|it| as_json(&it.value)));
                HostAnswer::Values(found.map(Option::unwrap_or_default).collect())
            }
            HostRequest::Notify { code, namespace, ranks, text } => {
                self.raise(code, namespace.as_deref(), &ranks, text.as_deref())
            }
            HostRequest::Log { text, is_error } => {
                self.write_line(&text, is_error);
                HostAnswer::Done
            }
            HostRequest::Output(_) => {
                HostAnswer::Ended(self.jobs.iter().flat_map(ended_ranks).collect())
            }
        }
    }

    fn raise(
        &mut self,
        code: i32,
        namespace: Option<&str>,
        ranks: &[u32],
        text: Option<&str>,
    ) -> HostAnswer {
        if let Some(nspace) = namespace.filter(|it| job_of(&self.jobs, it).is_none()) {
            return HostAnswer::Refused(format!("the host has no job {nspace}"));
        }
        let attributes = event_attributes(namespace, ranks, text);
        let range = if namespace.is_some() { status::RANGE_CUSTOM } else { status::RANGE_GLOBAL };
        match self.server.notify(code, &server_name(), range, &attributes) {
            Ok(()) => HostAnswer::Done,
            Err(error) => HostAnswer::Refused(error.to_string()),
        }
    }

    /// An event for the host: ranks say that they wait for a debugger. When all of a job do, a
    /// notice says how they go on.
    pub(super) fn raised(&mut self, code: i32, name: &ProcName, attributes: &[Attribute]) {
        tracing::debug!(code, nspace = name.nspace, rank = name.rank, "event");
        if code == status::DEBUGGER_RELEASE {
            self.released(attributes);
        }
        if code != status::READY_FOR_DEBUG {
            return;
        }
        let Some(job) = self.jobs.iter_mut().find(|job| job.nspace == name.nspace) else { return };
        if job.waits_for_debugger(name.rank) {
            let (nspace, ranks) = (job.nspace.clone(), job.ranks.len());
            let place = if job.stops.in_init { HoldPoint::Init } else { HoldPoint::App };
            (self.plan.held)(&nspace, Some(place));
            if let Some(job) = job_of(&self.jobs, &nspace)
                && job.parent.as_ref().is_some_and(|it| it.is_tool)
            {
                let point = find(attributes, "pmix.brkpnt").and_then(Datum::as_str);
                return self.say_ready(job, point.unwrap_or_default());
            }
            self.notice(&format!(
                "job {nspace}: {ranks} ranks wait where their program says; to continue: monitor \
                 job notify {nspace} debugger-release"
            ));
        }
    }
}

fn ended_ranks(job: &HostedJob) -> Vec<EndedRank> {
    let ended = (0..).zip(&job.ranks).filter_map(|(rank, it)| Some((rank, it.process.status()?)));
    let row = |(rank, status): (u32, std::process::ExitStatus)| EndedRank {
        namespace: job.nspace.clone(),
        rank: Some(rank),
        code: status.code(),
        signal: status.signal(),
    };
    ended.map(row).collect()
}
