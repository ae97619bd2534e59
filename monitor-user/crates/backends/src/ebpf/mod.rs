//! The eBPF backend: one pass of the task iterator, joined with what the hooks counted.
//!
//! Each capability is an object of its own, loaded by trying: what a kernel refuses switches that
//! capability off, aloud, and the rest works on. Nothing stays attached when this is dropped.

mod block;
mod decode;
mod ended;
mod exact_cpu;
mod health;
mod holder;
mod kernel;
mod layout;
mod life;
mod object;
mod owner;
mod part;
mod pass;
mod reader;
pub mod rule;
mod run_queue;
mod share;
mod signal;
mod snapshot;
mod socket;
mod socket_way;
mod tcp;
mod tcp_dump;
mod wake;

use super::procfs::origin::Seen;
use super::procfs::text::Texts;
use super::procfs::{Root, node};
use kernel::Kernel;
use monitor_backend::{Backend, Error};
use monitor_model::field::ProcessField as F;
use monitor_model::id::{Ns, Pid};
use monitor_model::probe::Probe;
use monitor_model::sample::{Lost, Note, Process, Sample, Source};
use monitor_model::unseen::Unseen;
use monitor_model::want::{Capability, Want};
use monitor_sys::clock;
use monitor_sys::namespace::has_host_pids;
use part::{Asked, LOADERS, Loader, Part};
use snapshot::{Snapshot, Threads};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use wake::Wake;

/// The first process of the node.
const INIT: Pid = Pid(1);

/// The loaded objects.
pub struct Ebpf {
    node: Arc<str>,
    root: Root,
    texts: Texts,
    snapshot: Snapshot,
    asked: Vec<Capability>,
    parts: Vec<(&'static Loader, Box<dyn Part>)>,
    /// Becomes readable when any of the parts has records that wait.
    wake: Wake,
    /// What was asked for and could not be had.
    refused: Vec<(&'static Loader, Error)>,
    log_level: u8,
    /// What was lost, as of when it was last counted.
    lost: (Ns, Vec<Lost>),
}

/// How old the counts of what was lost may be in a reading of a few.
const LOST_WITHIN: Ns = Ns(1_000_000_000);

/// A part, or why there is none.
type Loaded = (&'static Loader, Result<Box<dyn Part>, Error>);

/// Loads parts at the same time: most of it is the verifier's work, which waits for nobody.
fn side_by_side(loaders: Vec<&'static Loader>, kernel: &Kernel, asked: &Asked<'_>) -> Vec<Loaded> {
    std::thread::scope(|scope| {
        let load = |loader: &'static Loader| scope.spawn(move || (loader.load)(kernel, asked));
        let threads: Vec<_> = loaders.into_iter().map(|it| (it, load(it))).collect();
        threads.into_iter().map(|(loader, thread)| (loader, joined(thread))).collect()
    })
}

/// What a thread came to; its panic goes on here.
fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl Ebpf {
    /// Loads what the capabilities need. Without the snapshot there is no eBPF backend; any other
    /// part that is refused becomes a note of every sample.
    pub fn open(capabilities: &[Capability], log_level: u8) -> Result<Self, Error> {
        monitor_sys::memory::lift_lock_limit();
        monitor_sys::memory::share_heap();
        let kernel = Kernel::read(log_level)?;
        let asked = Asked { capabilities, since: clock::boot() };
        let needed = LOADERS.iter().filter(|it| it.needed(capabilities)).collect();
        let (snapshot, loaded) = std::thread::scope(|scope| {
            let parts = scope.spawn(|| side_by_side(needed, &kernel, &asked));
            (Snapshot::load(&kernel), joined(parts))
        });
        let root = Root::default();
        let mut it = Self {
            node: super::host::name(),
            texts: Texts::new(root.proc.clone()),
            root,
            snapshot: snapshot?,
            asked: capabilities.to_vec(),
            parts: Vec::new(),
            wake: Wake::new()?,
            refused: Vec::new(),
            log_level,
            lost: Default::default(),
        };
        it.take(loaded);
        drop(kernel);
        monitor_sys::memory::give_back();
        monitor_sys::code::give_back();
        Ok(it)
    }

    /// Loads the parts that these need and that are not there.
    fn load(&mut self, capabilities: &[Capability], kernel: &Kernel) {
        self.asked = capabilities.to_vec();
        let asked = Asked { capabilities, since: clock::boot() };
        let there = |loader: &Loader| {
            self.parts.iter().any(|(it, _)| std::ptr::eq(*it, loader))
                || self.refused.iter().any(|(it, _)| std::ptr::eq(*it, loader))
        };
        let needed = |it: &&Loader| it.needed(capabilities) && !there(it);
        let loaded = side_by_side(LOADERS.iter().filter(needed).collect(), kernel, &asked);
        self.take(loaded);
    }

    fn take(&mut self, loaded: Vec<Loaded>) {
        for (loader, part) in loaded {
            match part {
                Ok(part) => {
                    // One that cannot wake is drained with the next reading.
                    let _ = part.wake().map(|fd| self.wake.add(fd));
                    self.parts.push((loader, part));
                }
                Err(error) => self.refused.push((loader, error)),
            }
        }
        // They are joined in the order of the list.
        self.parts.sort_by_key(|(it, _)| LOADERS.iter().position(|other| std::ptr::eq(*it, other)));
    }

    fn read_processes(&mut self, sample: &mut Sample, want: &Want) -> Result<(), Error> {
        let threads = if want.threads { Threads::Kept } else { Threads::Summed };
        sample.processes = self.snapshot.read(threads)?;
        for (_, part) in &mut self.parts {
            part.join(sample);
            if let Some(object) = part.object_mut() {
                object.say();
            }
        }
        // In a container the first process is the container's, whatever its id on the host.
        let first = sample.processes.first();
        if first.is_some_and(|first| first.id.pid != INIT) && has_host_pids() {
            let text = "this kernel shows process 1 to no BPF program";
            sample.notes.push(Note::remark(format!("{text}: it is missing here")));
            let why = format!("{text}; --backend procfs reads it");
            sample.unseen.push(Unseen { pid: Some(INIT), why });
        }
        self.texts.keep_only(&sample.processes);
        if let Some(pids) = &want.pids {
            sample.processes.retain(|process| pids.contains(&process.id.pid));
        }
        let in_proc = if has_host_pids() { |it: &Process| it.id } else { reader::in_proc };
        if want.wants(F::Pss) {
            let meant = |it: &&mut Process| it.row.get(F::Rss).is_some() && want.pss_of.means(it);
            for process in sample.processes.iter_mut().filter(meant) {
                process.row.set_some(F::Pss, self.texts.pss(in_proc(process)));
            }
        }
        Ok(())
    }

    /// What was lost, counted anew if that was long ago.
    fn lost_until(&mut self, at: Ns) -> Vec<Lost> {
        if at.since(self.lost.0) > LOST_WITHIN {
            self.lost = (at, self.lost());
        }
        self.lost.1.clone()
    }

    fn lost(&self) -> Vec<Lost> {
        let lost = |(_, part): &(_, Box<dyn Part>)| {
            let object = part.object()?;
            let loss = object.loss();
            Some(Lost {
                program: object.name().into(),
                ring_full: loss.ring_full + part.dropped(),
                table_full: loss.table_full,
            })
        };
        self.parts.iter().filter_map(lost).collect()
    }

    fn notes(&self) -> Vec<Note> {
        let refused = self.refused.iter().map(|(loader, error)| {
            let asked = loader.serves.iter().find(|it| self.asked.contains(it));
            let capability = asked.unwrap_or(&loader.serves[0]);
            let text = format!("no {}: {error}", capability.name());
            if capability.opt_in() { Note::missing(text) } else { Note::remark(text) }
        });
        let rss = (!self.snapshot.exact_rss()).then(|| {
            Note::remark("resident sizes are approximate: this machine has more than 64 processors")
        });
        let inexact = self.parts.iter().filter_map(|(loader, part)| {
            let fallback = part.fallback().filter(|fallback| !fallback.exact)?;
            let name = loader.serves[0].name();
            Some(Note::remark(format!("{name} not exact: {}", fallback.why)))
        });
        refused.chain(rss).chain(inexact).collect()
    }
}

impl Backend for Ebpf {
    fn source(&self) -> Source {
        Source::Ebpf
    }

    fn probes(&mut self) -> Vec<Probe> {
        let snapshot = health::probe(Capability::Snapshot, self.snapshot.object(), 0);
        let loaded = self.parts.iter().flat_map(|(loader, part)| {
            let mut asked = loader.serves.iter().filter(|it| self.asked.contains(it));
            let first = asked.next().map(|it| part.probe(*it));
            let with = first.as_ref().map(|probe| probe.capability);
            let rest = asked.map(move |it| Probe { with, ..part.probe(*it).without_numbers() });
            first.into_iter().chain(rest)
        });
        let refused = self.refused.iter().flat_map(|(loader, error)| {
            let asked = loader.serves.iter().filter(|it| self.asked.contains(it));
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
        // Held for as long as the kernel shall count run times.
        let _statistics = health::statistics();
        health::exercise();
        // A reading that fails leaves the snapshot's cost estimated.
        let _ = self.read(&Want { processes: true, ..Want::default() });
        let mut probes = self.probes();
        // Rules are loaded by who has some; here they are tried.
        if self.asked.contains(&Capability::LibraryCalls) {
            let of_calls = |it: &&mut Probe| it.capability == Capability::LibraryCalls;
            probes.iter_mut().filter(of_calls).for_each(|it| *it = rule::trial::tried());
        }
        probes
    }

    fn statistics(&self) -> Option<OwnedFd> {
        health::statistics()
    }

    fn attach(&mut self, capabilities: &[Capability]) {
        if self.asked == capabilities {
            return;
        }
        let needs = |capabilities: &[Capability]| {
            LOADERS.iter().map(|it| it.needed(capabilities)).collect::<Vec<_>>()
        };
        if needs(&self.asked) == needs(capabilities) {
            self.asked = capabilities.to_vec();
            return;
        }
        self.parts.retain(|(loader, _)| loader.needed(capabilities));
        self.refused.retain(|(loader, _)| loader.needed(capabilities));
        // The kernel's types were read once, so they can be read.
        if let Ok(kernel) = Kernel::read(self.log_level) {
            self.load(capabilities, &kernel);
        }
        monitor_sys::memory::give_back();
    }

    fn read(&mut self, want: &Want) -> Result<Sample, Error> {
        let mut sample = Sample {
            at: clock::now(),
            source: Source::Ebpf,
            node: self.node.clone(),
            ..Sample::default()
        };
        if want.processes {
            self.read_processes(&mut sample, want)?;
        }
        sample.node_stats = node::read(&self.root, want, &mut sample.notes);
        sample.notes.extend(self.notes());
        sample.lost = self.lost();
        Ok(sample)
    }

    fn host_pids(&mut self, pids: &[Pid]) -> Result<Vec<Option<Pid>>, Error> {
        if has_host_pids() {
            return Ok(pids.iter().copied().map(Some).collect());
        }
        let (processes, tick_ns) = (self.snapshot.read(Threads::Summed)?, clock::tick_ns());
        let host = |pid: &Pid| reader::host_pid(&self.texts.inside(*pid)?, &processes, tick_ns);
        Ok(pids.iter().map(host).collect())
    }

    fn glance(&mut self, pids: &[Pid]) -> Option<Result<Sample, Error>> {
        let at = clock::now();
        let mut processes = self.snapshot.glance(pids)?;
        for (_, part) in &mut self.parts {
            part.complete(&mut processes);
        }
        Some(Ok(Sample {
            at,
            source: Source::Ebpf,
            node: self.node.clone(),
            processes,
            notes: self.notes(),
            lost: self.lost_until(at.boot),
            ..Sample::default()
        }))
    }

    fn describe(&mut self, processes: &mut [Process], want: &Want) {
        let number = |process: &Process, field| process.row.get(field).unwrap_or(0);
        let in_proc = if has_host_pids() { |it: &Process| it.id } else { reader::in_proc };
        for process in processes.iter_mut() {
            if want.wants(F::User) {
                process.text.user = self.texts.user(process);
            }
            if process.ended() {
                // Nothing below `/proc` speaks of it any more; its cgroup may be known.
                if want.wants(F::Cgroup) {
                    process.text.cgroup = self.texts.cgroup_known(number(process, F::CgroupId));
                }
                continue;
            }
            if want.wants(F::Cmdline) {
                let generation = u32::try_from(number(process, F::ExecId)).unwrap_or(0);
                process.text.cmdline = self.texts.cmdline(in_proc(process), generation);
            }
            if want.wants(F::Cgroup) {
                let cgroup = number(process, F::CgroupId);
                process.text.cgroup = self.texts.cgroup(cgroup, in_proc(process));
            }
            if want.wants(F::Job) {
                let generation = u32::try_from(number(process, F::ExecId)).unwrap_or(0);
                let cgroup_id = Some(number(process, F::CgroupId));
                let seen = Seen { id: process.id, generation, cgroup_id };
                process.text.origin = self.texts.origin(seen);
            }
        }
    }

    fn wake(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wake.fd())
    }

    fn drain(&mut self) {
        for (_, part) in &mut self.parts {
            part.drain();
        }
    }
}
