//! Jobs that tools have started: held ranks, and what the tool gets to know.
//!
//! In: ranks that wait, releases, ends of jobs, tools that leave. Out: events for the tool; ranks
//! that go on. A tool that leaves releases what it holds, and its daemons end.

use super::Host;
use super::hosted_job::{HostedJob, job_of};
use super::job_data::server_name;
use super::spawn_request::Parent;
use crate::attribute::{Attribute, Datum, ProcName, WILDCARD, event_attributes, find};
use crate::kind;
use crate::status;
use monitor_jobs::hold_table::HoldPoint;
use monitor_sys::pidfd::returned_code;
use rustix::process::Signal;

/// `PMIX_BREAKPOINT`, of ranks that wait where a job is held.
const ON_EXEC: &str = "pmix-exec";

impl Host {
    /// Says to the tool that has started a job that its ranks wait, and where.
    pub(super) fn say_ready(&self, job: &HostedJob, breakpoint: &str) {
        if let Some(parent) = job.parent.as_ref().filter(|it| it.is_tool) {
            let of_point = Attribute::new("pmix.brkpnt", Datum::text(breakpoint));
            self.say(parent, &job.nspace, status::READY_FOR_DEBUG, of_point);
        }
    }

    /// Ranks that were held at exec wait for the tool.
    pub(super) fn say_held(&self, job: &HostedJob) {
        if job.is_held_at_exec {
            (self.plan.held)(&job.nspace, Some(HoldPoint::Exec));
            self.say_ready(job, ON_EXEC);
        }
    }

    fn say(&self, parent: &Parent, nspace: &str, code: i32, about: Attribute) {
        let source = ProcName { nspace: nspace.to_owned(), rank: WILDCARD };
        let attributes = [
            Attribute::new("pmix.evnondef", Datum::flag(true)),
            Attribute::new("pmix.evrange", Datum::Procs(vec![parent.name.clone()])),
            Attribute::new("pmix.evproc", Datum::Proc(source.clone())),
            Attribute::new("pmix.nspace", Datum::text(nspace)),
            about,
        ];
        let sent = self.server.notify(code, &source, status::RANGE_CUSTOM, &attributes);
        if let Err(error) = sent {
            tracing::debug!(%error, code, nspace, "not sent to the tool");
        }
    }

    /// A job has ended: the process that wants to know it gets an event.
    pub(super) fn say_ended(&self, job: &HostedJob) {
        let Some(parent) = job.parent.as_ref().filter(|it| it.notifies) else { return };
        let failed = job.ranks.iter().filter_map(|it| it.process.status());
        let code = failed.map(returned_code).find(|it| *it != 0).unwrap_or(0);
        let number = Datum::Number(kind::STATUS, code.into());
        let about = Attribute::new("pmix.job.term.status", number);
        self.say(parent, &job.nspace, status::JOB_END, about);
    }

    /// An event that releases ranks: those that are held at exec go on.
    pub(super) fn released(&mut self, attributes: &[Attribute]) {
        let targets = match find(attributes, "pmix.evrange") {
            Some(Datum::Procs(names)) => names.clone(),
            Some(Datum::Proc(name)) => vec![name.clone()],
            _ => Vec::new(),
        };
        let is_meant =
            |nspace: &str| targets.is_empty() || targets.iter().any(|it| it.nspace == nspace);
        for job in self.jobs.iter_mut().filter(|it| is_meant(&it.nspace)) {
            if job.stops.in_init || job.stops.in_app {
                (self.plan.held)(&job.nspace, None);
            }
            if !job.is_held_at_exec {
                continue;
            }
            let named: Vec<u32> =
                targets.iter().filter(|it| it.nspace == job.nspace).map(|it| it.rank).collect();
            if named.is_empty() || named.contains(&WILDCARD) {
                job.is_held_at_exec = false;
                job.signal(Signal::CONT);
            } else {
                for rank in named.iter().filter_map(|it| job.rank(*it)) {
                    rank.process.signal(Signal::CONT);
                }
            }
        }
    }

    /// A process has closed its connection: if it was a tool, its daemons end, and ranks that it
    /// holds go on.
    pub(super) fn left(&mut self, name: &ProcName) {
        if job_of(&self.jobs, &name.nspace).is_some() {
            return;
        }
        let is_its = |job: &HostedJob| {
            job.runs() && job.parent.as_ref().is_some_and(|it| it.is_tool && it.name == *name)
        };
        let its: Vec<(String, bool)> = self
            .jobs
            .iter()
            .filter(|it| is_its(it))
            .map(|it| (it.nspace.clone(), it.target.is_some()))
            .collect();
        for (nspace, is_daemons) in its {
            self.output.remove(&nspace);
            if is_daemons {
                self.end_daemons(|it| it.nspace == nspace);
                continue;
            }
            if let Some(job) = self.jobs.iter_mut().find(|it| it.nspace == nspace) {
                if job.is_held_at_exec {
                    job.is_held_at_exec = false;
                    job.signal(Signal::CONT);
                }
                if job.stops.in_init || job.stops.in_app {
                    (self.plan.held)(&nspace, None);
                    let attributes = event_attributes(Some(&nspace), &[], None);
                    let (code, range) = (status::DEBUGGER_RELEASE, status::RANGE_CUSTOM);
                    // Without a rank that waits it reaches none.
                    let _sent = self.server.notify(code, &server_name(), range, &attributes);
                }
            }
        }
    }

    /// Ends daemons, with SIGKILL after a while.
    pub(super) fn end_daemons(&mut self, is_meant: impl Fn(&HostedJob) -> bool) {
        let all = self.jobs.iter_mut().filter(|it| it.target.is_some() && it.runs());
        for job in all.filter(|it| is_meant(it)) {
            job.signal(Signal::TERM);
            job.signal(Signal::CONT);
            job.kill_at = job.kill_at.or(Some(std::time::Instant::now() + super::KILL_AFTER));
        }
    }
}
