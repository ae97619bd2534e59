//! A node as services see it: its processes, facts, files, disks, message queues, static probes and
//! flight recorder.
//!
//! A trait for each, with the data that it returns.

use monitor_control::{QueueAnswer, QueueQuery};
use monitor_event::outcome::{ProcessResults, Refusal};
use monitor_event::right::Tool;
use monitor_event::thread::{Target, Ticket};
use monitor_jobs::Runtime;
use monitor_jobs::job_log::EndStatus;
use monitor_model::environment::EnvironmentValue;
use monitor_model::{Credentials, DiagOrigin, Identity, Ns, Pid, Process};
use monitor_symbols::diag_probes::DiagProbe;
use monitor_sys::extents::Extent;
use std::{collections::BTreeSet, path::Path, sync::Arc, task::Poll};

/// Reads processes.
pub trait Processes {
    /// These, ascending by pid; those that do not exist are left out.
    fn read_processes(&mut self, pids: &[Pid]) -> Result<Vec<Process>, Refusal>;

    /// All of them.
    fn all_processes(&mut self) -> Result<Vec<Process>, Refusal>;

    /// Whether the environment of a process makes it a rank of a parallel job. Reads nothing else.
    fn is_rank(&self, id: Identity) -> bool;

    /// The runtime of a launcher of jobs that a process executes, and the user, besides root, that
    /// may read it; nothing, if it executes no launcher.
    fn launcher(&self, id: Identity) -> Option<(Runtime, Option<Credentials>)>;

    /// Keeps from now on how these processes end, and no others; returns what is known of
    /// them. Empty where the system does not keep that after they were waited for.
    fn keep_exits(&mut self, of: &[Identity]) -> Vec<(Identity, EndStatus)>;

    /// All of them, with their jobs, ranks and origins; also those that have ended since the
    /// previous reading, where the backend reports them.
    ///
    /// # Errors
    /// If they cannot be read.
    fn ranked_processes(&mut self) -> Result<Vec<Process>, Refusal>;

    /// A process that has begun a program, with its rank and origin; nothing, if it has ended.
    fn ranked_process(&mut self, id: Identity) -> Option<Process>;

    /// The path of the file that a process executes; nothing, if it cannot be read.
    fn executable(&self, id: Identity) -> Option<Arc<str>>;

    /// The process that traces the first thread of a process, if one does.
    fn tracer(&self, id: Identity) -> Option<Pid>;

    /// Fills in command lines, cgroups and paths.
    fn describe(&mut self, processes: &mut [Process]);

    /// The thread with this id, and its process; nothing, if the thread has ended.
    fn find_thread(&mut self, tid: Pid) -> Option<Target>;

    /// Its arguments, the name first; nothing, if it has ended or has none.
    fn arguments(&mut self, id: Identity) -> Option<Vec<Vec<u8>>>;
}

/// A node; what could not be read is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeFacts {
    /// Its architecture, as the system calls it.
    pub architecture: String,
    /// Processors on line.
    pub cpus: Option<u64>,
    /// Memory that can be had, in bytes.
    pub avail_memory: Option<u64>,
    /// Disk space that can be had where temporary files go, in bytes.
    pub avail_disk: Option<u64>,
    /// Speed of a processor, in MHz.
    pub cpu_speed: Option<u64>,
}

/// Reads facts about the node.
pub trait NodeInfo {
    /// What is known of it now.
    fn node_facts(&mut self) -> Result<NodeFacts, Refusal>;

    /// What its hardware and its kernel report of faults and limits. While that is being read, the
    /// call is to be made again after `FilesRead`.
    fn read_environment(&mut self) -> Poll<Vec<EnvironmentValue>>;
}

/// The layout of a file on its disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileLayout {
    /// The file, as its process sees it.
    pub path: Vec<u8>,
    /// The numbers of the device: `8:1`.
    pub device: String,
    /// How long it is.
    pub size: u64,
    /// Its pieces.
    pub extents: Vec<Extent>,
    /// Whether there are more of them.
    pub is_truncated: bool,
}

/// The space of a file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSystemSpace {
    /// Where it is mounted.
    pub path: String,
    /// What it is mounted from.
    pub source: String,
    /// Bytes.
    pub size: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Bytes that users may still have.
    pub avail: u64,
    /// Files that there can be.
    pub files: u64,
    /// Files that there can still be.
    pub files_free: u64,
}

/// Files and disks.
pub trait Disks {
    /// The layout of the file behind a descriptor of a process.
    fn file_layout(&mut self, id: Identity, descriptor: u32) -> Result<FileLayout, Refusal>;

    /// The space of each file system that is mounted from a device.
    fn file_systems(&mut self) -> Result<Vec<FileSystemSpace>, Refusal>;
}

/// The message queues of processes.
pub trait MessageQueues {
    /// Reads or changes the queue of a process. Pending while it is read;
    /// `PlatformEvent::FilesRead` comes then.
    fn queue(&mut self, id: Identity, query: &QueueQuery) -> Poll<Result<QueueAnswer, Refusal>>;
}

/// A static probe of a process, and its hits since the last call.
pub type DiagProbeCount = (Identity, Arc<DiagProbe>, u64);

/// Counts hits of static probes.
pub trait DiagProbes {
    /// Which job and rank a process is.
    fn diag_origin(&mut self, id: Identity) -> DiagOrigin {
        DiagOrigin::process(id.pid)
    }

    /// Whether the static probes of a process can be counted here. Pending while its files are
    /// read; `PlatformEvent::FilesRead` comes then.
    fn check_diag_probes(&mut self, _: Identity) -> Poll<Result<(), Refusal>> {
        Poll::Ready(Ok(()))
    }

    /// From now on the static probes of these are counted, and of no others.
    fn count_diag_probes(&mut self, _: &BTreeSet<Identity>) {}

    /// The hits since the last call, also of processes that have ended and are still counted.
    fn take_diag_counts(&mut self) -> Vec<DiagProbeCount> {
        Vec::new()
    }

    /// A time of `CLOCK_BOOTTIME` as one since 1970.
    fn unix_time(&self, at: Ns) -> Ns {
        at
    }
}

/// The flight recorder.
pub trait Recorder {
    /// Begins to write the last so much time into a file, with the rights of the tool's user; all
    /// that was kept, if nothing is said. What becomes of it is said at once, or later with the
    /// ticket: the name of the file, since a folder gets a new one each time.
    fn save_recording(
        &mut self,
        ticket: Ticket,
        tool: &Tool,
        wanted: (&Path, Option<Ns>),
    ) -> Result<Option<ProcessResults>, Refusal>;
}
