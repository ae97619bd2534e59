//! The sampler thread: one reading for all due consumers.
//!
//! In: jobs with consumers. Out: the same consumers with their outputs. A slow reading delays its
//! consumers and nothing else, because the loop answers calls on another thread.

use super::cpu_parts::SamplerCpu;
use super::flight::{self, FlightRecorder};
use super::{awaited_exit_records::AwaitedExitRecords, config::FlightConfig, timer::sleep_until};
use crate::{http::AccessLevel, metrics};
use monitor_backend::Backend;
use monitor_backends::{host::Host, pidfd_watch};
use monitor_format::exposition::{Encoding, Exposition};
use monitor_model::{Capability, Note, Probe, Refusal};
use monitor_monitors::{MonitorKey, ReadRequest};
use monitor_protocol::{
    Conn, answer::FlightPart, call::Tag, doctor::DoctorReport, params, status::DaemonStatus,
};
use monitor_sampling::doctor_report::{BackendState, doctor_report};
use monitor_sampling::scrape::{MetricsConsumer, ScrapeConfig, ScrapeFormat};
use monitor_sampling::shared_read::{ReadJob, SharedReader};
use monitor_sampling::{consumer::Consumer, job_index::RankClaim, visibility::Visibility};
use monitor_sys::{clock, pidfd::ExitWatch, readable};
use std::os::fd::{AsFd, OwnedFd};
use std::{collections::HashMap, path::Path, sync::Arc, thread::JoinHandle};
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A job for the sampler thread.
pub enum SamplerJob {
    /// Read for these monitors.
    Read(DueReads),
    /// Attach these capabilities, and detach the others.
    SetNeeded(Vec<Capability>),
    /// Register processes as ranks, if possible.
    Claims(Vec<(MonitorKey, RankClaim)>),
    /// Make metrics.
    Scrape(Box<ScrapeJob>),
    /// Turn the flight recorder on or off.
    ConfigureFlight(FlightConfig),
    /// Send a part of the flight recording to a client.
    ExportFlight {
        /// The connection of the client.
        to: Conn,
        /// The tag of its call.
        tag: Tag,
        /// The requested part.
        part: params::Flight,
    },
    /// Make the doctor report.
    Doctor,
    /// Report the counts of the probes.
    ReadUsage {
        /// Whether the run time of programs is counted until the next such job.
        count_run_time: bool,
    },
}

/// The result of a job.
pub enum SamplerResult {
    /// The monitors, with their outputs.
    Read(Vec<ReadRequest>),
    /// A process that these monitors watch has ended, and its final record has arrived.
    Ended(Vec<MonitorKey>),
    /// The results of registrations.
    Claimed(Vec<(MonitorKey, Result<(), Refusal>)>),
    /// The metrics, or why there are none.
    Scraped(AccessLevel, Encoding, Result<Vec<u8>, String>),
    /// A part of the flight recording.
    FlightChunk(Conn, Tag, Result<FlightPart, Refusal>),
    /// The doctor report.
    Doctor(Box<DoctorReport>),
    /// The probes with their counts, and the thread's CPU time.
    Usage(Vec<Probe>, SamplerCpu),
}

/// Monitors that are due for a reading.
pub struct DueReads {
    /// The due monitors.
    pub monitors: Vec<ReadRequest>,
    /// The capabilities given up, each with its note.
    pub shed: Vec<(Capability, String)>,
}

/// A scrape.
pub struct ScrapeJob {
    /// The access level of the client.
    pub access: AccessLevel,
    /// The processes that it may see.
    pub visibility: Visibility,
    /// Which metrics are exposed.
    pub exposed: Arc<ScrapeConfig>,
    /// Their encoding.
    pub encoding: Encoding,
    /// The daemon's own numbers.
    pub status: DaemonStatus,
    /// Those of the cluster, on a gateway.
    pub cluster: Option<Exposition>,
    /// The capabilities to attach.
    pub capabilities: Vec<Capability>,
    /// The capabilities given up, each with its note.
    pub shed: Vec<(Capability, String)>,
}

/// The handle of the sampler thread.
pub struct Sampler {
    /// Jobs. At most one reading, one usage query and one doctor report wait here.
    pub jobs: UnboundedSender<SamplerJob>,
    /// Results.
    pub results: UnboundedReceiver<SamplerResult>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Starts the thread with a backend of its own.
    pub fn start(
        (node, backend): (u32, Box<dyn Backend>),
        startup_notes: Vec<Note>,
    ) -> std::io::Result<Self> {
        let (jobs, queue) = unbounded_channel();
        let (sender, results) = unbounded_channel();
        let sampler = SamplerThread {
            reader: SharedReader::new((node, backend), startup_notes),
            results: sender,
            exit_watch: ExitWatch::new()?,
            awaited_exits: AwaitedExitRecords::default(),
            collectors: HashMap::new(),
            recorder: None,
            run_time_stats: None,
            cpu: SamplerCpu::default(),
        };
        let thread = std::thread::Builder::new().name("sampler".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(sampler.run(queue)),
                Err(error) => tracing::error!("cannot start the sampler thread: {error}"),
            }
        })?;
        Ok(Self { jobs, results, thread: Some(thread) })
    }

    /// Ends the thread, which detaches all probes.
    pub fn stop(mut self) {
        let (closed, _) = unbounded_channel();
        self.jobs = closed;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been logged.
            let _ = thread.join();
        }
    }
}

struct SamplerThread {
    reader: SharedReader,
    results: UnboundedSender<SamplerResult>,
    /// Waits for the exit of processes that monitors watch by pid.
    exit_watch: ExitWatch,
    awaited_exits: AwaitedExitRecords,
    /// The consumer of each access level, and what is exposed to it.
    collectors: HashMap<AccessLevel, (Arc<ScrapeConfig>, Consumer)>,
    /// The flight recorder, if it is on.
    recorder: Option<FlightRecorder>,
    /// Open while the kernel counts the run time of programs.
    run_time_stats: Option<OwnedFd>,
    cpu: SamplerCpu,
}

impl SamplerThread {
    async fn run(mut self, mut queue: UnboundedReceiver<SamplerJob>) {
        let wake = self.reader.backend().wake_fd().and_then(|fd| fd.try_clone_to_owned().ok());
        let wake = wake.and_then(|fd| readable::readable(fd).ok());
        let exits = self.exit_watch.as_fd().try_clone_to_owned().and_then(readable::readable).ok();
        loop {
            let (due, check) = (self.reader.due(), self.awaited_exits.due());
            let record = self.recorder.as_ref().map(|it| it.due());
            tokio::select! {
                biased;
                job = queue.recv() => match job {
                    Some(job) => self.job(job),
                    None => return,
                },
                () = wait_readable(wake.as_ref()) => self.reader.backend().drain(),
                () = wait_readable(exits.as_ref()) => {
                self.awaited_exits.add(&self.exit_watch.take_ended(), clock::boot());
                }
                () = sleep_until(check) => self.check_exit_records(),
                () = sleep_until(record) => self.record(),
                () = sleep_until(due) => self.reader.maintain(clock::boot()),
            }
        }
    }

    fn job(&mut self, job: SamplerJob) {
        match job {
            SamplerJob::Read(due) => self.read(due),
            SamplerJob::SetNeeded(capabilities) => {
                self.reader.set_needed(capabilities, clock::boot());
            }
            SamplerJob::Claims(claims) => {
                let (keys, claims): (Vec<_>, Vec<_>) = claims.into_iter().unzip();
                let settled = self.reader.register_ranks(&claims);
                self.send(SamplerResult::Claimed(keys.into_iter().zip(settled).collect()));
            }
            SamplerJob::Scrape(job) => {
                let (access, encoding) = (job.access, job.encoding);
                let metrics = self.scrape(*job).map_err(|refusal| refusal.message);
                self.send(SamplerResult::Scraped(access, encoding, metrics));
            }
            SamplerJob::ConfigureFlight(config) => self.configure_flight(config),
            SamplerJob::ExportFlight { to, tag, part } => {
                let chunk = self.recorder.as_mut().map(|it| it.export(part));
                let chunk = chunk.ok_or_else(flight::off_refusal);
                self.send(SamplerResult::FlightChunk(to, tag, chunk));
            }
            SamplerJob::Doctor => {
                let report = Box::new(self.doctor());
                self.send(SamplerResult::Doctor(report));
            }
            SamplerJob::ReadUsage { count_run_time } => self.read_usage(count_run_time),
        }
    }

    /// Reports the counts of the probes, and turns the kernel's count of run time on or off.
    fn read_usage(&mut self, count_run_time: bool) {
        let probes = self.reader.backend().probes();
        self.run_time_stats = None;
        if count_run_time {
            self.run_time_stats = self.reader.backend().enable_bpf_stats();
        }
        self.cpu.total = clock::thread_cpu();
        self.send(SamplerResult::Usage(probes, self.cpu));
    }

    /// Replaces the flight recorder, unless its configuration is the same.
    fn configure_flight(&mut self, config: FlightConfig) {
        if self.recorder.as_ref().is_none_or(|it| it.config() != config) {
            let backend = self.reader.backend().kind().name();
            self.recorder = FlightRecorder::new(config, backend, clock::boot());
        }
    }

    fn record(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.record(&mut self.reader, clock::boot());
        }
    }

    fn send(&self, result: SamplerResult) {
        // Fails only if the daemon is shutting down.
        let _ = self.results.send(result);
    }

    /// The doctor report. Attaches nothing for it.
    fn doctor(&mut self) -> DoctorReport {
        let notes = self.reader.notes();
        let backend = self.reader.backend();
        let state =
            BackendState { backend: backend.kind().name(), probes: backend.probes(), notes };
        let host = Host::read(Path::new("/"));
        DoctorReport { service: true, ..doctor_report(&host, Some(&state)) }
    }

    /// Reads for a scrape. The consumer of an access level is kept, so that the counters of groups
    /// only grow; it is replaced if the exposed metrics changed.
    fn scrape(&mut self, job: ScrapeJob) -> Result<Vec<u8>, Refusal> {
        self.reader.set_needed(job.capabilities, clock::boot());
        self.reader.set_shed(job.shed);
        let mut own = metrics::self_metrics(&job.status, &self.reader.backend().probes());
        job.cluster.into_iter().for_each(|cluster| own.merge(cluster));
        let existing =
            self.collectors.remove(&job.access).filter(|it| Arc::ptr_eq(&it.0, &job.exposed));
        let mut scrape = match existing {
            Some((_, Consumer::Scrape(scrape))) => scrape,
            _ => Box::new(MetricsConsumer::new(&job.exposed, job.visibility)?),
        };
        scrape.set_format(ScrapeFormat { encoding: job.encoding, service_metrics: own });
        let mut consumer = Consumer::Scrape(scrape);
        let mut jobs = [ReadJob::new(&mut consumer)];
        self.reader.read_for_all(&mut jobs);
        let [read] = jobs;
        self.cpu.add_metrics(job.encoding, read.cost);
        let output = read.result;
        self.collectors.insert(job.access, (job.exposed, consumer));
        output.unwrap_or_else(|| Err(Refusal::bad("nothing was read"))).map(|output| output.bytes)
    }

    fn read(&mut self, work: DueReads) {
        self.reader.set_shed(work.shed);
        let mut looks = work.monitors;
        let before = self.reader.consumers_cpu();
        ReadRequest::read_all(&mut looks, &mut self.reader);
        self.cpu.samples.0 += self.reader.consumers_cpu().since(before).0;
        for look in &mut looks {
            let key = look.key;
            look.consumer.open_pidfds(&mut |id| {
                pidfd_watch::watch(&self.exit_watch, id, AwaitedExitRecords::token(key, id.pid))
            });
        }
        self.send(SamplerResult::Read(looks));
    }

    /// Reports the monitors whose ended processes have their final records.
    fn check_exit_records(&mut self) {
        let unsettled = self.reader.awaiting_exit_record(&self.awaited_exits.pids());
        let keys = self.awaited_exits.take_arrived(&unsettled, clock::boot());
        if !keys.is_empty() {
            self.send(SamplerResult::Ended(keys));
        }
    }
}

/// Waits until the descriptor is readable; forever, if there is none.
async fn wait_readable(wake: Option<&AsyncFd<OwnedFd>>) {
    let Some(wake) = wake else { return std::future::pending().await };
    if let Ok(mut ready) = wake.readable().await {
        ready.clear_ready();
    }
}
