//! Starts jobs: the first one, and those that processes start (`MPI_Comm_spawn`).
//!
//! In: programs, numbers of ranks, attributes. Out: a namespace with its ranks, or with daemons of
//! a debugger beside those of another one. If one of them cannot be executed, those before it are
//! killed, and the reason is the reply.

use super::hosted_job::{HostedJob, HostedRank, job_of};
use super::job_data::{self, JobShape};
use super::rank_process::{self, RankPlace, RankProgram};
use super::spawn_request::{Parent, SpawnRequest, Stops, beside, is_daemons};
use super::{Host, HostError};
use crate::attribute::{Attribute, Datum, ProcName, find};
use crate::libpmix::Reply;
use crate::status;
use crate::upcall::SpawnedApp;
use monitor_control::grouped_process::{GroupedProcess, OutputPlace};
use monitor_control::output_log::OutputSource;
use monitor_jobs::RankSet;
use monitor_jobs::directive::{Directive, DirectiveKind};
use monitor_jobs::envar::Environment;
use rustix::process::Signal;
use std::ffi::{CString, OsStr, OsString, c_int};
use std::fs::DirBuilder;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;

/// Most ranks that one call starts.
const MOST_RANKS: u32 = 4096;

/// What the namespace of daemons begins with: their processes are no ranks
/// (`monitor_sampling::job`).
const DAEMONS: &str = "monitor-daemons-";

fn os_text(text: &CString) -> OsString {
    OsStr::from_bytes(text.as_bytes()).to_owned()
}

/// A job to start.
struct JobStart {
    nspace: String,
    programs: Vec<(RankProgram, u32)>,
    parent: Option<Parent>,
    stops: Stops,
    /// The job that daemons run beside, and the rank of each if it is beside one.
    target: Option<(String, Vec<Option<u32>>)>,
    /// Whether the output is written to that of the host.
    is_passed_on: bool,
}

impl Host {
    /// Starts the job of the plan.
    pub(super) fn start_first(&mut self) -> Result<(), HostError> {
        let program = RankProgram {
            command: self.plan.command.clone(),
            folder: None,
            environment: self.plan.environment.clone(),
        };
        self.start_job(&JobStart {
            nspace: self.plan.nspace.clone(),
            programs: vec![(program, self.plan.ranks)],
            parent: None,
            stops: Stops { in_app: self.plan.stops_in_app, ..Stops::default() },
            target: None,
            is_passed_on: self.plan.keeps.is_none(),
        })
    }

    /// Starts the job of a call, and replies with its namespace.
    pub(super) fn spawn(
        &mut self,
        parent: &ProcName,
        attributes: &[Attribute],
        apps: &[SpawnedApp],
        reply: Reply,
    ) {
        match self.start_apps(parent, attributes, apps) {
            Ok(nspace) => {
                reply.spawned(&nspace);
                if let Some(job) = job_of(&self.jobs, &nspace) {
                    self.say_held(job);
                }
            }
            Err(status) => reply.status(status),
        }
    }

    /// Starts applications, then daemons beside them or beside the target; the namespace of the
    /// first of these.
    fn start_apps(
        &mut self,
        parent: &ProcName,
        attributes: &[Attribute],
        apps: &[SpawnedApp],
    ) -> Result<String, c_int> {
        let (daemons, ranked): (Vec<_>, Vec<_>) =
            apps.iter().partition(|app| is_daemons(attributes, app));
        let ranks = ranked.iter().fold(0u32, |sum, app| sum.saturating_add(app.ranks));
        let is_empty = apps.is_empty() || ranked.iter().any(|app| app.ranks == 0);
        if is_empty || ranks > MOST_RANKS || daemons.len() > 1 {
            return Err(status::BAD_PARAM);
        }
        // A tool may ask when all has ended.
        if self.code.is_some() || !self.jobs.iter().any(HostedJob::runs) {
            return Err(status::ERROR);
        }
        let is_tool = job_of(&self.jobs, &parent.nspace).is_none();
        let request = SpawnRequest::new(attributes, apps, is_tool)?;
        let notifies = request.notifies;
        let parent = Parent { name: parent.clone(), is_tool, notifies };
        let is_passed_on = self.plan.keeps.is_none() && request.forwards != [true; 2];
        let mut first = None;
        if !ranked.is_empty() {
            let program = |app: &&SpawnedApp| (self.program(attributes, app), app.ranks);
            let start = JobStart {
                nspace: format!("{}.{}", self.plan.nspace, self.jobs.len()),
                programs: ranked.iter().map(program).collect(),
                parent: Some(parent.clone()),
                stops: request.stops,
                target: None,
                is_passed_on,
            };
            self.start_forwarded(&start, request.forwards)?;
            first = Some(start.nspace);
        }
        if let Some(app) = daemons.first() {
            let target = request.target.as_ref().or(first.as_ref()).ok_or(status::BAD_PARAM)?;
            let target = target.clone();
            let beside_what = beside(attributes, app)?;
            let job = job_of(&self.jobs, &target).filter(|it| it.runs() && it.target.is_none());
            let ranks = job.ok_or(status::NOT_FOUND)?.ranks.len();
            let places = beside_what.places(u32::try_from(ranks).unwrap_or(u32::MAX));
            let count = u32::try_from(places.len()).unwrap_or(u32::MAX);
            if count > MOST_RANKS {
                return Err(status::BAD_PARAM);
            }
            let start = JobStart {
                nspace: format!("{DAEMONS}{}.{}", self.plan.nspace, self.jobs.len()),
                programs: vec![(self.program(attributes, app), count)],
                parent: Some(parent),
                stops: Stops::default(),
                target: Some((target, places)),
                is_passed_on,
            };
            self.start_forwarded(&start, request.forwards)?;
            first = first.or(Some(start.nspace));
        }
        first.ok_or(status::BAD_PARAM)
    }

    /// Starts a job whose output tools get.
    fn start_forwarded(&mut self, start: &JobStart, streams: [bool; 2]) -> Result<(), c_int> {
        self.output.add(&self.log, &start.nspace, streams).map_err(|_| status::ERROR)?;
        self.start_job(start).map_err(|error| {
            self.output.remove(&start.nspace);
            let parent = start.parent.as_ref().map(|it| &it.name);
            let which = match parent {
                Some(name) if job_of(&self.jobs, &name.nspace).is_some() => {
                    format!("rank {}", name.rank)
                }
                _ => "a tool".to_owned(),
            };
            self.notice(&format!("a job of {which}: {error}"));
            status::FAILED_TO_LAUNCH
        })
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

    fn start_job(&mut self, start: &JobStart) -> Result<(), HostError> {
        let JobStart { nspace, programs, parent, stops, target, .. } = start;
        let applications: Vec<u32> = programs.iter().map(|(_, ranks)| *ranks).collect();
        let size = applications.iter().sum();
        let shape = JobShape {
            nspace,
            applications: &applications,
            parent: parent.as_ref().map(|it| &it.name),
            stops: *stops,
            target: target.as_ref().map(|(nspace, _)| nspace.as_str()),
        };
        let (_, own) = job_data::folders(self.folder.path(), nspace);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&own);
        made.map_err(|error| HostError::Failed { what: "the folder of the ranks", error })?;
        let data = job_data::job(&self.server, &self.plan.host, self.folder.path(), &shape)?;
        self.server.register_nspace(nspace, size, &data)?;
        let mut job = HostedJob {
            nspace: nspace.clone(),
            ranks: Vec::new(),
            is_spawned: parent.is_some(),
            is_abandoned: false,
            parent: parent.clone(),
            target: target.as_ref().map(|(nspace, _)| nspace.clone()),
            stops: *stops,
            is_held_at_exec: stops.on_exec,
            kill_at: None,
        };
        let all = programs.iter().flat_map(|(program, ranks)| (0..*ranks).map(move |_| program));
        for (rank, program) in (0..).zip(all) {
            match self.start_rank(&job, start, (rank, size), program) {
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
        start: &JobStart,
        (rank, size): (u32, u32),
        program: &RankProgram,
    ) -> Result<GroupedProcess, HostError> {
        let name = ProcName { nspace: job.nspace.clone(), rank };
        let mut added = self.server.register_client(&name)?;
        if let Some((target, places)) = &start.target {
            let place = usize::try_from(rank).ok().and_then(|at| places.get(at).copied());
            added.extend(self.daemon_variables(target, place.flatten()));
        }
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
                is_passed_on: start.is_passed_on,
                log: Some((Arc::clone(&self.log), source)),
            },
            has_input: rank == 0 && !job.is_spawned,
            stops_on_exec: start.stops.on_exec,
        };
        let started = rank_process::start(program, &place, &added, self.ended.clone());
        started.map_err(|error| {
            let program = program.command[0].to_string_lossy().into_owned();
            HostError::NotStarted { program, error }
        })
    }

    /// What a daemon has in its environment about the ranks that it is beside: the same as one of
    /// `job attach`.
    fn daemon_variables(&self, target: &str, beside: Option<u32>) -> Vec<CString> {
        let Some(job) = job_of(&self.jobs, target) else { return Vec::new() };
        let ranks = (0..).zip(&job.ranks).filter(|(_, it)| it.runs());
        let ranks: Vec<(u32, u32)> = ranks.map(|(rank, it)| (rank, it.process.pid().0)).collect();
        let set: RankSet = ranks.iter().map(|(rank, _)| *rank).collect();
        let pids: Vec<String> = ranks.iter().map(|(_, pid)| pid.to_string()).collect();
        let mut all = vec![
            format!("MONITOR_JOB_ID={target}"),
            "MONITOR_JOB_RUNTIME=native".to_owned(),
            format!("MONITOR_JOB_RANKS={set}"),
            format!("MONITOR_JOB_PIDS={}", pids.join(" ")),
        ];
        if let Some((rank, pid)) = ranks.iter().find(|(rank, _)| Some(*rank) == beside) {
            all.push(format!("MONITOR_JOB_RANK={rank}"));
            all.push(format!("MONITOR_JOB_PID={pid}"));
            all.push(format!("MONITOR_JOB_LOCAL_RANK={rank}"));
        }
        all.into_iter().filter_map(|it| CString::new(it).ok()).collect()
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
