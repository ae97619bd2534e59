//! Starts jobs: the first one, and those that processes start (`MPI_Comm_spawn`).
//!
//! In: programs, numbers of ranks, attributes. Out: a namespace with its ranks. If one of them
//! cannot be executed, those before it are killed, and the reason is the reply.

use super::hosted_job::{HostedJob, HostedRank};
use super::job_data::{self, JobShape};
use super::rank_process::{self, RankPlace, RankProgram};
use super::{Host, HostError};
use crate::attribute::{Attribute, Datum, ProcName, find};
use crate::libpmix::Reply;
use crate::status;
use crate::upcall::SpawnedApp;
use monitor_control::grouped_process::{GroupedProcess, OutputPlace};
use monitor_control::output_log::OutputSource;
use monitor_jobs::directive::{Directive, DirectiveKind};
use monitor_jobs::envar::Environment;
use rustix::process::Signal;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

/// Most ranks that one call starts.
const MOST_RANKS: u32 = 4096;

fn os_text(text: &CString) -> OsString {
    OsStr::from_bytes(text.as_bytes()).to_owned()
}

impl Host {
    /// Starts the job of the plan.
    pub(super) fn start_first(&mut self) -> Result<(), HostError> {
        let program = RankProgram {
            command: self.plan.command.clone(),
            folder: None,
            environment: self.plan.environment.clone(),
        };
        let nspace = self.plan.nspace.clone();
        self.start_job(nspace, vec![(program, self.plan.ranks)], None)
    }

    /// Starts the job of a call, and replies with its namespace.
    pub(super) fn spawn(
        &mut self,
        parent: &ProcName,
        attributes: &[Attribute],
        apps: &[SpawnedApp],
        reply: Reply,
    ) {
        let ranks = apps.iter().fold(0u32, |sum, app| sum.saturating_add(app.ranks));
        if ranks == 0 || ranks > MOST_RANKS || apps.iter().any(|app| app.ranks == 0) {
            return reply.status(status::BAD_PARAM);
        }
        // A tool may ask when all has ended.
        if self.code.is_some() || !self.jobs.iter().any(HostedJob::runs) {
            return reply.status(status::ERROR);
        }
        let programs = apps.iter().map(|app| (self.program(attributes, app), app.ranks)).collect();
        let nspace = format!("{}.{}", self.plan.nspace, self.jobs.len());
        match self.start_job(nspace.clone(), programs, Some(parent)) {
            Ok(()) => reply.spawned(&nspace),
            Err(error) => {
                self.notice(&format!("a job of rank {}: {error}", parent.rank));
                reply.status(status::FAILED_TO_LAUNCH);
            }
        }
    }

    /// The program of an application: its environment is that of this job, with the variables of
    /// the call, then its directives, those of the job first.
    fn program(&self, of_job: &[Attribute], app: &SpawnedApp) -> RankProgram {
        // The first of two definitions counts.
        let mut entries = Vec::new();
        app.environment.iter().for_each(|it| entries.extend_from_slice(it.to_bytes_with_nul()));
        for (name, value) in &self.plan.environment {
            entries.extend([name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat());
        }
        let mut environment = Environment::from_proc_environ(&entries);
        let _steps = environment.execute(&directives(of_job), &directives(&app.attributes));
        let pair = |(name, value): (&OsStr, &OsStr)| (name.to_owned(), value.to_owned());
        let folder = find(&app.attributes, "pmix.wdir").and_then(Datum::as_text);
        let folder = folder.or(app.folder.as_deref());
        let program = os_text(&app.command);
        let arguments = app.arguments.iter().skip(1).map(os_text);
        RankProgram {
            command: std::iter::once(program).chain(arguments).collect(),
            folder: folder.map(|it| PathBuf::from(OsStr::from_bytes(it.to_bytes()))),
            environment: environment.os_variables().map(pair).collect(),
        }
    }

    fn start_job(
        &mut self,
        nspace: String,
        programs: Vec<(RankProgram, u32)>,
        parent: Option<&ProcName>,
    ) -> Result<(), HostError> {
        let applications: Vec<u32> = programs.iter().map(|(_, ranks)| *ranks).collect();
        let size = applications.iter().sum();
        let stops_in_app = self.plan.stops_in_app && parent.is_none();
        let shape = JobShape { nspace: &nspace, applications: &applications, parent, stops_in_app };
        let data = job_data::job(&self.server, &self.plan.host, self.folder.path(), &shape)?;
        self.server.register_nspace(&nspace, size, &data)?;
        let mut job = HostedJob {
            nspace,
            ranks: Vec::new(),
            is_spawned: parent.is_some(),
            is_abandoned: false,
        };
        let all = programs.iter().flat_map(|(program, ranks)| (0..*ranks).map(move |_| program));
        for (rank, program) in (0..).zip(all) {
            match self.start_rank(&job, (rank, size), program) {
                Ok(process) => {
                    let path = program.command[0].to_string_lossy().into_owned();
                    job.ranks.push(HostedRank::new(process, path));
                }
                Err(error) => {
                    job.signal(Signal::KILL);
                    job.is_abandoned = true;
                    if job.ranks.is_empty() {
                        self.server.deregister_nspace(&job.nspace);
                    }
                    // Their ends are waited for, as are those of others.
                    self.jobs.push(job);
                    return Err(error);
                }
            }
        }
        self.jobs.push(job);
        Ok(())
    }

    fn start_rank(
        &self,
        job: &HostedJob,
        (rank, size): (u32, u32),
        program: &RankProgram,
    ) -> Result<GroupedProcess, HostError> {
        let name = ProcName { nspace: job.nspace.clone(), rank };
        let added = self.server.register_client(&name)?;
        let prefix = match job.is_spawned {
            true => format!("[{}.{rank}] ", job.nspace),
            false => format!("[{rank}] "),
        };
        let group = job.nspace.as_str().into();
        let source = OutputSource { group, rank: Some(rank), is_error: false };
        let place = RankPlace {
            name,
            size,
            output: OutputPlace {
                prefix: self.plan.tags.then_some(prefix),
                is_passed_on: self.plan.keeps.is_none(),
                log: Some((Arc::clone(&self.log), source)),
            },
            has_input: rank == 0 && !job.is_spawned,
        };
        let started = rank_process::start(program, &place, &added, self.ended.clone());
        started.map_err(|error| {
            let program = program.command[0].to_string_lossy().into_owned();
            HostError::NotStarted { program, error }
        })
    }
}

/// The environment directives among attributes, in their order.
fn directives(attributes: &[Attribute]) -> Vec<Directive> {
    attributes.iter().filter_map(directive).collect()
}

fn directive(attribute: &Attribute) -> Option<Directive> {
    use DirectiveKind as K;
    let kind = match attribute.key.as_str() {
        "pmix.envar.set" => K::Set,
        "pmix.envar.add" => K::Add,
        "pmix.envar.unset" => K::Unset,
        "pmix.envar.prepnd" => K::Prepend,
        "pmix.envar.appnd" => K::Append,
        "pmix.envar.first" => K::First,
        _ => return None,
    };
    match &attribute.value {
        Datum::Variable(name, value, separator) => {
            Directive::new(kind, (name.as_bytes(), value.as_bytes()), *separator).ok()
        }
        Datum::Text(name) => Directive::new(kind, (name.as_bytes(), b""), 0).ok(),
        _ => None,
    }
}
