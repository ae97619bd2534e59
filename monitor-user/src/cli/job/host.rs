//! `monitor job host`: the PMIx host of one job, which `job launch -n` starts.
//!
//! In: a program and a number of ranks. Out: what the ranks write; the exit code of the job.

use super::args::JobHostArgs;
use super::host_command::PROGRAM;
use crate::cli::exit::Failure;
use crate::cli::output;
use crate::cli::run::not_started;
use monitor_backend::{Backend, BackendChoice};
use monitor_loader::{Readings, select};
use monitor_model::rates::rates;
use monitor_model::{Capability, Pid, Process, ProcessField, ReadSpec, Sample};
use monitor_pmix::host::{HostError, HostPlan, UsageSource, run};
use std::env;

/// Runs the ranks. Returns the exit code of the job.
///
/// # Errors
/// If PMIx is not installed, or refuses the job.
pub fn host(args: &JobHostArgs) -> Result<u8, Failure> {
    // The name by which a launcher of this kind is known; without it, only that name is missing.
    let _named = rustix::thread::set_name(PROGRAM);
    let plan = HostPlan {
        nspace: args.id.clone(),
        command: args.command.clone(),
        ranks: args.ranks,
        environment: env::vars_os().collect(),
        tags: args.tag,
        library: None,
        folder: env::temp_dir(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        notice: output::notice,
    };
    match run(plan, Box::new(Usage::default())) {
        Ok(code) => Ok(code),
        Err(HostError::NotStarted { error, .. }) => Ok(not_started(&args.command[0], &error)),
        Err(error) => Err(Failure::failed(format!("job launch: {error}"))),
    }
}

/// Reads what ranks use.
#[derive(Default)]
struct Usage {
    /// Opened when it is needed first.
    backend: Option<Box<dyn Backend>>,
    last: Option<Sample>,
}

impl UsageSource for Usage {
    fn read(&mut self, pids: &[Pid], fields: &[ProcessField]) -> Vec<Process> {
        let open = || {
            let capabilities = [Capability::Snapshot];
            select::open_for(Readings::Many, BackendChoice::Auto, &capabilities, 0).ok()
        };
        if self.backend.is_none() {
            self.backend = open().map(|(backend, _)| backend);
        }
        let Some(backend) = &mut self.backend else { return Vec::new() };
        let costly = [ProcessField::Cmdline, ProcessField::Pss];
        let costly = costly.into_iter().filter(|it| fields.contains(it)).collect();
        let spec =
            ReadSpec { processes: true, pids: Some(pids.to_vec()), costly, ..ReadSpec::default() };
        let Ok(mut sample) = backend.read(&spec) else { return Vec::new() };
        backend.describe(&mut sample.processes, &spec);
        let read = sample.clone();
        let sample = match self.last.replace(read) {
            Some(last) => rates(&last, sample).sample,
            None => sample,
        };
        sample.processes.into_iter().filter(|it| !it.ended()).collect()
    }
}
