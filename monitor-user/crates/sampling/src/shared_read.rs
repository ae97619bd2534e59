//! One reading shared by all consumers that are due.
//!
//! In: consumers, and the capabilities to attach. Out: the output of each consumer. Processes are
//! read once for all, the node once for each distinct specification; if all consumers together name
//! few processes, only those are read. Owns the backend; has no thread and no clock.

use super::job_index::{JobIndex, RankClaim};
use super::view::{Output, Reading};
use super::{consumer::Consumer, detach_delay::DetachDelay, exit_log::ExitLog};
use monitor_backend::{Backend, Error};
use monitor_model::{
    Capability, Devices, Node, Note, Ns, Pid, Process, ProcessField, ReadSpec, Refusal, Sample,
    Status,
};
use monitor_sys::clock;
use std::{cell::OnceCell, sync::Arc};

/// Maximum time between two readings of all processes: exit records use memory until then.
const FULL_READ_INTERVAL: Ns = Ns(10_000_000_000);

/// A consumer, and its output.
pub struct ReadJob<'a> {
    /// The consumer.
    pub consumer: &'a mut Consumer,
    /// Its output, after the reading.
    pub result: Option<Result<Output, Refusal>>,
    /// CPU time of its output, and its share of the reading.
    pub cost: Ns,
}

impl<'a> ReadJob<'a> {
    /// A job that has not been read for.
    pub const fn new(consumer: &'a mut Consumer) -> Self {
        Self { consumer, result: None, cost: Ns(0) }
    }
}

/// Reads for all consumers.
pub struct SharedReader {
    backend: Box<dyn Backend>,
    /// The number of this node.
    node: u32,
    backend_notes: Vec<Note>,
    exit_log: ExitLog,
    job_index: JobIndex,
    /// The shed capabilities, with the note about each.
    shed: Vec<(Capability, String)>,
    detach_delay: DetachDelay,
    /// When all processes must be read at the latest.
    next_full_read: Option<Ns>,
    /// CPU time of all consumers so far.
    consumers_cpu: Ns,
}

/// A specification of node fields, and what was read for it.
type NodeRead = (ReadSpec, (Option<Arc<Node>>, Vec<Note>));

impl SharedReader {
    /// A reader with the backend of a node of this number, and notes for every sample.
    pub fn new((node, backend): (u32, Box<dyn Backend>), backend_notes: Vec<Note>) -> Self {
        Self {
            backend,
            node,
            backend_notes,
            exit_log: ExitLog::default(),
            job_index: JobIndex::default(),
            shed: Vec::new(),
            detach_delay: DetachDelay::default(),
            next_full_read: None,
            consumers_cpu: Ns(0),
        }
    }

    /// CPU time of all consumers so far: what they made of the readings, without the readings.
    pub const fn consumers_cpu(&self) -> Ns {
        self.consumers_cpu
    }

    /// The backend.
    pub fn backend(&mut self) -> &mut dyn Backend {
        &mut *self.backend
    }

    /// Sets the capabilities to attach; others are detached after a delay.
    pub fn set_needed(&mut self, capabilities: Vec<Capability>, now: Ns) {
        self.detach_delay.set_needed(capabilities, now);
        self.backend.attach(&self.detach_delay.attached(now));
    }

    /// Sets the shed capabilities.
    pub fn set_shed(&mut self, shed: Vec<(Capability, String)>) {
        self.shed = shed;
    }

    /// The notes on the backend and on shed capabilities.
    pub fn notes(&self) -> Vec<Note> {
        let shed = self.shed.iter().map(|(_, text)| Note::remark(text.as_str()));
        self.backend_notes.iter().cloned().chain(shed).collect()
    }

    /// Detaches capabilities whose delay is over, and reads pending exit records, which would fill
    /// the memory otherwise. Needs no consumer.
    pub fn maintain(&mut self, now: Ns) {
        self.backend.attach(&self.detach_delay.attached(now));
        if self.next_full_read.is_some_and(|at| at <= now) {
            // The next reading reports a failure.
            let _ = self.read_all_processes(&ReadSpec { processes: true, ..ReadSpec::default() });
        }
    }

    /// When [`Self::maintain`] is due.
    pub fn due(&self) -> Option<Ns> {
        self.detach_delay.due().into_iter().chain(self.next_full_read).min()
    }

    /// Those of these processes that have ended and whose exit record has not arrived.
    pub fn awaiting_exit_record(&mut self, pids: &[Pid]) -> Vec<Pid> {
        if self.backend.wake_fd().is_some() {
            // The next reading reports a failure.
            let _ = self.read_all_processes(&ReadSpec { processes: true, ..ReadSpec::default() });
            pids.iter().filter(|pid| !self.exit_log.has_ended(**pid)).copied().collect()
        } else {
            // No record will come: a process is gone when its parent has waited for it.
            let few = self.backend.read_few(pids).and_then(Result::ok);
            let is_zombie = |it: &Process| it.row.get(ProcessField::State) == Some(u64::from(b'Z'));
            let few = few.map(|it| it.processes).unwrap_or_default();
            few.into_iter().filter(is_zombie).map(|it| it.id.pid).collect()
        }
    }

    /// Checks rank claims against a reading and registers the valid ones.
    pub fn register_ranks(&mut self, claims: &[RankClaim]) -> Vec<Result<(), Refusal>> {
        let sample = self.read_all_processes(&ReadSpec { processes: true, ..ReadSpec::default() });
        let sample = sample.map_err(|error| refusal(&error));
        let settle = |claim| self.job_index.register(claim, sample.as_ref().map_err(Clone::clone)?);
        claims.iter().map(settle).collect()
    }

    /// Takes a reading for these consumers and sets their results.
    pub fn read_for_all(&mut self, jobs: &mut [ReadJob<'_>]) {
        // The kernel walks page tables for PSS: other consumers do not wait for that.
        let costly = |job: &&mut ReadJob<'_>| job.consumer.read_spec().wants(ProcessField::Pss);
        let (costly, mut shared): (Vec<_>, Vec<_>) = jobs.iter_mut().partition(costly);
        self.read_for(&mut shared);
        for job in costly {
            self.read_for(&mut [job]);
        }
    }

    /// Takes one reading for these consumers.
    fn read_for(&mut self, jobs: &mut [&mut ReadJob<'_>]) {
        if jobs.is_empty() {
            return;
        }
        let mut nodes: Vec<NodeRead> = Vec::new();
        let began = clock::thread_cpu();
        let read = self.take_sample(jobs, &mut nodes);
        let counters = OnceCell::new();
        let mut at = clock::thread_cpu();
        let shared_cost = Ns(at.since(began).0 / jobs.len() as u64);
        for job in jobs {
            job.result = Some(match &read {
                Ok(sample) => {
                    let spec = node_spec(job.consumer.read_spec());
                    let node = nodes
                        .iter()
                        .find(|(it, _)| same_node_spec(it, &spec))
                        .map(|(_, node)| node);
                    let (exit_log, shed) = (&self.exit_log, &*self.shed);
                    let (namespaces, counters) = (&self.job_index, &counters);
                    let reading = Reading { sample, node, counters, exit_log, namespaces, shed };
                    job.consumer.consume(&reading, &mut *self.backend)
                }
                Err(error) => Err(refusal(error)),
            });
            let done = clock::thread_cpu();
            job.cost = Ns(shared_cost.0 + done.since(at).0);
            self.consumers_cpu.0 += done.since(at).0;
            at = done;
        }
    }

    /// Reads processes once, and the node once for each distinct specification.
    fn take_sample(
        &mut self,
        jobs: &[&mut ReadJob<'_>],
        nodes: &mut Vec<NodeRead>,
    ) -> Result<Sample, Error> {
        let specs = || jobs.iter().map(|job| job.consumer.read_spec());
        let mut sample = None;
        if specs().any(|spec| spec.processes) {
            sample = Some(match self.read_named_processes(jobs) {
                Some(sample) => sample,
                None => self.read_all_processes(&union(jobs.iter().map(|job| &*job.consumer)))?,
            });
        }
        for spec in specs().map(node_spec).filter(reads_node) {
            if nodes.iter().any(|(it, _)| same_node_spec(it, &spec)) {
                continue;
            }
            let mut read = self.backend.read(&spec)?;
            nodes.push((
                spec,
                (read.node_stats.take().map(Arc::new), std::mem::take(&mut read.notes)),
            ));
            sample.get_or_insert(read);
        }
        let mut sample = match sample {
            Some(sample) => sample,
            None => self.backend.read(&ReadSpec::default())?,
        };
        sample.node_number = self.node;
        sample.notes.splice(..0, self.backend_notes.iter().cloned());
        Ok(sample)
    }

    /// Reads all processes, and keeps the records of those that have ended.
    fn read_all_processes(&mut self, spec: &ReadSpec) -> Result<Sample, Error> {
        let mut sample = self.backend.read(spec)?;
        self.job_index.learn(&mut sample, spec, &mut *self.backend);
        self.exit_log.take_from(&mut sample);
        // Without hooks there are no pending records to read.
        let is_needed = self.backend.wake_fd().is_some();
        self.next_full_read =
            is_needed.then_some(Ns(sample.at.boot.0.saturating_add(FULL_READ_INTERVAL.0)));
        Ok(sample)
    }

    /// Reads only the named processes, if all consumers name few, all of these exist, and the
    /// kernel's own accounting has all fields. A missing one may have ended: its record comes with
    /// a reading of all processes.
    fn read_named_processes(&mut self, jobs: &[&mut ReadJob<'_>]) -> Option<Sample> {
        let views =
            || jobs.iter().map(|job| &*job.consumer).filter(|view| view.read_spec().processes);
        let mut pids: Vec<Pid> = Vec::new();
        for view in views() {
            pids.extend(view.sufficient_pids()?);
        }
        pids.sort_unstable();
        pids.dedup();
        let sample = self.backend.read_few(&pids)?.ok()?;
        views().all(|view| view.finds_all(&sample.processes)).then_some(sample)
    }
}

/// The union of what the consumers need of processes.
fn union<'a>(consumers: impl Iterator<Item = &'a Consumer>) -> ReadSpec {
    let mut all = ReadSpec::default();
    for consumer in consumers.filter(|it| it.read_spec().processes) {
        let spec = consumer.read_spec();
        if spec.wants(ProcessField::Pss) {
            let first = !all.wants(ProcessField::Pss);
            let others = std::mem::take(&mut all.pss_of);
            all.pss_of =
                if first { consumer.pss_filter() } else { others.union(consumer.pss_filter()) };
        }
        all.processes = true;
        all.threads |= spec.threads;
        for &field in &spec.costly {
            if !all.costly.contains(&field) {
                all.costly.push(field);
            }
        }
    }
    all
}

/// The node part of a specification.
fn node_spec(spec: &ReadSpec) -> ReadSpec {
    ReadSpec {
        node: spec.node,
        disks: spec.disks.clone(),
        nets: spec.nets.clone(),
        ..ReadSpec::default()
    }
}

fn reads_node(spec: &ReadSpec) -> bool {
    spec.node || spec.disks != Devices::None || spec.nets != Devices::None
}

fn same_node_spec(a: &ReadSpec, b: &ReadSpec) -> bool {
    (a.node, &a.disks, &a.nets) == (b.node, &b.disks, &b.nets)
}

/// The refusal for a failed reading.
fn refusal(error: &Error) -> Refusal {
    let status = match error {
        Error::Denied { .. } => Status::NoPermissions,
        Error::Unsupported { .. } => Status::NotSupported,
        Error::Kernel { .. } | Error::Malformed { .. } => Status::Error,
        Error::EndOfRecording { .. } => Status::NotAvailable,
    };
    Refusal::new(status, error.to_string())
}
