//! The `/proc` backend: needs no privilege, no BPF, and works on any kernel.
//!
//! In: a read specification and the root of a `/proc`. Out: a `Sample`. It reads through
//! descriptors that stay open (`descriptors`), a process in `process`, the node in `node`. It
//! misses processes that start and end between two readings, and reports that in every sample.

// Shared by all readings.
mod descriptors;
mod fd_budget;
mod health;
pub mod hidepid;
mod listing;
mod pass;
mod path;
mod read_errors;
// Details of one process.
pub mod details;
// Conversion of parsed texts: pure.
mod row;
mod sums;
// One process.
mod pid_cache;
mod process;
mod thread;
mod zombie;
// The node; these and the texts serve the eBPF backend too.
mod disk;
mod infiniband;
pub mod job_origin;
mod net;
pub mod node;
mod node_cpu;
mod root;
pub mod text;

pub use self::health::missing_capabilities;
pub use self::root::Root;

use self::pass::{Kernel, ReadPass};
use self::{
    descriptors::Buffer, fd_budget::FdBudget, job_origin::LONGEST_ENVIRON, job_origin::SeenProcess,
    listing::Listing, pid_cache::PidEntry, text::TextCache,
};
use super::inet_diag::InetDiag;
use monitor_backend::{Backend, Error};
use monitor_model::{
    BackendKind, Capability, Credentials, Environ, HiddenProcess, Note, NoteAbout, Ns, Pid, Probe,
    Process, ProcessField, ReadSpec, Sample, degradation::SHORT_LIVED,
};
use monitor_sys::clock;
use rustix::fs::{Mode, OFlags, open};
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::{collections::HashMap, sync::Arc};

/// Readings after which a process requested by its pid is removed from the cache.
const CACHED_READINGS: u64 = 16;

/// The backend.
#[derive(Debug)]
pub struct Procfs {
    root: Root,
    proc: OwnedFd,
    kernel: Kernel,
    node: Arc<str>,
    node_reader: node::NodeReader,
    budget: FdBudget,
    buffer: Buffer,
    processes: Listing,
    threads: Listing,
    known: HashMap<u32, PidEntry>,
    round: u64,
    texts: TextCache,
    /// TCP reader, if requested.
    tcp: Option<InetDiag>,
    /// Processes hidden by the mount of `/proc`.
    hidden: Option<HiddenProcess>,
    /// How old the time of a running thread can be.
    delay: Ns,
    processors: u64,
}

impl Procfs {
    /// Opens `/proc`, and raises the limit of open files.
    pub fn open(root: Root) -> Result<Self, Error> {
        if let Some(why) = hidepid::not_proc(&root.proc) {
            return Err(Error::unsupported(
                "reading processes without eBPF",
                why,
                hidepid::MOUNT_PROC,
            ));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = open(&root.proc, flags, Mode::empty())
            .map_err(|errno| Error::kernel("open", root.proc.display().to_string(), errno))?;
        Ok(Self {
            proc,
            kernel: Kernel::read(&root.proc),
            node: super::host::name(),
            node_reader: node::NodeReader::default(),
            budget: FdBudget::raise_limit(),
            buffer: Buffer::default(),
            processes: Listing::default(),
            threads: Listing::default(),
            known: HashMap::new(),
            round: 0,
            texts: TextCache::new(root.proc.clone()),
            tcp: None,
            hidden: hidepid::hidden(&root.proc),
            delay: super::host::accounting_delay(),
            processors: std::thread::available_parallelism().map_or(1, |it| it.get() as u64),
            root,
        })
    }

    /// Counts TCP too, from a dump of all sockets.
    pub fn with_tcp(mut self) -> Result<Self, Error> {
        self.tcp = Some(InetDiag::open(self.root.proc.clone())?);
        Ok(self)
    }

    /// Limits the number of open descriptors, for tests.
    pub fn keep(mut self, descriptors: usize) -> Self {
        self.budget = FdBudget::with_limit(descriptors);
        self
    }

    fn read_processes(
        &mut self,
        want: &ReadSpec,
        notes: &mut Vec<Note>,
    ) -> Result<Vec<Process>, Error> {
        let pids = match &want.pids {
            Some(pids) => sorted(pids),
            None => self.listed()?,
        };
        self.round += 1;
        let mut pass = ReadPass {
            proc: self.proc.as_fd(),
            kernel: self.kernel,
            want,
            budget: &self.budget,
            buffer: &mut self.buffer,
            listing: &mut self.threads,
            errors: read_errors::ReadErrors::default(),
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
        notes.extend(pass.errors.notes());
        self.forget(want, &processes);
        Ok(processes)
    }

    /// The error of a reading that began then and ends now. The time of a thread that ended unseen
    /// is known to two ticks of `/proc` only; the errors of all such processes are shared by the
    /// processors.
    fn time_error(&self, began: Ns) -> Ns {
        let round = self.round;
        let is_late = |it: &&PidEntry| it.round == round && it.is_rounded && it.has_run;
        let late = self.known.values().filter(is_late).count() as u64;
        let rounded = 2 * self.kernel.tick_ns * late / self.processors;
        Ns(clock::boot().since(began).0 + self.delay.0 + rounded)
    }

    fn read_tcp(&mut self, sample: &mut Sample) {
        let Some(tcp) = &mut self.tcp else { return };
        match tcp.merge_into(&mut sample.processes, sample.at.boot) {
            Ok(note) => sample.notes.extend(note),
            Err(error) => {
                let note = Note::remark(format!("no TCP counters: {error}"));
                sample.notes.push(note.about(NoteAbout::Capabilities(&[Capability::Tcp])));
            }
        }
    }

    fn listed(&mut self) -> Result<Vec<u32>, Error> {
        let listed = self.processes.read(self.proc.as_fd()).map_err(|errno| {
            Error::kernel("getdents64", self.root.proc.display().to_string(), errno)
        })?;
        Ok(listed.to_vec())
    }

    /// Removes processes missing from the reading: all that ended, if all were requested.
    fn forget(&mut self, want: &ReadSpec, processes: &[Process]) {
        let readings = if want.pids.is_none() { 0 } else { CACHED_READINGS };
        let oldest = self.round.saturating_sub(readings);
        self.known.retain(|_, entry| entry.round >= oldest);
        if want.pids.is_none() {
            self.texts.keep_only(processes);
        }
    }

    /// Notes on the backend itself.
    fn own_notes(&self, want: &ReadSpec) -> Vec<Note> {
        let mut notes: Vec<Note> = self.hidden.iter().map(hidepid::note).collect();
        if want.pids.is_none() {
            let note = Note::remark(format!("{SHORT_LIVED}: /proc lists only live processes"));
            notes.push(note.about(NoteAbout::Processes));
        }
        if !self.kernel.schedstat {
            let text = "no run_delay_ns and run_count: this kernel lacks CONFIG_SCHED_INFO";
            let about = NoteAbout::Fields(&[ProcessField::RunDelay, ProcessField::RunCount]);
            notes.push(Note::remark(text).about(about));
        }
        if !self.kernel.io {
            let text = "no I/O counters: this kernel lacks CONFIG_TASK_IO_ACCOUNTING";
            notes.push(Note::remark(text).about(NoteAbout::Fields(&ProcessField::IO)));
        }
        if want.pids.is_some() {
            notes.retain(|note| !note.partial);
        }
        notes
    }
}

impl Backend for Procfs {
    fn kind(&self) -> BackendKind {
        BackendKind::Procfs
    }

    fn probes(&mut self) -> Vec<Probe> {
        let probe = |&it: &Capability| match it {
            Capability::Tcp if self.tcp.is_some() => health::tcp(),
            _ => health::probe(it),
        };
        Capability::ALL.iter().map(probe).collect()
    }

    fn read(&mut self, want: &ReadSpec) -> Result<Sample, Error> {
        let mut sample = Sample {
            at: clock::now(),
            backend: BackendKind::Procfs,
            node: Arc::clone(&self.node),
            all_visible: want.all_processes(),
            ..Sample::default()
        };
        if want.processes {
            sample.notes = self.own_notes(want);
            sample.hidden.extend(self.hidden.clone());
            sample.processes = self.read_processes(want, &mut sample.notes)?;
            sample.time_error = self.time_error(sample.at.boot);
            self.read_tcp(&mut sample);
        }
        sample.node_stats = self.node_reader.read(&self.root, want, &mut sample.notes);
        Ok(sample)
    }

    /// The cost per process does not depend on their number.
    fn read_few(&mut self, pids: &[Pid]) -> Option<Result<Sample, Error>> {
        let pids = Some(pids.to_vec());
        Some(self.read(&ReadSpec { processes: true, pids, ..ReadSpec::default() }))
    }

    fn describe(&mut self, processes: &mut [Process], want: &ReadSpec) {
        for process in processes {
            let known = self.known.get(&process.id.pid.0);
            let generation = known.map_or(0, |entry| entry.generation);
            if want.wants(ProcessField::Cmdline) {
                process.text.cmdline = self.texts.cmdline(process.id, generation);
            }
            if want.wants(ProcessField::Cgroup) {
                // It may have moved, and there is no cgroup id to detect that.
                process.text.cgroup = self.texts.cgroup_now(process.id);
            }
            if want.wants(ProcessField::User) {
                process.text.user = self.texts.user(process);
            }
            if want.wants(ProcessField::Job) {
                let seen = SeenProcess { id: process.id, generation, cgroup_id: None };
                process.text.origin = self.texts.origin(seen);
            }
        }
    }
}

/// Room for most environments, bytes.
const USUAL_ENVIRON: usize = 16 << 10;

/// Start time of the process with this pid, in whole ticks as in `/proc`.
pub fn start_time(pid: Pid) -> Option<Ns> {
    let text = std::fs::read(format!("/proc/{}/stat", pid.0)).ok()?;
    let ticks = monitor_proc::stat::parse(&text).ok()?.start_ticks;
    Some(Ns(ticks.saturating_mul(clock::tick_ns())))
}

/// The real user id of the process with this pid.
pub fn real_uid(pid: Pid) -> Option<u32> {
    let text = std::fs::read(format!("/proc/{}/status", pid.0)).ok()?;
    u32::try_from(monitor_proc::status::parse(&text).ok()?.uid).ok()
}

/// The real user and group of the process with this pid, if they may read it (ptrace(2):
/// `PTRACE_MODE_READ`): a process that is not dumpable belongs to root (proc(5)).
pub fn owner(pid: Pid) -> Option<Credentials> {
    let folder = std::fs::metadata(format!("/proc/{}", pid.0)).ok()?;
    let text = std::fs::read(format!("/proc/{}/status", pid.0)).ok()?;
    let status = monitor_proc::status::parse(&text).ok()?;
    let id = |id: u64| u32::try_from(id).ok();
    let user = Credentials { uid: id(status.uid)?, gid: id(status.gid)? };
    (folder.uid() == user.uid && folder.gid() == user.gid).then_some(user)
}

/// The process that traces the first thread of the process with this pid (proc_pid_status(5)), if
/// one does.
pub fn tracer(pid: Pid) -> Option<Pid> {
    let thread = status_number(pid, "TracerPid:").filter(|thread| *thread != 0)?;
    // A thread traces, not its process. It may have ended.
    Some(Pid(status_number(Pid(thread), "Tgid:").unwrap_or(thread)))
}

/// The number in a row of `/proc/<pid>/status`.
fn status_number(pid: Pid, row: &str) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{}/status", pid.0)).ok()?;
    text.lines().find_map(|line| line.strip_prefix(row))?.trim().parse().ok()
}

/// The path of the file that the process with this pid executes, without what the kernel appends if
/// the file was removed. None if the process has ended, or the caller may not read it (proc(5):
/// `PTRACE_MODE_READ`).
pub fn executable(pid: Pid) -> Option<Arc<str>> {
    const REMOVED: &str = " (deleted)";
    let path = std::fs::read_link(format!("/proc/{}/exe", pid.0)).ok()?;
    let path = path.to_string_lossy();
    Some(path.strip_suffix(REMOVED).unwrap_or(&path).into())
}

/// The job variables in the environment of the process with this pid. None if it has ended, or the
/// caller may not read it.
pub fn environ(pid: Pid) -> Option<Environ> {
    let file = std::fs::File::open(format!("/proc/{}/environ", pid.0)).ok()?;
    // The file has no length: without room, it is read in pieces from 32 bytes on.
    let mut bytes = Vec::with_capacity(USUAL_ENVIRON);
    let _length = file.take(LONGEST_ENVIRON as u64).read_to_end(&mut bytes).ok()?;
    Some(job_origin::environ(bytes))
}

/// The arguments of a process, starting with argument 0; none for a kernel thread.
pub fn arguments(pid: Pid) -> Option<Vec<Vec<u8>>> {
    arguments_within(pid, u64::MAX)
}

/// The first of its arguments, of at most [`text::LONGEST_CMDLINE`] bytes: a process chooses how
/// many it has, and where the kernel reads them.
pub fn first_arguments(pid: Pid) -> Option<Vec<Vec<u8>>> {
    arguments_within(pid, text::LONGEST_CMDLINE as u64)
}

fn arguments_within(pid: Pid, most: u64) -> Option<Vec<Vec<u8>>> {
    let file = std::fs::File::open(format!("/proc/{}/cmdline", pid.0)).ok()?;
    let mut text = Vec::new();
    let _length = file.take(most).read_to_end(&mut text).ok()?;
    let text = text.strip_suffix(&[0]).unwrap_or(&text);
    Some(text.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect())
}

/// Every pid once, in ascending order.
fn sorted(pids: &[Pid]) -> Vec<u32> {
    let mut pids: Vec<u32> = pids.iter().map(|pid| pid.0).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}
