//! The backend that needs nothing but `/proc`: no privilege, no BPF, any kernel.
//!
//! In: what is wanted and the root of a `/proc`. Out: a `Sample`. It reads through descriptors
//! that stay open (`descriptors`), a process in `process`, the node in `node`. It cannot know of
//! processes that start and end between two readings, and says so once.

// What is shared by all readings.
pub mod access;
mod descriptors;
mod health;
mod listing;
mod pass;
mod path;
mod seat;
mod trouble;
// One process, for who looks at it.
pub mod inside;
// Texts of one process: pure.
mod row;
mod sums;
// One process.
mod entry;
mod process;
mod thread;
// The node; these and the texts serve the eBPF backend too.
mod disk;
mod infiniband;
mod net;
pub mod node;
pub mod origin;
pub mod text;

pub use self::health::lacking;

use self::descriptors::Buffer;
use self::entry::Entry;
use self::listing::Listing;
use self::origin::Seen;
use self::pass::{Kernel, Pass};
use self::seat::Budget;
use self::text::Texts;
use super::inet_diag::InetDiag;
use monitor_backend::{Backend, Error};
use monitor_model::field::ProcessField;
use monitor_model::id::{Ns, Pid};
use monitor_model::probe::Probe;
use monitor_model::sample::{Note, Process, Sample, Source};
use monitor_model::shortfall::SHORT_LIVED;
use monitor_model::unseen::Unseen;
use monitor_model::want::{Capability, Want};
use monitor_sys::clock;
use rustix::fs::{Mode, OFlags, open};
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Readings after which a process that was asked for by its pid, and no more, is forgotten.
const REMEMBERED: u64 = 16;

/// Where the files are: `/proc` and `/sys`, or a copy of some of them.
#[derive(Clone, Debug)]
pub struct Root {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
}

impl Default for Root {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into() }
    }
}

impl Root {
    /// A tree with the directories `proc` and `sys` in it.
    pub fn below(tree: &Path) -> Self {
        Self { proc: tree.join("proc"), sys: tree.join("sys") }
    }
}

/// The backend.
#[derive(Debug)]
pub struct Procfs {
    root: Root,
    proc: OwnedFd,
    kernel: Kernel,
    node: Arc<str>,
    budget: Budget,
    buffer: Buffer,
    processes: Listing,
    threads: Listing,
    known: HashMap<u32, Entry>,
    round: u64,
    texts: Texts,
    /// TCP, if that was asked for.
    tcp: Option<InetDiag>,
    /// What `/proc` itself hides.
    hidden: Option<Unseen>,
    told: bool,
}

impl Procfs {
    /// Opens `/proc`, and raises the limit of open files.
    pub fn open(root: Root) -> Result<Self, Error> {
        if let Some(why) = access::not_proc(&root.proc) {
            return Err(Error::Unsupported {
                what: "reading processes without eBPF".into(),
                why: why.into(),
                fix: access::MOUNT_PROC.into(),
            });
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = open(&root.proc, flags, Mode::empty()).map_err(|errno| Error::Kernel {
            call: "open",
            what: root.proc.display().to_string(),
            source: errno.into(),
        })?;
        Ok(Self {
            proc,
            kernel: Kernel::of(&root.proc),
            node: super::host::name(),
            budget: Budget::raised(),
            buffer: Buffer::default(),
            processes: Listing::default(),
            threads: Listing::default(),
            known: HashMap::new(),
            round: 0,
            texts: Texts::new(root.proc.clone()),
            tcp: None,
            hidden: access::hidden(&root.proc),
            told: false,
            root,
        })
    }

    /// Counts TCP too, from the kernel's list of sockets.
    pub fn with_tcp(mut self) -> Result<Self, Error> {
        self.tcp = Some(InetDiag::open(self.root.proc.clone())?);
        Ok(self)
    }

    /// Keeps at most that many descriptors, for tests of what happens without.
    pub fn keep(mut self, descriptors: usize) -> Self {
        self.budget = Budget::of(descriptors);
        self
    }

    fn read_processes(
        &mut self,
        want: &Want,
        notes: &mut Vec<Note>,
    ) -> Result<Vec<Process>, Error> {
        let pids = match &want.pids {
            Some(pids) => asked(pids),
            None => self.listed()?,
        };
        self.round += 1;
        let mut pass = Pass {
            proc: self.proc.as_fd(),
            kernel: self.kernel,
            want,
            budget: &self.budget,
            buffer: &mut self.buffer,
            listing: &mut self.threads,
            trouble: trouble::Trouble::default(),
        };
        let mut processes = Vec::with_capacity(pids.len());
        for pid in pids {
            let entry = self.known.entry(pid).or_default();
            entry.round = self.round;
            match pass.process(pid, entry) {
                Some(process) => processes.push(process),
                None => drop(self.known.remove(&pid)),
            }
        }
        notes.extend(pass.trouble.notes());
        self.forget(want, &processes);
        Ok(processes)
    }

    fn read_tcp(&mut self, sample: &mut Sample) {
        let Some(tcp) = &mut self.tcp else { return };
        match tcp.join(&mut sample.processes, sample.at.boot) {
            Ok(note) => sample.notes.extend(note),
            Err(error) => sample.notes.push(Note::remark(format!("no TCP counters: {error}"))),
        }
    }

    fn listed(&mut self) -> Result<Vec<u32>, Error> {
        let listed = self.processes.read(self.proc.as_fd()).map_err(|errno| Error::Kernel {
            call: "getdents64",
            what: self.root.proc.display().to_string(),
            source: errno.into(),
        })?;
        Ok(listed.to_vec())
    }

    /// Forgets who was not met: all that ended, if all were asked for.
    fn forget(&mut self, want: &Want, processes: &[Process]) {
        let remembered = if want.pids.is_none() { 0 } else { REMEMBERED };
        let oldest = self.round.saturating_sub(remembered);
        self.known.retain(|_, entry| entry.round >= oldest);
        if want.pids.is_none() {
            self.texts.keep_only(processes);
        }
    }

    /// What is said of the backend itself.
    fn introduce(&mut self, want: &Want) -> Vec<Note> {
        let mut notes: Vec<Note> = self.hidden.iter().map(access::note).collect();
        if !std::mem::replace(&mut self.told, true) {
            notes.push(Note::remark(format!("{SHORT_LIVED}: /proc shows only those that live")));
            if !self.kernel.schedstat {
                notes.push(Note::remark(
                    "no run_delay_ns and run_count: this kernel lacks CONFIG_SCHED_INFO",
                ));
            }
            if !self.kernel.io {
                notes.push(Note::remark(
                    "no I/O counters: this kernel lacks CONFIG_TASK_IO_ACCOUNTING",
                ));
            }
        }
        if want.pids.is_some() {
            notes.retain(|note| !note.partial);
        }
        notes
    }
}

impl Backend for Procfs {
    fn source(&self) -> Source {
        Source::Procfs
    }

    fn probes(&mut self) -> Vec<Probe> {
        let probe = |&it: &Capability| match it {
            Capability::Tcp if self.tcp.is_some() => health::tcp(),
            _ => health::probe(it),
        };
        Capability::ALL.iter().map(probe).collect()
    }

    fn read(&mut self, want: &Want) -> Result<Sample, Error> {
        let mut sample = Sample {
            at: clock::now(),
            source: Source::Procfs,
            node: Arc::clone(&self.node),
            ..Sample::default()
        };
        if want.processes {
            sample.notes = self.introduce(want);
            sample.unseen.extend(self.hidden.clone());
            sample.processes = self.read_processes(want, &mut sample.notes)?;
            self.read_tcp(&mut sample);
        }
        sample.node_stats = node::read(&self.root, want, &mut sample.notes);
        Ok(sample)
    }

    /// Each costs the same, whether alone or among all.
    fn glance(&mut self, pids: &[Pid]) -> Option<Result<Sample, Error>> {
        let pids = Some(pids.to_vec());
        Some(self.read(&Want { processes: true, pids, ..Want::default() }))
    }

    fn describe(&mut self, processes: &mut [Process], want: &Want) {
        let (cmdline, cgroup) =
            (want.wants(ProcessField::Cmdline), want.wants(ProcessField::Cgroup));
        for process in processes {
            if cmdline {
                let known = self.known.get(&process.id.pid.0);
                let generation = known.map_or(0, |entry| entry.generation);
                process.text.cmdline = self.texts.cmdline(process.id, generation);
            }
            if cgroup {
                // It may have moved since, and no cgroup id here would tell.
                process.text.cgroup = self.texts.cgroup_now(process.id);
            }
            if want.wants(ProcessField::User) {
                process.text.user = self.texts.user(process);
            }
            if want.wants(ProcessField::Job) {
                let known = self.known.get(&process.id.pid.0);
                let generation = known.map_or(0, |entry| entry.generation);
                let seen = Seen { id: process.id, generation, cgroup_id: None };
                process.text.origin = self.texts.origin(seen);
            }
        }
    }
}

/// When the process of this id began, in the whole ticks that `/proc` tells.
pub fn started(pid: Pid) -> Option<Ns> {
    let text = std::fs::read(format!("/proc/{}/stat", pid.0)).ok()?;
    let ticks = monitor_proc::stat::parse(&text).ok()?.start_ticks;
    Some(Ns(ticks.saturating_mul(clock::tick_ns())))
}

/// The arguments of a process, its name first; none of a thread of the kernel.
pub fn arguments(pid: Pid) -> Option<Vec<Vec<u8>>> {
    let text = std::fs::read(format!("/proc/{}/cmdline", pid.0)).ok()?;
    let text = text.strip_suffix(&[0]).unwrap_or(&text);
    Some(text.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect())
}

/// Every pid once, in rising order.
fn asked(pids: &[Pid]) -> Vec<u32> {
    let mut pids: Vec<u32> = pids.iter().map(|pid| pid.0).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}
