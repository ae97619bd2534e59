//! Resource usage for the clients of a host: `PMIx_Process_monitor`.
//!
//! In: what, of which targets, how often; a source of numbers. Out: a sample as the reply, and one
//! as an event each period, to the process that asked. Keys and units are those of OpenPMIx 6
//! (`pmix_common.h`): `MB` are MiB as a float, times are seconds and microseconds. Processes of
//! this host are read here; all of them are of one user. Nodes, and processes of others, also on
//! other nodes, are those of the service of the node, which the host asks.

mod ranks;
mod service_request;

use super::hosted_job::{HostedJob, HostedRank, rank_of};
use super::job_data::server_name;
use crate::attribute::{Attribute, Datum, ProcName, find};
use crate::libpmix::{Reply, Server};
use crate::service_usage::{self, ServiceUsage};
use crate::status;
use crate::upcall::Upcall;
use monitor_model::{MonitorRequest, Pid, Process, ProcessField};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;

const CANCEL: &str = "pmix.monitor.cancel";
const ID: &str = "pmix.monitor.id";
/// Most monitors of one host.
const MOST: usize = 1024;
/// Most of them that the service has: each is a connection.
const MOST_OF_SERVICE: usize = 32;

/// Reads what processes use.
pub trait UsageSource {
    /// Processes with these fields; those that have ended are left out.
    fn read(&mut self, pids: &[Pid], fields: &[ProcessField]) -> Vec<Process>;

    /// Begins a monitor of the service of the node; its samples go to the sink, until it is
    /// dropped or `end` is called.
    fn begin(&mut self, number: u64, request: MonitorRequest, sink: UsageSink);

    /// Ends a monitor of the service.
    fn end(&mut self, number: u64);

    /// A line for the user that came up since the last call.
    fn take_notice(&mut self) -> Option<String> {
        None
    }
}

/// Where samples of the service go.
pub struct UsageSink {
    number: u64,
    queue: UnboundedSender<Upcall>,
}

impl UsageSink {
    /// Gives a sample to the host.
    pub fn send(&self, usage: ServiceUsage) {
        // The host has ended, if this fails, and with it what sends.
        let _ended = self.queue.send(Upcall::ServiceUsage(self.number, usage));
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

/// A monitor that the service has.
struct ServiceMonitor {
    requestor: ProcName,
    id: String,
    code: c_int,
    is_periodic: bool,
    /// Absent after the first sample.
    reply: Option<Reply>,
}

/// The monitors of the processes of a host.
pub struct Monitors {
    source: Box<dyn UsageSource>,
    all: Vec<RankMonitor>,
    of_service: BTreeMap<u64, ServiceMonitor>,
    /// Where samples of the service come from.
    queue: UnboundedSender<Upcall>,
    /// Number of monitors until now: the ids of those that have none.
    numbered: u64,
}

impl Monitors {
    /// None.
    pub const fn new(source: Box<dyn UsageSource>, queue: UnboundedSender<Upcall>) -> Self {
        Self { source, all: Vec::new(), of_service: BTreeMap::new(), queue, numbered: 0 }
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
        self.end_all(|requestor, _| requestor == name);
    }

    /// Ends monitors by requestor and id; returns how many.
    fn end_all(&mut self, is_meant: impl Fn(&ProcName, &str) -> bool) -> usize {
        let before = self.all.len() + self.of_service.len();
        self.all.retain(|it| !is_meant(&it.requestor, &it.id));
        let ended = self.of_service.extract_if(.., |_, it| is_meant(&it.requestor, &it.id));
        for (number, _) in ended {
            self.source.end(number);
        }
        before - self.all.len() - self.of_service.len()
    }

    /// Starts or cancels a monitor.
    pub fn request(
        &mut self,
        jobs: &[HostedJob],
        (requestor, what, code): (&ProcName, &Attribute, c_int),
        directives: &[Attribute],
        reply: Reply,
    ) {
        if what.key == CANCEL {
            return reply.status(self.cancel(requestor, &what.value));
        }
        let Some(part) = service_request::part(&what.key) else {
            return reply.status(status::NOT_SUPPORTED);
        };
        let id = match self.id(requestor, directives) {
            Ok(id) => id,
            Err(status) => return reply.status(status),
        };
        if part == service_request::PROCESSES && !service_request::names_others(jobs, directives) {
            return match self.begin(jobs, (requestor, what, code), (id, directives)) {
                Ok(sample) => reply.attributes(status::SUCCESS, &sample),
                Err(status) => reply.status(status),
            };
        }
        match service_request::read(part, what, directives) {
            Ok(_) if self.of_service.len() >= MOST_OF_SERVICE => reply.status(status::ERROR),
            Ok(request) => {
                let is_periodic = request.every_ns.is_some();
                let (requestor, reply) = (requestor.clone(), Some(reply));
                let monitor = ServiceMonitor { requestor, id, code, is_periodic, reply };
                let number = self.numbered;
                self.of_service.insert(number, monitor);
                let sink = UsageSink { number, queue: self.queue.clone() };
                self.source.begin(number, request, sink);
            }
            Err(status) => reply.status(status),
        }
    }

    /// The id of a new monitor: that which is asked for, if the requestor has none with it.
    fn id(&mut self, requestor: &ProcName, directives: &[Attribute]) -> Result<String, c_int> {
        self.numbered += 1;
        let Some(id) = find(directives, ID) else {
            return Ok(format!("monitor-{}", self.numbered));
        };
        let id = id.as_str().ok_or(status::BAD_PARAM)?;
        let own = self.all.iter().map(|it| (&it.requestor, &it.id));
        let mut all = own.chain(self.of_service.values().map(|it| (&it.requestor, &it.id)));
        match all.any(|it| it == (requestor, &id.to_owned())) {
            true => Err(status::EXISTS),
            false => Ok(id.to_owned()),
        }
    }

    /// Cancels those of the requestor with an id, or all of them.
    fn cancel(&mut self, requestor: &ProcName, id: &Datum) -> c_int {
        let id = id.as_str();
        let is_meant =
            |it: &ProcName, of: &str| it == requestor && id.is_none_or(|wanted| wanted == of);
        let cancelled = self.end_all(is_meant);
        if cancelled == 0 && id.is_some() { status::NOT_FOUND } else { status::SUCCESS }
    }

    /// The first sample; those that follow are events.
    fn begin(
        &mut self,
        jobs: &[HostedJob],
        (requestor, what, code): (&ProcName, &Attribute, c_int),
        (id, directives): (String, &[Attribute]),
    ) -> Result<Vec<Attribute>, c_int> {
        let fields = ranks::fields(&what.value)?;
        let targets = ranks::targets(jobs, requestor, directives)?;
        let period = service_request::period(directives)?;
        let mut sample = self.sample(jobs, &targets, &fields);
        if !period.is_zero() {
            if self.all.len() >= MOST {
                return Err(status::ERROR);
            }
            sample.push(Attribute::new(ID, Datum::text(&id)));
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
            let mut sample = self.sample(jobs, &monitor.targets, &monitor.fields);
            let is_last = sample.is_empty();
            sample.extend(is_last.then(|| service_usage::ended("targets_gone")));
            let to = (&monitor.requestor, &*monitor.id, monitor.code);
            notify(server, to, sample) && !is_last
        });
        self.all = all;
    }

    /// Passes a sample of the service on: as the reply, later as an event.
    pub fn service_usage(&mut self, number: u64, usage: ServiceUsage, server: &Server) {
        // It may have been cancelled meanwhile.
        let Some(monitor) = self.of_service.get_mut(&number) else { return };
        let mut is_last = usage.is_last() || !monitor.is_periodic;
        let (status, mut sample) = usage.attributes();
        match monitor.reply.take() {
            Some(reply) if status == status::SUCCESS || status == status::PARTIAL_SUCCESS => {
                if monitor.is_periodic {
                    sample.push(Attribute::new(ID, Datum::text(&monitor.id)));
                }
                reply.attributes(status, &sample);
            }
            Some(reply) => {
                is_last = true;
                reply.status(status);
            }
            None => {
                let to = (&monitor.requestor, &*monitor.id, monitor.code);
                is_last |= !notify(server, to, sample);
            }
        }
        if is_last {
            self.of_service.remove(&number);
            self.source.end(number);
        }
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
        read.map(|(name, usage)| ranks::container(name, usage, fields)).collect()
    }
}

/// Sends a sample to its requestor; whether it was accepted: the requestor may have ended.
fn notify(
    server: &Server,
    (requestor, id, code): (&ProcName, &str, c_int),
    sample: Vec<Attribute>,
) -> bool {
    let mut event = vec![
        Attribute::new("pmix.evnondef", Datum::flag(true)),
        Attribute::new("pmix.evrange", Datum::Proc(requestor.clone())),
        Attribute::new(ID, Datum::text(id)),
    ];
    event.extend(sample);
    let code = if code == 0 { status::RESOURCE_USAGE_UPDATE } else { code };
    server.notify(code, &server_name(), status::RANGE_CUSTOM, &event).is_ok()
}
