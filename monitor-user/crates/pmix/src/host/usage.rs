//! Resource usage of ranks for their clients: `PMIx_Process_monitor`.
//!
//! In: which fields, of which ranks, how often; a source of numbers. Out: a sample as the reply,
//! and one as an event each period, to the process that asked. Keys and units are those of
//! OpenPMIx 6 (`pmix_common.h`): `MB` are MiB as a float, times are seconds and microseconds.
//! Ranks are asked for by the processes of this host alone; all of them are of one user.

use super::hosted_job::{HostedJob, HostedRank, job_of, rank_of};
use super::job_data::server_name;
use crate::attribute::{Attribute, Datum, ProcName, WILDCARD, find};
use crate::kind;
use crate::libpmix::Reply;
use crate::libpmix::Server;
use crate::status;
use monitor_model::{Pid, PmixEncoding, PmixName, PmixNamed as _, Process, ProcessField};
use std::ffi::c_int;
use std::time::{Duration, Instant};

const PROC_USAGE: &str = "pmix.monitor.presuse";
const CANCEL: &str = "pmix.monitor.cancel";
/// Most monitors of one host.
const MOST: usize = 1024;

/// Reads what processes use.
pub trait UsageSource {
    /// Processes with these fields; those that have ended are left out.
    fn read(&mut self, pids: &[Pid], fields: &[ProcessField]) -> Vec<Process>;

    /// A line for the user that came up since the last call.
    fn take_notice(&mut self) -> Option<String> {
        None
    }
}

/// A monitor that a process asked for.
struct RankMonitor {
    requestor: ProcName,
    id: String,
    code: c_int,
    targets: Vec<ProcName>,
    fields: Vec<ProcessField>,
    period: Duration,
    due: Instant,
}

/// The monitors of the processes of a host.
pub struct Monitors {
    source: Box<dyn UsageSource>,
    all: Vec<RankMonitor>,
    /// Number of monitors until now: the ids of those that have none.
    numbered: u64,
}

impl Monitors {
    /// None.
    pub const fn new(source: Box<dyn UsageSource>) -> Self {
        Self { source, all: Vec::new(), numbered: 0 }
    }

    /// A line of the source for the user.
    pub fn take_notice(&mut self) -> Option<String> {
        self.source.take_notice()
    }

    /// When the next sample is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.all.iter().map(|it| it.due).min()
    }

    /// A process has ended, and with it what it asked for.
    pub fn rank_ended(&mut self, name: &ProcName) {
        self.all.retain(|it| it.requestor != *name);
    }

    /// Starts or cancels a monitor.
    pub fn request(
        &mut self,
        jobs: &[HostedJob],
        (requestor, what, code): (&ProcName, &Attribute, c_int),
        directives: &[Attribute],
        reply: Reply,
    ) {
        match what.key.as_str() {
            CANCEL => reply.status(self.cancel(requestor, &what.value)),
            PROC_USAGE => match self.begin(jobs, (requestor, what, code), directives) {
                Ok(sample) => reply.attributes(status::SUCCESS, &sample),
                Err(status) => reply.status(status),
            },
            _ => reply.status(status::NOT_SUPPORTED),
        }
    }

    /// Cancels those of the requestor with an id, or all of them.
    fn cancel(&mut self, requestor: &ProcName, id: &Datum) -> c_int {
        let before = self.all.len();
        let id = id.as_str();
        self.all.retain(|it| it.requestor != *requestor || id.is_some_and(|id| id != it.id));
        let cancelled = before - self.all.len();
        if cancelled == 0 && id.is_some() { status::NOT_FOUND } else { status::SUCCESS }
    }

    /// The first sample; those that follow are events.
    fn begin(
        &mut self,
        jobs: &[HostedJob],
        (requestor, what, code): (&ProcName, &Attribute, c_int),
        directives: &[Attribute],
    ) -> Result<Vec<Attribute>, c_int> {
        let fields = fields(&what.value)?;
        let targets = targets(jobs, requestor, directives)?;
        let period = match find(directives, "pmix.monitor.resrate") {
            None => Duration::ZERO,
            Some(rate) => {
                let seconds = rate.number().and_then(|it| u32::try_from(it).ok());
                Duration::from_secs(seconds.ok_or(status::BAD_PARAM)?.into())
            }
        };
        let id = match find(directives, "pmix.monitor.id") {
            None => None,
            Some(id) => Some(id.as_str().ok_or(status::BAD_PARAM)?.to_owned()),
        };
        if let Some(id) = &id
            && self.all.iter().any(|it| it.requestor == *requestor && it.id == *id)
        {
            return Err(status::EXISTS);
        }
        let mut sample = self.sample(jobs, &targets, &fields);
        if !period.is_zero() {
            if self.all.len() >= MOST {
                return Err(status::ERROR);
            }
            self.numbered += 1;
            let id = id.unwrap_or_else(|| format!("monitor-{}", self.numbered));
            sample.push(Attribute::new("pmix.monitor.id", Datum::text(&id)));
            let requestor = requestor.clone();
            let due = Instant::now() + period;
            self.all.push(RankMonitor { requestor, id, code, targets, fields, period, due });
        }
        Ok(sample)
    }

    /// Sends the samples that are due. Periods that have passed since are left out.
    pub fn run_due(&mut self, now: Instant, server: &Server, jobs: &[HostedJob]) {
        let mut all = std::mem::take(&mut self.all);
        all.retain_mut(|monitor| {
            if monitor.due > now {
                return true;
            }
            while monitor.due <= now {
                monitor.due += monitor.period;
            }
            let sample = self.sample(jobs, &monitor.targets, &monitor.fields);
            let is_last = sample.is_empty();
            let mut event = vec![
                Attribute::new("pmix.evnondef", Datum::flag(true)),
                Attribute::new("pmix.evrange", Datum::Proc(monitor.requestor.clone())),
                Attribute::new("pmix.monitor.id", Datum::text(&monitor.id)),
            ];
            event.extend(sample);
            let code = if monitor.code == 0 { status::RESOURCE_USAGE_UPDATE } else { monitor.code };
            let source = server_name();
            // The requestor has ended, if it is refused.
            let sent = server.notify(code, &source, status::RANGE_CUSTOM, &event);
            sent.is_ok() && !is_last
        });
        self.all = all;
    }

    fn sample(
        &mut self,
        jobs: &[HostedJob],
        targets: &[ProcName],
        fields: &[ProcessField],
    ) -> Vec<Attribute> {
        let process = |name: &ProcName| {
            let rank = rank_of(jobs, name).filter(|it: &&HostedRank| it.runs())?;
            Some((name.clone(), rank.process.pid()))
        };
        let processes: Vec<_> = targets.iter().filter_map(process).collect();
        let pids: Vec<Pid> = processes.iter().map(|(_, pid)| *pid).collect();
        let usages = self.source.read(&pids, fields);
        let usage = |pid: &Pid| usages.iter().find(|it| it.id.pid == *pid);
        let read = processes.iter().filter_map(|(name, pid)| Some((name, usage(pid)?)));
        read.map(|(name, usage)| container(name, usage, fields)).collect()
    }
}

/// The fields that have PMIx names, in the order of the Standard; the process is always there.
fn named() -> impl Iterator<Item = &'static PmixName<ProcessField>> {
    ProcessField::NAMES.iter().filter(|it| it.field != ProcessField::Pid)
}

/// The fields that are asked for: all if the value is absent.
fn fields(value: &Datum) -> Result<Vec<ProcessField>, c_int> {
    match value {
        Datum::Present | Datum::Number(kind::BOOL, _) => Ok(named().map(|it| it.field).collect()),
        Datum::Attributes(selectors) if !selectors.is_empty() => {
            let field = |it: &Attribute| {
                let is_given = ProcessField::is_always_present(&it.key);
                let found = named().find(|name| name.key == it.key).map(|it| it.field);
                found.or(is_given.then_some(ProcessField::Pid)).ok_or(status::BAD_PARAM)
            };
            selectors.iter().map(field).collect()
        }
        _ => Err(status::BAD_PARAM),
    }
}

/// The ranks that are asked for: those of the requestor's job, if none is named.
fn targets(
    jobs: &[HostedJob],
    requestor: &ProcName,
    directives: &[Attribute],
) -> Result<Vec<ProcName>, c_int> {
    let all_of = |nspace: &str| {
        let job = job_of(jobs, nspace);
        let ranks = job.map_or(0, |job| u32::try_from(job.ranks.len()).unwrap_or(u32::MAX));
        (0..ranks).map(|rank| ProcName { nspace: nspace.to_owned(), rank }).collect::<Vec<_>>()
    };
    let named = directives.iter().filter(|it| it.key == "pmix.monitor.tgtproc");
    let mut targets: Vec<ProcName> = Vec::new();
    let mut is_named = false;
    for directive in named {
        is_named = true;
        let Datum::Procs(names) = &directive.value else { return Err(status::BAD_PARAM) };
        for name in names {
            let of_name = match name.rank {
                WILDCARD => all_of(&name.nspace),
                _ => vec![name.clone()],
            };
            let is_missing = |it: &ProcName| rank_of(jobs, it).is_none();
            if of_name.is_empty() || of_name.iter().any(is_missing) {
                return Err(status::NOT_FOUND);
            }
            targets
                .extend(of_name.into_iter().filter(|it| !targets.contains(it)).collect::<Vec<_>>());
        }
    }
    Ok(if is_named { targets } else { all_of(&requestor.nspace) })
}

/// A field of a process with its PMIx name; absent if the source does not know it.
fn attribute(process: &Process, name: &PmixName<ProcessField>) -> Option<Attribute> {
    let number = || process.row.get(name.field);
    let value = match (name.field, name.encoding) {
        (ProcessField::Cmdline, _) => Datum::text(process.text.cmdline.as_deref()?),
        (ProcessField::State, _) => {
            Datum::text(&char::from(u8::try_from(number()?).ok()?).to_string())
        }
        (ProcessField::Priority, _) => Datum::Number(kind::INT32, number()? & u64::from(u32::MAX)),
        (ProcessField::CpuPercent, _) => Datum::float(f64::from_bits(number()?) as f32),
        (_, PmixEncoding::Timeval) => {
            let time = Duration::from_nanos(number()?);
            let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
            Datum::Timeval(seconds, time.subsec_micros().into())
        }
        (_, PmixEncoding::Mebibytes) => {
            Datum::float((number()? as f64 / f64::from(1 << 20)) as f32)
        }
        // Threads, and the processor that it ran on last.
        _ => Datum::Number(kind::UINT16, number()?.min(u16::MAX.into())),
    };
    Some(Attribute::new(name.key, value))
}

/// The numbers of one process: its name first, the time of the sample last.
fn container(name: &ProcName, process: &Process, fields: &[ProcessField]) -> Attribute {
    let pid = process.id.pid.0;
    let mut all = vec![
        Attribute::new("pmix.procid", Datum::Proc(name.clone())),
        Attribute::new("pmix.ppid", Datum::Number(kind::PID, pid.into())),
    ];
    all.extend(
        named().filter(|it| fields.contains(&it.field)).filter_map(|it| attribute(process, it)),
    );
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    all.push(Attribute::new("pmix.proc.samptime", Datum::Number(kind::TIME, now)));
    Attribute::new(ProcessField::CONTAINER, Datum::Attributes(all))
}
