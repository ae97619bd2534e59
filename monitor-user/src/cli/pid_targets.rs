//! The processes named with `--pid`: as given, and as pids of the host.
//!
//! In: a plan and the backend that will read. Out: the plan with the host's pids, and a message
//! about named processes that do not exist. Messages show pids as given.

use super::exit::{Exit, Failure};
use super::plan::Plan;
use monitor_backend::{Backend, Error};
use monitor_model::hidden;
use monitor_model::id::Pid;
use monitor_model::sample::Sample;

/// The named processes.
#[derive(Default)]
pub struct PidTargets {
    /// The pid as given, and the pid on the host if the process exists.
    named: Vec<(Pid, Option<Pid>)>,
}

impl PidTargets {
    /// Resolves the pids through the backend and replaces those of the plan by the host's.
    pub fn resolve(backend: &mut dyn Backend, plan: &mut Plan) -> Result<Self, Error> {
        let written = std::mem::take(&mut plan.selector.filter.pids);
        if written.is_empty() {
            return Ok(Self::default());
        }
        let hosts = backend.host_pids(&written)?;
        plan.selector.filter.pids = hosts.iter().copied().flatten().collect();
        plan.read_spec.pids = Some(plan.selector.filter.pids.clone());
        Ok(Self { named: written.into_iter().zip(hosts).collect() })
    }

    /// The message about named processes that do not exist.
    ///
    /// # Errors
    ///
    /// `NoTarget` if none of them exists.
    pub fn absent(&self, sample: &Sample) -> Result<Option<String>, Failure> {
        let there = |host: &Pid| sample.processes.iter().any(|process| process.id.pid == *host);
        let absent = self.named.iter().filter(|(_, host)| !host.as_ref().is_some_and(there));
        let absent: Vec<Pid> = absent.map(|(written, _)| *written).collect();
        if absent.is_empty() {
            return Ok(None);
        }
        let cause = hidden::cause(&sample.hidden, absent.iter().copied());
        let names: Vec<_> = absent.iter().map(|Pid(written)| written.to_string()).collect();
        let message = format!("no process {}{cause}", names.join(", "));
        if absent.len() == self.named.len() {
            return Err(Failure { message, exit: Exit::NoTarget });
        }
        Ok(Some(message))
    }
}
