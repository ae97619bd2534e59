//! The eBPF backend: one iteration over all tasks, merged with the counts of the probes.
//!
//! Each capability is an object of its own, loaded by trying: if the kernel refuses it, only that
//! capability is disabled, with a note. Nothing stays attached when this is dropped.

use crate::probe_reader::{ProbeConfig, ProbeReader, ProbeSpec, Readings};
use crate::{
    block::Block, counter_floors::CounterFloors, cpu_times::CpuTimes, decode::ThreadRows,
    exact_cpu::ExactCpu, kernel::Kernel, lifecycle::Lifecycle, run_queue::RunQueue,
    signal::SignalReader, snapshot::Snapshot, socket::Socket, tcp::Tcp, tcp_dump::TcpDump,
};
use crate::{health, pid_ns, rule};
use monitor_backend::{Backend, Error};
use monitor_backends::procfs::{Root, node::NodeReader};
use monitor_backends::{procfs::job_origin::SeenProcess, procfs::text::TextCache};
use monitor_model::{
    BackendKind, Capability, HiddenProcess, Instant, Note, NoteAbout, Ns, Pid, Probe, Process,
    ProgramLoss, ReadSpec, Sample, field::ProcessField as F,
};
use monitor_sys::{clock, namespace::has_host_pids};
use rustix::event::epoll;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The first process of the node.
const INIT: Pid = Pid(1);

/// All probes, in the order in which they are merged.
const PROBES: &[ProbeSpec] = &[
    ProbeSpec::new(&[Capability::Lifetimes], |kernel, _| Ok(Box::new(Lifecycle::load(kernel)?))),
    ProbeSpec::new(&[Capability::Tcp], |kernel, config| match Tcp::load(kernel, config) {
        Ok(tcp) => Ok(Box::new(tcp)),
        Err(refused) => Ok(Box::new(TcpDump::open(refused, config.since)?)),
    }),
    ProbeSpec::new(&[Capability::Sockets], |kernel, config| {
        Ok(Box::new(Socket::load(kernel, config.since)?))
    }),
    ProbeSpec::new(&[Capability::Signals], |kernel, _| Ok(Box::new(SignalReader::load(kernel)?))),
    ProbeSpec::new(&[Capability::Block, Capability::WriteBack], |kernel, config| {
        Ok(Box::new(Block::load(kernel, config)?))
    }),
    ProbeSpec::new(&[Capability::RunQueue], |kernel, config| {
        Ok(Box::new(RunQueue::load(kernel, config)?))
    }),
    ProbeSpec::new(&[Capability::ExactCpu], |kernel, config| {
        Ok(Box::new(ExactCpu::load(kernel, config)?))
    }),
];

/// The loaded objects.
pub struct Ebpf {
    node: Arc<str>,
    node_reader: NodeReader,
    root: Root,
    texts: TextCache,
    snapshot: Snapshot,
    floors: CounterFloors,
    cpu_times: CpuTimes,
    /// How old the time of a running thread can be.
    delay: Ns,
    asked: Vec<Capability>,
    readers: Vec<(&'static ProbeSpec, Box<dyn ProbeReader>)>,
    /// An epoll instance, readable when any probe has pending records (epoll(7)).
    wake: OwnedFd,
    /// Requested probes that were refused.
    refused: Vec<(&'static ProbeSpec, Error)>,
    log_level: u8,
    /// Losses, and when they were last counted.
    lost: (Ns, Vec<ProgramLoss>),
}

/// Maximum age of the counts of losses in a reading of few processes.
const MAX_LOST_AGE: Ns = Ns(1_000_000_000);

/// A probe reader, or why there is none.
type Loaded = (&'static ProbeSpec, Result<Box<dyn ProbeReader>, Error>);

/// Loads probes in parallel: most of the time is spent in the verifier.
fn load_parallel(
    specs: Vec<&'static ProbeSpec>,
    kernel: &Kernel,
    asked: &ProbeConfig<'_>,
) -> Vec<Loaded> {
    std::thread::scope(|scope| {
        let load = |loader: &'static ProbeSpec| scope.spawn(move || (loader.load)(kernel, asked));
        let threads: Vec<_> = specs.into_iter().map(|it| (it, load(it))).collect();
        threads.into_iter().map(|(loader, thread)| (loader, join(thread))).collect()
    })
}

/// Result of a thread; propagates its panic.
fn join<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl Ebpf {
    /// Loads the probes that the capabilities need. Without the snapshot there is no eBPF backend;
    /// any other refused probe becomes a note of every sample.
    pub fn open(capabilities: &[Capability], log_level: u8) -> Result<Self, Error> {
        Self::open_for(Readings::Many, capabilities, log_level)
    }

    /// The same, with what this number of readings needs.
    pub fn open_for(
        readings: Readings,
        capabilities: &[Capability],
        log_level: u8,
    ) -> Result<Self, Error> {
        monitor_sys::memory::raise_memlock_limit();
        monitor_sys::memory::use_one_heap();
        let kernel = Kernel::read(log_level)?;
        let asked = ProbeConfig { capabilities, since: clock::boot(), readings };
        let needed = PROBES.iter().filter(|it| it.needed(capabilities)).collect();
        let (snapshot, loaded) = std::thread::scope(|scope| {
            let readers = scope.spawn(|| load_parallel(needed, &kernel, &asked));
            (Snapshot::load(&kernel), join(readers))
        });
        let root = Root::default();
        let mut it = Self {
            node: monitor_backends::host::name(),
            node_reader: NodeReader::default(),
            texts: TextCache::new(root.proc.clone()),
            root,
            snapshot: snapshot?,
            floors: CounterFloors::default(),
            cpu_times: CpuTimes::default(),
            delay: monitor_backends::host::accounting_delay(),
            asked: capabilities.to_vec(),
            readers: Vec::new(),
            wake: epoll::create(epoll::CreateFlags::CLOEXEC)
                .map_err(|errno| Error::kernel("epoll_create1", "ring buffers", errno))?,
            refused: Vec::new(),
            log_level,
            lost: Default::default(),
        };
        it.take(loaded);
        drop(kernel);
        monitor_sys::memory::trim_heap();
        monitor_sys::trim_text::drop_text_pages();
        Ok(it)
    }

    /// Loads the probes that these capabilities need and that are not loaded.
    fn load(&mut self, capabilities: &[Capability], kernel: &Kernel) {
        self.asked = capabilities.to_vec();
        let readings = Readings::Many;
        let asked = ProbeConfig { capabilities, since: clock::boot(), readings };
        let is_known = |spec: &ProbeSpec| {
            self.readers.iter().any(|(it, _)| std::ptr::eq(*it, spec))
                || self.refused.iter().any(|(it, _)| std::ptr::eq(*it, spec))
        };
        let needed = |it: &&ProbeSpec| it.needed(capabilities) && !is_known(it);
        let loaded = load_parallel(PROBES.iter().filter(needed).collect(), kernel, &asked);
        self.take(loaded);
    }

    fn take(&mut self, loaded: Vec<Loaded>) {
        for (spec, reader) in loaded {
            match reader {
                Ok(reader) => {
                    // A ring that cannot be added is drained with the next reading.
                    let any = epoll::EventData::new_u64(0);
                    let add = |fd| epoll::add(&self.wake, fd, any, epoll::EventFlags::IN);
                    let _ = reader.wake_fd().map(add);
                    self.readers.push((spec, reader));
                }
                Err(error) => self.refused.push((spec, error)),
            }
        }
        // They are merged in the order of the list.
        self.readers
            .sort_by_key(|(it, _)| PROBES.iter().position(|other| std::ptr::eq(*it, other)));
    }

    fn read_processes(&mut self, sample: &mut Sample, want: &ReadSpec) -> Result<(), Error> {
        let threads = if want.threads { ThreadRows::Kept } else { ThreadRows::Summed };
        self.readers.iter_mut().for_each(|(_, reader)| reader.before_snapshot());
        sample.at = clock::now();
        sample.processes = self.snapshot.read(threads, sample.at.boot)?;
        sample.time_error = self.time_error(sample.at.boot);
        for (_, reader) in &mut self.readers {
            reader.merge_into(sample);
            if let Some(object) = reader.object() {
                object.flush_diagnostics();
            }
        }
        self.floors.raise(&mut sample.processes);
        self.cpu_times.divide(&mut sample.processes);
        // In a container the first process is that of the container, with any id on the host.
        let first = sample.processes.first();
        if first.is_some_and(|first| first.id.pid != INIT) && has_host_pids() {
            let text = "this kernel hides process 1 from BPF programs";
            let note = Note::remark(format!("{text}: it is missing"));
            sample.notes.push(note.about(NoteAbout::Processes));
            let why = format!("{text}; --backend procfs reads it");
            sample.hidden.push(HiddenProcess { pid: Some(INIT), why });
        }
        self.texts.keep_only(&sample.processes);
        if let Some(pids) = &want.pids {
            sample.processes.retain(|process| pids.contains(&process.id.pid));
        }
        let in_proc = if has_host_pids() { |it: &Process| it.id } else { pid_ns::in_proc };
        if want.wants(F::Pss) {
            let meant = |it: &&mut Process| it.row.get(F::Rss).is_some() && want.pss_of.matches(it);
            for process in sample.processes.iter_mut().filter(meant) {
                process.row.set_some(F::Pss, self.texts.pss(in_proc(process)));
            }
        }
        Ok(())
    }

    /// Reads few processes, after what must be read before them.
    fn snapshot_few(&mut self, pids: &[Pid]) -> Option<(Instant, Vec<Process>)> {
        self.readers.iter_mut().for_each(|(_, reader)| reader.before_few(pids));
        Some((clock::now(), self.snapshot.read_few(pids)?))
    }

    fn all_processes(&mut self) -> Result<Vec<Process>, Error> {
        self.snapshot.read(ThreadRows::Summed, clock::boot())
    }

    /// The error of a reading that began then and ends now.
    fn time_error(&self, began: Ns) -> Ns {
        Ns(clock::boot().since(began).0 + self.delay.0)
    }

    /// Losses, counted again if the last count is old.
    fn lost_until(&mut self, at: Ns) -> Vec<ProgramLoss> {
        if at.since(self.lost.0) > MAX_LOST_AGE {
            self.lost = (at, self.lost());
        }
        self.lost.1.clone()
    }

    fn lost(&self) -> Vec<ProgramLoss> {
        let lost = |(_, reader): &(_, Box<dyn ProbeReader>)| {
            let object = reader.object()?;
            let loss = object.loss();
            Some(ProgramLoss {
                program: reported_name(object.name).into(),
                ring_full: loss.ring_full + reader.dropped(),
                table_full: loss.table_full,
            })
        };
        self.readers.iter().filter_map(lost).collect()
    }

    fn notes(&self) -> Vec<Note> {
        let refused = self.refused.iter().map(|(spec, error)| {
            let asked = spec.serves.iter().find(|it| self.asked.contains(it));
            let capability = asked.unwrap_or(&spec.serves[0]);
            let text = format!("no {}: {error}", capability.name());
            let note = if capability.opt_in() { Note::missing(text) } else { Note::remark(text) };
            note.about(NoteAbout::Capabilities(spec.serves))
        });
        let rss = (!self.snapshot.exact_rss).then(|| {
            Note::remark("resident sizes are approximate: this machine has more than 64 processors")
                .about(NoteAbout::Fields(&[F::Rss, F::RssAnon, F::RssFile, F::RssShmem, F::Swap]))
        });
        let inexact = self.readers.iter().filter_map(|(spec, reader)| {
            let fallback = reader.fallback()?;
            let name = spec.serves[0].name();
            let note =
                Note::remark(format!("{name} not exact: {} (see monitor doctor)", fallback.misses));
            Some(note.about(NoteAbout::Capabilities(spec.serves)))
        });
        refused.chain(rss).chain(inexact).collect()
    }
}

/// Name of an object in samples and metrics; a renamed object keeps its name there.
fn reported_name(object: &'static str) -> &'static str {
    if object == "lifecycle" { "life" } else { object }
}

impl Backend for Ebpf {
    fn kind(&self) -> BackendKind {
        BackendKind::Ebpf
    }

    fn probes(&mut self) -> Vec<Probe> {
        let snapshot = health::probe(Capability::Snapshot, &self.snapshot.object, 0);
        let loaded = self.readers.iter().flat_map(|(spec, reader)| {
            let mut asked = spec.serves.iter().filter(|it| self.asked.contains(it));
            let first = asked.next().map(|it| reader.probe(*it));
            let with = first.as_ref().map(|probe| probe.capability);
            let rest = asked.map(move |it| Probe { with, ..reader.probe(*it).without_numbers() });
            first.into_iter().chain(rest)
        });
        let refused = self.refused.iter().flat_map(|(spec, error)| {
            let asked = spec.serves.iter().filter(|it| self.asked.contains(it));
            asked.map(move |it| Probe { health: health::refused(error), ..Probe::off(*it) })
        });
        let mut probes: Vec<_> = std::iter::once(snapshot).chain(loaded).chain(refused).collect();
        for capability in Capability::ALL {
            if !probes.iter().any(|probe| probe.capability == *capability) {
                probes.push(Probe::off(*capability));
            }
        }
        probes.sort_by_key(|probe| probe.capability);
        probes
    }

    fn examine(&mut self) -> Vec<Probe> {
        // The kernel measures run times until this is dropped.
        let _statistics = health::statistics();
        health::exercise();
        // A reading that fails leaves the snapshot's cost estimated.
        let _ = self.read(&ReadSpec { processes: true, ..ReadSpec::default() });
        let mut probes = self.probes();
        // Rules are loaded on demand by their users; here uprobes are tested.
        if self.asked.contains(&Capability::LibraryCalls) {
            let of_calls = |it: &&mut Probe| it.capability == Capability::LibraryCalls;
            probes.iter_mut().filter(of_calls).for_each(|it| *it = rule::uprobe_selftest::run());
        }
        probes
    }

    fn enable_bpf_stats(&self) -> Option<OwnedFd> {
        health::statistics()
    }

    fn attach(&mut self, capabilities: &[Capability]) {
        if self.asked == capabilities {
            return;
        }
        let needs = |capabilities: &[Capability]| {
            PROBES.iter().map(|it| it.needed(capabilities)).collect::<Vec<_>>()
        };
        if needs(&self.asked) == needs(capabilities) {
            self.asked = capabilities.to_vec();
            return;
        }
        self.readers.retain(|(spec, _)| spec.needed(capabilities));
        self.refused.retain(|(spec, _)| spec.needed(capabilities));
        // The kernel's BTF was read before, so reading it again succeeds.
        if let Ok(kernel) = Kernel::read(self.log_level) {
            self.load(capabilities, &kernel);
        }
        monitor_sys::memory::trim_heap();
    }

    fn read(&mut self, want: &ReadSpec) -> Result<Sample, Error> {
        let mut sample = Sample {
            at: clock::now(),
            backend: BackendKind::Ebpf,
            node: self.node.clone(),
            all_visible: want.all_processes(),
            ..Sample::default()
        };
        if want.processes {
            self.read_processes(&mut sample, want)?;
        }
        sample.node_stats = self.node_reader.read(&self.root, want, &mut sample.notes);
        if let Some(node) = sample.node_stats.as_mut().filter(|_| want.node) {
            self.readers.iter().for_each(|(_, reader)| reader.add_to_node(&mut node.row));
        }
        sample.notes.extend(self.notes());
        sample.lost = self.lost();
        Ok(sample)
    }

    fn host_pids(&mut self, pids: &[Pid]) -> Result<Vec<Option<Pid>>, Error> {
        if has_host_pids() {
            return Ok(pids.iter().copied().map(Some).collect());
        }
        let (processes, tick_ns) = (self.all_processes()?, clock::tick_ns());
        let host =
            |pid: &Pid| pid_ns::host_pid(&self.texts.namespace_view(*pid)?, &processes, tick_ns);
        Ok(pids.iter().map(host).collect())
    }

    fn read_few(&mut self, pids: &[Pid]) -> Option<Result<Sample, Error>> {
        if !self.snapshot.reads_few(pids) {
            return None;
        }
        let (mut at, mut processes) = self.snapshot_few(pids)?;
        if !self.readers.iter_mut().all(|(_, reader)| reader.knew(&processes)) {
            (at, processes) = self.snapshot_few(pids)?;
        }
        let time_error = self.time_error(at.boot);
        for (_, reader) in &mut self.readers {
            reader.merge_into_few(&mut processes);
        }
        self.floors.raise_few(&mut processes);
        self.cpu_times.divide_few(&mut processes);
        Some(Ok(Sample {
            at,
            time_error,
            backend: BackendKind::Ebpf,
            node: self.node.clone(),
            processes,
            notes: self.notes(),
            lost: self.lost_until(at.boot),
            ..Sample::default()
        }))
    }

    fn describe(&mut self, processes: &mut [Process], want: &ReadSpec) {
        let number = |process: &Process, field| process.row.get(field).unwrap_or(0);
        let in_proc = if has_host_pids() { |it: &Process| it.id } else { pid_ns::in_proc };
        for process in processes.iter_mut() {
            if want.wants(F::User) {
                process.text.user = self.texts.user(process);
            }
            if process.ended() {
                // It has no entry in `/proc` any more; the path of its cgroup may be cached.
                if want.wants(F::Cgroup) {
                    let cgroup_id = number(process, F::CgroupId);
                    process.text.cgroup = self.texts.cgroup_last(in_proc(process), cgroup_id);
                }
                continue;
            }
            let generation = u32::try_from(number(process, F::ExecId)).unwrap_or(0);
            let cgroup_id = number(process, F::CgroupId);
            if want.wants(F::Cmdline) {
                process.text.cmdline = self.texts.cmdline(in_proc(process), generation);
            }
            if want.wants(F::Cgroup) {
                let cgroup_id = Some(cgroup_id);
                let seen = SeenProcess { id: in_proc(process), generation, cgroup_id };
                process.text.cgroup = self.texts.cgroup(seen);
            }
            if want.wants(F::Job) {
                let cgroup_id = Some(cgroup_id);
                let seen = SeenProcess { id: process.id, generation, cgroup_id };
                process.text.origin = self.texts.origin(seen);
            }
        }
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wake.as_fd())
    }

    fn drain(&mut self) {
        for (_, reader) in &mut self.readers {
            reader.drain();
        }
    }
}
