//! A sample: what one backend read at one instant. Pure data, filled by the backends.

use super::{
    BlockRow, Capability, CpuRow, DiskRow, FieldValue, HiddenProcess, Identity, Latencies, NetRow,
    NodeRow, Ns, Origin, ProcessField, ProcessRow, Rank, SampleEvent, ValueKind,
};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

/// The backend that read a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendKind {
    /// The task iterator and BPF maps.
    Ebpf,
    /// Files of `/proc`.
    Procfs,
    /// Fixed values, for tests of higher layers.
    #[default]
    Test,
    /// No working backend; every reading fails.
    Unsupported,
}

impl BackendKind {
    /// The backend with this name; `Unsupported` for an unknown name.
    pub fn from_name(name: &str) -> Self {
        const ALL: [BackendKind; 3] = [BackendKind::Ebpf, BackendKind::Procfs, BackendKind::Test];
        ALL.into_iter().find(|it| it.name() == name).unwrap_or(Self::Unsupported)
    }

    /// Name in `--backend` and in every output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ebpf => "ebpf",
            Self::Procfs => "procfs",
            Self::Test => "test",
            Self::Unsupported => "unsupported",
        }
    }
}

/// When a sample was taken, on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instant {
    /// `CLOCK_BOOTTIME`: for intervals and start times.
    pub boot: Ns,
    /// `CLOCK_REALTIME`: for display.
    pub unix: Ns,
}

/// Everything that was requested, at one instant.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Time of the reading.
    pub at: Instant,
    /// How far the times of counters may be from [`Self::at`]: the reading takes a time, and the
    /// kernel counts a running thread at each tick. Zero if the backend does not know it.
    pub time_error: Ns,
    /// The backend that read it.
    pub backend: BackendKind,
    /// Whether a daemon read it and relayed it.
    pub relayed: bool,
    /// Name of the node.
    pub node: Arc<str>,
    /// Number of the node in the cluster; 0 without a cluster.
    pub node_number: u32,
    /// Processes, in the order of their identities, including those ended since the last sample.
    pub processes: Vec<Process>,
    /// Whether these are all processes that its reader may see, not a selection.
    pub all_visible: bool,
    /// Ended processes whose final record has not arrived yet: the kernel frees a process some
    /// milliseconds after its parent has waited for it. Where the exit was seen, `processes` has
    /// their rows, with the totals at the exit.
    pub dying: Vec<ProcessParent>,
    /// The node itself, if requested.
    pub node_stats: Option<Node>,
    /// Events since the last sample, if a capability that records events is enabled.
    pub events: Vec<SampleEvent>,
    /// Names of processes that occur in events, as relayed by a daemon.
    pub names: BTreeMap<Identity, Arc<str>>,
    /// Histograms of all requested processes together, since they were first requested.
    pub latencies: Latencies,
    /// What is missing and why, one sentence each.
    pub notes: Vec<Note>,
    /// Processes hidden from the backend.
    pub hidden: Vec<HiddenProcess>,
    /// What each BPF object dropped since it was loaded.
    pub lost: Vec<ProgramLoss>,
}

impl Sample {
    /// Sets the time on `CLOCK_BOOTTIME`, and shifts the times of events accordingly.
    pub fn set_boot(&mut self, boot: Ns) {
        let before = std::mem::replace(&mut self.at.boot, boot);
        for event in &mut self.events {
            event.at = boot.since(before.since(event.at));
        }
    }

    /// Name of a process, if known.
    pub fn name_of(&self, id: Identity) -> Option<Cow<'_, str>> {
        if let Some(name) = self.names.get(&id) {
            return Some(Cow::Borrowed(name));
        }
        let index = self.processes.binary_search_by_key(&id, |process| process.id).ok()?;
        Some(self.processes[index].comm())
    }
}

/// A process, or one of its threads.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Identity.
    pub id: Identity,
    /// The process that forked it, if the fork was seen; unchanged when the parent ends.
    pub parent: Option<Identity>,
    /// Its fields.
    pub row: ProcessRow,
    /// Command name, NUL-padded, any bytes.
    pub comm: [u8; 16],
    /// Texts that need an extra look-up; filled for the rows that are displayed.
    pub text: ProcessTexts,
    /// Whether its real user and group may read it (`PTRACE_MODE_READ`): real, effective and saved
    /// ids are equal, it has no further capabilities, and it is dumpable. Not set for root's.
    pub readable_by_owner: bool,
    /// Whether its first thread is exiting or has exited (`PF_EXITING`). Not set by `/proc`.
    pub exiting: bool,
    /// Its threads, if requested.
    pub threads: Vec<Process>,
    /// Its transfers on each disk, in the order of device numbers (`--disk`).
    pub disks: Vec<Device<BlockRow>>,
    /// Time on each processor that it ran on, by number (`--exact-cpu`).
    pub on_cpus: Vec<(u32, Ns)>,
    /// Latencies of its block requests and waits for a CPU, where counted.
    pub latencies: Latencies,
}

/// A process and its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessParent {
    /// The process.
    pub id: Identity,
    /// The process that forked it, if the fork was seen.
    pub parent: Option<Identity>,
}

/// Texts of a process.
#[derive(Clone, Debug, Default)]
pub struct ProcessTexts {
    /// Arguments, joined by spaces.
    pub cmdline: Option<Arc<str>>,
    /// Path of the last executed file.
    pub path: Option<Arc<str>>,
    /// Path of its cgroup: in the unified hierarchy, or in the one that names its container.
    pub cgroup: Option<Arc<str>>,
    /// Name of the real user.
    pub user: Option<Arc<str>>,
    /// Job, as determined by `monitor_sampling::job`.
    pub job: Option<Arc<str>>,
    /// Rank in a parallel job, as determined by `monitor_sampling::job`.
    pub rank: Option<Arc<Rank>>,
    /// Control groups and variables that its job is determined from.
    pub origin: Option<Arc<Origin>>,
}

impl Process {
    /// The command name as text; bytes that are not UTF-8 are replaced.
    pub fn comm(&self) -> Cow<'_, str> {
        let end = self.comm.iter().position(|&byte| byte == 0).unwrap_or(self.comm.len());
        String::from_utf8_lossy(&self.comm[..end])
    }

    /// Records that probes began to count at `since`, if the process is older.
    pub fn count_from(&mut self, since: Ns) {
        if self.id.start < since {
            self.row.set(ProcessField::CountedSince, since.0);
        }
    }

    /// Whether it has ended.
    pub fn ended(&self) -> bool {
        self.row.get(ProcessField::Ended) == Some(1)
    }

    /// Whether it is a zombie whose threads have all ended and left their processors: its counters
    /// are final, and its parent has not waited for it. It is in every sample until the parent has.
    pub fn is_zombie(&self) -> bool {
        let threads = self.row.get(ProcessField::Threads).unwrap_or(1);
        self.row.get(ProcessField::State) == Some(u64::from(b'Z')) && threads <= 1 && !self.ended()
    }

    /// Whether a signal or a tracer has stopped its first thread.
    pub fn is_stopped(&self) -> bool {
        matches!(self.row.get(ProcessField::State).map(u8::try_from), Some(Ok(b'T' | b't')))
    }

    /// Makes the row of a zombie the last one of its process.
    pub fn end_zombie(&mut self) {
        if self.is_zombie() {
            self.row.set(ProcessField::Ended, 1);
            self.row.clear(ProcessField::Threads);
        }
    }

    /// Any field: a number from the row, or a text. The command name has its own function,
    /// because its bytes may need replacing.
    pub fn value(&self, field: ProcessField) -> Option<FieldValue<'_>> {
        use super::field::Category;
        if field.field().kind != ValueKind::Text {
            return self.row.value(field);
        }
        let text = match field {
            ProcessField::Cmdline => &self.text.cmdline,
            ProcessField::Path => &self.text.path,
            ProcessField::Cgroup => &self.text.cgroup,
            ProcessField::User => &self.text.user,
            ProcessField::Job => &self.text.job,
            _ => return None,
        };
        text.as_deref().map(FieldValue::Text)
    }
}

/// The node, its processors, disks and interfaces.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Its fields.
    pub row: NodeRow,
    /// Processors on line, by number.
    pub cpus: Vec<(u32, CpuRow)>,
    /// Disks and partitions.
    pub disks: Vec<Device<DiskRow>>,
    /// Interfaces.
    pub nets: Vec<Device<NetRow>>,
}

/// A named device.
#[derive(Clone, Debug, Default)]
pub struct Device<R> {
    /// Its name.
    pub name: Arc<str>,
    /// Its fields.
    pub row: R,
}

/// A note on a sample: what is missing or inexact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// One sentence: what is missing and why.
    pub text: String,
    /// Whether the answer is partial because of it (exit code 4).
    pub partial: bool,
    /// What it concerns: a request for anything else does not get it.
    pub about: NoteAbout,
}

/// What a note concerns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoteAbout {
    /// Any request.
    #[default]
    Anything,
    /// Requests for processes.
    Processes,
    /// Requests for one of these fields of processes, or for a rate of one.
    Fields(&'static [ProcessField]),
    /// Requests that need one of these capabilities.
    Capabilities(&'static [Capability]),
}

impl Note {
    /// A remark; the sample is complete.
    pub fn remark(text: impl Into<String>) -> Self {
        Self { text: text.into(), partial: false, about: NoteAbout::Anything }
    }

    /// Something requested is missing.
    pub fn missing(text: impl Into<String>) -> Self {
        Self { text: text.into(), partial: true, about: NoteAbout::Anything }
    }

    /// The same, about this.
    pub fn about(self, about: NoteAbout) -> Self {
        Self { about, ..self }
    }
}

/// What one BPF object dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramLoss {
    /// The object.
    pub program: Cow<'static, str>,
    /// Records that found the ring buffer full.
    pub ring_full: u64,
    /// New keys that found a table full.
    pub table_full: u64,
}

impl ProgramLoss {
    /// Whether nothing was dropped.
    pub const fn is_none(&self) -> bool {
        self.ring_full == 0 && self.table_full == 0
    }

    /// What was dropped since an earlier sample, by the objects that dropped something.
    pub fn since(now: &[Self], before: &[Self]) -> Vec<Self> {
        let grown = now.iter().map(|loss| {
            let old = before.iter().find(|old| old.program == loss.program);
            let [ring_full, table_full] = old.map_or([0; 2], |old| [old.ring_full, old.table_full]);
            Self {
                program: loss.program.clone(),
                ring_full: loss.ring_full.saturating_sub(ring_full),
                table_full: loss.table_full.saturating_sub(table_full),
            }
        });
        grown.filter(|it| !it.is_none()).collect()
    }
}
