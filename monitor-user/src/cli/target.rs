//! The processes that were named with `--pid`: as they were written, and as the host numbers them.
//!
//! In: a plan and the backend that will read. Out: the plan with the host's numbers, and whether
//! those that were named are there. One that is not is told as it was written.

use super::exit::{Exit, Failure};
use super::plan::Plan;
use monitor_backend::{Backend, Error};
use monitor_model::id::Pid;
use monitor_model::sample::Sample;
use monitor_model::unseen;

/// The processes that were named.
#[derive(Default)]
pub struct Targets {
    /// As it was written, and its number on the host, if it is there.
    named: Vec<(Pid, Option<Pid>)>,
}

impl Targets {
    /// Asks the backend who they are; from here on the plan names them as the host does.
    pub fn resolve(backend: &mut dyn Backend, plan: &mut Plan) -> Result<Self, Error> {
        let written = std::mem::take(&mut plan.picker.filter.pids);
        if written.is_empty() {
            return Ok(Self::default());
        }
        let hosts = backend.host_pids(&written)?;
        plan.picker.filter.pids = hosts.iter().copied().flatten().collect();
        plan.want.pids = Some(plan.picker.filter.pids.clone());
        Ok(Self { named: written.into_iter().zip(hosts).collect() })
    }

    /// What to say of those that are not there. If none is, there is nothing to show.
    pub fn absent(&self, sample: &Sample) -> Result<Option<String>, Failure> {
        let there = |host: &Pid| sample.processes.iter().any(|process| process.id.pid == *host);
        let absent = self.named.iter().filter(|(_, host)| !host.as_ref().is_some_and(there));
        let absent: Vec<Pid> = absent.map(|(written, _)| *written).collect();
        if absent.is_empty() {
            return Ok(None);
        }
        let cause = unseen::cause(&sample.unseen, absent.iter().copied());
        let names: Vec<_> = absent.iter().map(|Pid(written)| written.to_string()).collect();
        let message = format!("no process {}{cause}", names.join(", "));
        if absent.len() == self.named.len() {
            return Err(Failure { message, exit: Exit::NoTarget });
        }
        Ok(Some(message))
    }
}
