//! `monitor job host`: the PMIx host of one job, which `job launch -n` starts.
//!
//! In: a program and a number of ranks. Out: what the ranks write; the exit code of the job.

use super::args::JobHostArgs;
use super::host_command::PROGRAM;
use crate::cli::exit::Failure;
use crate::cli::output;
use crate::cli::run::not_started;
use monitor_backend::BackendChoice;
use monitor_loader::{Readings, select};
use monitor_model::{Capability, Pid, Process, ProcessField, ReadSpec};
use monitor_pmix::host::{HostError, HostPlan, UsageSource, run};
use monitor_sampling::pipeline::SampleReader;
use monitor_sampling::session::Session;
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
    reader: Option<SampleReader>,
    session: Session,
}

impl UsageSource for Usage {
    fn read(&mut self, pids: &[Pid], fields: &[ProcessField]) -> Vec<Process> {
        if self.reader.is_none() {
            let capabilities = [Capability::Snapshot];
            let opened = select::open_for(Readings::Many, BackendChoice::Auto, &capabilities, 0);
            let reader = |backend| SampleReader::new(backend, ReadSpec::default(), true);
            self.reader = opened.ok().map(|(backend, _)| reader(backend));
        }
        let Some(reader) = &mut self.reader else { return Vec::new() };
        let costly = [ProcessField::Cmdline, ProcessField::Pss];
        let costly = costly.into_iter().filter(|it| fields.contains(it)).collect();
        reader.spec =
            ReadSpec { processes: true, pids: Some(pids.to_vec()), costly, ..ReadSpec::default() };
        let Ok(sample) = reader.read() else { return Vec::new() };
        let rates = self.session.advance(sample);
        rates.sample.processes.iter().filter(|it| !it.ended()).cloned().collect()
    }
}
