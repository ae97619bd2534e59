//! The processes of a node, read by a backend, and creations and ends between two readings.
//!
//! In: a backend. Out: processes as they are, creations and ends as they are found. All reads of
//! the backend go through here, so that ended processes in a reading are not lost to another
//! reader.

use super::{PlatformEvent, events::process_event};
use monitor_backend as backend;
use monitor_backend::Backend;
use monitor_event::node_event::EventKind;
use monitor_event::outcome::{EventParam, Refusal};
use monitor_model::id::is_same;
use monitor_model::{
    BackendKind, Capability, Identity, Node, Ns, Pid, Process, ProcessField, ReadSpec, Sample,
    SampleEvent, SampleEventKind,
};
use monitor_omis::{Status, Value};
use monitor_sampling::job::JobTable;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The interval of readings of all processes, while creations or ends are watched.
const SAMPLE_INTERVAL: Ns = Ns(50_000_000);
/// From one look at records that need no reading to the next.
const RECORD_INTERVAL: Ns = Ns(5_000_000);

/// A backend, and the processes of its last reading.
pub struct Poller<B: ?Sized> {
    /// The backend that reads.
    pub backend: Box<B>,
    /// The processes of the last reading; absent, while neither creations nor ends are watched.
    known: Option<KnownProcesses>,
    topics: BTreeSet<EventKind>,
    /// The time of the last poll.
    last_poll: Ns,
    pending: Vec<PlatformEvent>,
    /// The jobs and ranks of processes, where they were asked for.
    jobs: JobTable,
}

/// The processes of a reading, zombies included.
#[derive(Default)]
struct KnownProcesses {
    all: BTreeSet<Identity>,
    /// Those of them whose end was reported: zombies, and those of other readings.
    ended: BTreeSet<Identity>,
}

impl<B: Backend + ?Sized> Poller<B> {
    /// Nothing was read yet.
    pub fn new(backend: Box<B>) -> Self {
        let (topics, pending) = (BTreeSet::new(), Vec::new());
        let jobs = JobTable::default();
        Self { backend, known: None, topics, last_poll: Ns(0), pending, jobs }
    }

    /// These processes, ascending; those that have ended are left out.
    pub fn read_processes(&mut self, pids: &[Pid]) -> Result<Vec<Process>, Refusal> {
        if pids.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(few) = self.backend.read_few(pids) {
            return Ok(few.map_err(backend_refusal)?.processes);
        }
        let want = ReadSpec { processes: true, pids: Some(pids.to_vec()), ..ReadSpec::default() };
        let mut processes = self.read(&want)?;
        processes.retain(|it| !it.ended());
        Ok(processes)
    }

    /// All processes.
    pub fn all_processes(&mut self) -> Result<Vec<Process>, Refusal> {
        let mut processes = self.read(&ReadSpec { processes: true, ..ReadSpec::default() })?;
        processes.retain(|it| !it.ended());
        Ok(processes)
    }

    /// All processes with their jobs, ranks and origins, ended ones included. The first call after
    /// a pause finds what a reading shows: a process whose environment was cleared since has the
    /// job of its parent only if that is there.
    pub fn ranked_processes(&mut self) -> Result<Vec<Process>, Refusal> {
        let spec = with_jobs();
        let mut sample = self.read_sample(&spec)?;
        self.backend.describe(&mut sample.processes, &spec);
        self.jobs.learn(&mut sample);
        Ok(sample.processes)
    }

    /// A process that has begun a program, with its rank and origin; nothing, if it has ended.
    pub fn ranked_process(&mut self, id: Identity) -> Option<Process> {
        let mut found = self.read_processes(&[id.pid]).ok()?;
        self.backend.describe(&mut found, &with_jobs());
        let mut process = found.into_iter().find(|it| is_same(it.id, id))?;
        process.text.rank = self.jobs.rank_of_new(&process).map(Arc::new);
        Some(process)
    }

    /// The words of a command line. Only where an argument cannot hold a space.
    pub fn arguments(&mut self, id: Identity) -> Option<Vec<Vec<u8>>> {
        let mut it = self.read_processes(&[id.pid]).ok()?;
        self.describe(&mut it);
        let line = it.first()?.text.cmdline.clone()?;
        Some(line.split(' ').map(|word| word.as_bytes().to_vec()).collect())
    }

    /// The node's own numbers.
    pub fn node(&mut self) -> Result<Node, Refusal> {
        let spec = ReadSpec { node: true, ..ReadSpec::default() };
        let sample = self.backend.read(&spec).map_err(backend_refusal)?;
        Ok(sample.node_stats.unwrap_or_default())
    }

    /// Fills in texts.
    pub fn describe(&mut self, processes: &mut [Process]) {
        let costly = vec![ProcessField::Cmdline, ProcessField::Cgroup, ProcessField::Path];
        self.backend
            .describe(processes, &ReadSpec { processes: true, costly, ..ReadSpec::default() });
    }

    /// Whether the event can be watched.
    pub fn check_event(&self, topic: &EventKind) -> Result<(), Refusal> {
        match topic {
            EventKind::Executed | EventKind::OomKilled | EventKind::MachineChecked => {
                let text = "what all processes do is seen by eBPF only: see monitor doctor";
                Err(Refusal::new(Status::UNSUPPORTED, text))
            }
            EventKind::Signalled if !reports_signals(self.backend.kind()) => {
                let text = format!(
                    "the backend {} does not see signals: eBPF does, see monitor doctor",
                    self.backend.kind().name()
                );
                Err(Refusal::new(Status::UNSUPPORTED, text))
            }
            _ => Ok(()),
        }
    }

    /// Watches these events from now on. Processes that exist already are not reported.
    pub fn set_events(&mut self, topics: &BTreeSet<EventKind>) {
        self.topics.clone_from(topics);
        let wants = topics.contains(&EventKind::Created) || topics.contains(&EventKind::Ended);
        if !wants {
            self.known = None;
        }
        self.backend.attach(&capabilities(topics));
        if wants && self.known.is_none() {
            let there = self.all_processes().unwrap_or_default();
            let zombies = there.iter().filter(|it| it.is_zombie()).map(|it| it.id);
            self.known = Some(KnownProcesses {
                all: there.iter().map(|it| it.id).collect(),
                ended: zombies.collect(),
            });
        }
    }

    /// The time of the next poll.
    pub fn next_poll(&self) -> Option<Ns> {
        let interval = match self.known.is_some() {
            true => SAMPLE_INTERVAL,
            false if self.topics.contains(&EventKind::Signalled) => RECORD_INTERVAL,
            false => return None,
        };
        Some(Ns(self.last_poll.0.saturating_add(interval.0)))
    }

    /// What happened since; reads, if an event is wanted that a reading shows.
    pub fn poll_events(&mut self, now: Ns) -> Vec<PlatformEvent> {
        self.last_poll = now;
        let want = ReadSpec { processes: self.known.is_some(), ..ReadSpec::default() };
        if (want.processes || self.topics.contains(&EventKind::Signalled))
            && let Err(refusal) = self.read(&want)
        {
            tracing::warn!("creations and ends of processes are not seen: {refusal}");
        }
        std::mem::take(&mut self.pending)
    }

    fn read(&mut self, want: &ReadSpec) -> Result<Vec<Process>, Refusal> {
        self.read_sample(want).map(|sample| sample.processes)
    }

    fn read_sample(&mut self, want: &ReadSpec) -> Result<Sample, Refusal> {
        let sample = self.backend.read(want).map_err(backend_refusal)?;
        for it in &sample.events {
            self.report_event(it);
        }
        if want.pids.is_none() && want.processes && self.known.is_some() {
            self.compare(&sample);
        } else {
            let ended = sample.processes.iter().filter(|it| it.ended() || it.is_zombie());
            self.report_ended(
                &ended.map(|it| (it.id, it.row.get(ProcessField::ExitCode))).collect(),
            );
        }
        Ok(sample)
    }

    /// Reports the processes that are new, and those that are gone.
    fn compare(&mut self, sample: &Sample) {
        let before = self.known.as_mut().map(|it| std::mem::take(&mut it.all)).unwrap_or_default();
        let mut codes = HashMap::new();
        let mut now = BTreeSet::new();
        for it in &sample.processes {
            if !before.contains(&it.id) {
                let parent = it.parent.or_else(|| parent(it, sample));
                self.report_created(it.id, parent, sample.at.boot);
            }
            if it.ended() || it.is_zombie() {
                codes.insert(it.id, it.row.get(ProcessField::ExitCode));
            }
            if !it.ended() {
                now.insert(it.id);
            }
        }
        for gone in before.difference(&now) {
            codes.entry(*gone).or_insert(None);
        }
        self.report_ended(&codes);
        if let Some(known) = &mut self.known {
            known.ended.retain(|id| now.contains(id));
            known.all = now;
        }
    }

    fn report_event(&mut self, event: &SampleEvent) {
        let SampleEventKind::SignalDelivered { signal } = event.kind else { return };
        let number = EventParam::Value(Value::from(signal.number));
        self.queue_event(EventKind::Signalled, event.target, event.at, Some(number));
    }

    fn report_created(&mut self, child: Identity, parent: Option<Identity>, at: Ns) {
        self.pending.push(PlatformEvent::ProcessCreated { child, parent });
        self.queue_event(EventKind::Created, child, at, None);
    }

    fn report_ended(&mut self, codes: &HashMap<Identity, Option<u64>>) {
        let Some(known) = &mut self.known else { return };
        // A zombie is in each reading until its parent waits for it, and may have a final record.
        let mut ended: Vec<_> = codes.iter().filter(|(id, _)| known.ended.insert(**id)).collect();
        ended.sort_unstable();
        for (&id, code) in ended {
            // The code is an extension: `$2`, and -1 where it is unknown.
            let code = code.and_then(|code| i64::try_from(code).ok()).unwrap_or(-1);
            // A code above 128 may be that of a signal, or the program's own.
            let signal = if (0..=128).contains(&code) { 0 } else { -1 };
            let params = [code, signal].map(|it| EventParam::Value(Value::from(it)));
            self.queue_event(EventKind::Ended, id, Ns(0), params);
            self.pending.push(PlatformEvent::ProcessEnded(id));
        }
    }

    fn queue_event(
        &mut self,
        kind: EventKind,
        id: Identity,
        at: Ns,
        values: impl IntoIterator<Item = EventParam>,
    ) {
        if self.topics.contains(&kind) {
            self.pending.push(PlatformEvent::Event(process_event(kind, at, id, values)));
        }
    }
}

/// Processes with what names their jobs.
fn with_jobs() -> ReadSpec {
    let costly = vec![ProcessField::Job];
    ReadSpec { processes: true, costly, ..ReadSpec::default() }
}

/// The parent, where the creation was not seen: the one it names now, unless that began later.
fn parent(child: &Process, sample: &Sample) -> Option<Identity> {
    let ppid = child.row.get(ProcessField::Ppid).and_then(|pid| u32::try_from(pid).ok())?;
    let parent = sample.processes.iter().find(|it| it.id.pid == Pid(ppid) && !it.ended())?;
    (parent.id.start <= child.id.start).then_some(parent.id)
}

/// What must be attached for these.
fn capabilities(topics: &BTreeSet<EventKind>) -> Vec<Capability> {
    let mut needed = vec![Capability::Snapshot];
    if topics.contains(&EventKind::Created) || topics.contains(&EventKind::Ended) {
        needed.push(Capability::Lifetimes);
    }
    if topics.contains(&EventKind::Signalled) {
        needed.push(Capability::Signals);
    }
    needed
}

const fn reports_signals(source: BackendKind) -> bool {
    matches!(source, BackendKind::Ebpf | BackendKind::Test)
}

/// A backend's error as a refusal.
pub fn backend_refusal(error: backend::Error) -> Refusal {
    let status = match &error {
        backend::Error::Denied { .. } => Status::PERMISSION,
        backend::Error::Unsupported { .. } => Status::UNSUPPORTED,
        backend::Error::Kernel { .. }
        | backend::Error::Malformed { .. }
        | backend::Error::EndOfRecording { .. } => Status::IO,
    };
    let errno = match &error {
        backend::Error::Kernel { source, .. } => source.raw_os_error().unwrap_or(0),
        _ => 0,
    };
    Refusal::new(status, error.to_string()).with_errno(errno)
}
