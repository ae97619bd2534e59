//! What ranks use, for the host of a job: from the service of the node where one runs, else read by
//! the host itself.
//!
//! In: processes and fields. Out: their numbers. A service that ends or does not answer in time is
//! no failure: the host reads by itself, says so once, and asks the service again when one is back.

use super::service_monitors::ServiceMonitors;
use monitor_backend::BackendChoice;
use monitor_client::{Client, Error, MonitorRequest, Target};
use monitor_loader::{Readings, select};
use monitor_model::{Capability, Category as _, Pid, Process, ProcessField, ReadSpec, Sample};
use monitor_pmix::host::{UsageSink, UsageSource};
use monitor_protocol::decode;
use monitor_sampling::pipeline::SampleReader;
use monitor_sampling::session::Session;
use std::io::{self, ErrorKind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How long the service may take for a sample: the host answers nothing else meanwhile.
const ANSWER_TIME: Duration = Duration::from_secs(1);
/// How long a service that did not answer in time is left alone.
const LEFT_ALONE: Duration = Duration::from_secs(30);

/// Reads what ranks use.
#[derive(Default)]
pub struct HostUsage {
    service: Option<ServiceReader>,
    /// When the service may be asked again.
    again: Option<Instant>,
    /// Rates of what the service reads.
    of_service: Session,
    own: OwnReader,
    monitors: ServiceMonitors,
    notice: Option<String>,
    /// Whether a notice has said that the host reads by itself.
    said: bool,
}

impl UsageSource for HostUsage {
    fn read(&mut self, pids: &[Pid], fields: &[ProcessField]) -> Vec<Process> {
        if let Some(processes) = self.read_by_service(pids, fields)
            && !processes.is_empty()
        {
            return processes;
        }
        self.own.read(pids, fields)
    }

    fn begin(&mut self, number: u64, request: MonitorRequest, sink: UsageSink) {
        self.monitors.begin(number, request, sink);
    }

    fn end(&mut self, number: u64) {
        self.monitors.end(number);
    }

    fn take_notice(&mut self) -> Option<String> {
        self.notice.take()
    }
}

impl HostUsage {
    /// The numbers that the service has; none, if there is no service, or it does not answer.
    fn read_by_service(&mut self, pids: &[Pid], fields: &[ProcessField]) -> Option<Vec<Process>> {
        // A backend that the environment names is that of this process, as for other commands.
        let is_forced = std::env::var_os("MONITOR_BACKEND").is_some();
        if pids.is_empty() || is_forced || self.again.is_some_and(|at| Instant::now() < at) {
            return None;
        }
        let service = match &mut self.service {
            Some(service) => service,
            none => none.insert(ServiceReader::start().ok()?),
        };
        match service.sample(request(pids, fields)) {
            Ok(Some(sample)) => {
                let rates = self.of_service.advance(sample);
                let all = rates.sample.processes.iter();
                Some(all.filter(|it| !it.ended()).cloned().collect())
            }
            Ok(None) => None,
            Err(error) => {
                self.lose(&error);
                None
            }
        }
    }

    /// The service has not answered. One that was never there is not missed.
    fn lose(&mut self, error: &Lost) {
        self.of_service = Session::default();
        match error {
            Lost::Late => {
                // Its thread ends with the late answer.
                self.service = None;
                self.again = Some(Instant::now() + LEFT_ALONE);
            }
            Lost::Failed { was_there: false, .. } => return,
            Lost::Failed { .. } => {}
        }
        if !self.said {
            self.said = true;
            let why = error.text();
            self.notice = Some(format!("{why}: the host of the job reads resource usage itself"));
        }
    }
}

/// One sample of these processes.
fn request(pids: &[Pid], fields: &[ProcessField]) -> MonitorRequest {
    let mut names: Vec<String> = fields.iter().map(|it| it.field().name.to_owned()).collect();
    let pid = ProcessField::Pid.field().name;
    if !names.iter().any(|it| it == pid) {
        names.push(pid.to_owned());
    }
    MonitorRequest {
        part: "proc".to_owned(),
        fields: Some(names),
        targets: pids.iter().map(|it| Target::Pid { pid: it.0.into(), node: None }).collect(),
        ..MonitorRequest::default()
    }
}

/// Why the service is not used.
enum Lost {
    /// It did not answer in time.
    Late,
    /// It refused, or has gone away.
    Failed {
        /// Whether it had been connected.
        was_there: bool,
        /// Why.
        error: Error,
    },
}

impl Lost {
    fn text(&self) -> String {
        match self {
            Self::Late => format!("the service did not answer within {ANSWER_TIME:?}"),
            Self::Failed { error, .. } => format!("no statistics of the service: {error}"),
        }
    }
}

/// A thread that asks the service: the host waits for it with a limit.
struct ServiceReader {
    requests: Sender<MonitorRequest>,
    answers: Receiver<Result<Option<Sample>, Lost>>,
}

impl ServiceReader {
    fn start() -> io::Result<Self> {
        let (requests, asked) = channel::<MonitorRequest>();
        let (answer, answers) = channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("service".into()).spawn(move || {
            let mut client = None;
            while let Ok(request) = asked.recv() {
                let sample = runtime.block_on(sample_in_time(&mut client, &request));
                if answer.send(sample).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { requests, answers })
    }

    /// A sample; none, if no service is there.
    fn sample(&self, request: MonitorRequest) -> Result<Option<Sample>, Lost> {
        // The thread ends only after this.
        let _sent = self.requests.send(request);
        match self.answers.recv_timeout(ANSWER_TIME) {
            Ok(sample) => sample,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err(Lost::Late),
        }
    }
}

/// The same with a limit, after which the connection is closed.
async fn sample_in_time(
    client: &mut Option<Client>,
    request: &MonitorRequest,
) -> Result<Option<Sample>, Lost> {
    let asked = tokio::time::timeout(ANSWER_TIME, sample(client, request)).await;
    asked.unwrap_or_else(|_| {
        *client = None;
        Err(Lost::Late)
    })
}

/// Asks the service, after connecting to it if need be.
async fn sample(
    client: &mut Option<Client>,
    request: &MonitorRequest,
) -> Result<Option<Sample>, Lost> {
    let was_there = client.is_some();
    let failed = |error| Lost::Failed { was_there, error };
    if client.is_none() {
        match Client::connect().await {
            Ok(connected) => *client = Some(connected),
            Err(Error::Unreachable { source, .. })
                if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(failed(error)),
        }
    }
    let Some(connected) = client else { return Ok(None) };
    match connected.sample(request).await {
        Ok(reply) => {
            let json = reply.event.sample.as_deref().map(|it| it.get()).unwrap_or_default();
            Ok(decode::rates(json).ok().map(|it| it.sample))
        }
        // All of these processes have ended.
        Err(Error::Refused(refusal)) if refusal.status == monitor_client::Status::NotFound => {
            Ok(None)
        }
        Err(error) => {
            if error.is_transient() {
                *client = None;
            }
            Err(Lost::Failed { was_there: true, error })
        }
    }
}

/// Reads by a backend of its own.
#[derive(Default)]
struct OwnReader {
    /// Opened when it is needed first.
    reader: Option<SampleReader>,
    session: Session,
}

impl OwnReader {
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
