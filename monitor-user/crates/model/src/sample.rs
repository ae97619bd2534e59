//! A sample: what one backend read at one instant.

use super::event::Event;
use super::field::block::BlockRow;
use super::field::disk::DiskRow;
use super::field::net::NetRow;
use super::field::node::{CpuRow, NodeRow};
use super::field::process::ProcessRow;
use super::field::{Kind, ProcessField, Value};
use super::histogram::Latencies;
use super::id::{Identity, Ns};
use super::job::{Origin, Rank};
use super::unseen::Unseen;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Which backend read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// The task iterator and BPF maps.
    Ebpf,
    /// Files of `/proc`.
    Procfs,
    /// Fixed values, for tests of what lies above.
    #[default]
    Test,
    /// None that works; it answers with an error only.
    Unsupported,
}

impl Source {
    /// The one of that name; none that works, if there is no such name.
    pub fn named(name: &str) -> Self {
        const ALL: [Source; 3] = [Source::Ebpf, Source::Procfs, Source::Test];
        ALL.into_iter().find(|it| it.name() == name).unwrap_or(Self::Unsupported)
    }

    /// Its name in `--backend` and in every output.
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
    /// `CLOCK_BOOTTIME`: what intervals and start times are measured on.
    pub boot: Ns,
    /// `CLOCK_REALTIME`: what people read.
    pub unix: Ns,
}

/// Everything that was asked for, at one instant.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// When.
    pub at: Instant,
    /// By whom.
    pub source: Source,
    /// Whether a daemon read it for us.
    pub relayed: bool,
    /// Name of the node.
    pub node: Arc<str>,
    /// Its number among others; a node alone is node 0.
    pub node_number: u32,
    /// Processes, in the order of their identities; ended ones (since the last sample) among them.
    pub processes: Vec<Process>,
    /// Processes that have ended and whose final record has not arrived yet: the kernel frees a
    /// process some milliseconds after its parent has waited for it.
    pub dying: Vec<Birth>,
    /// The node itself, if asked for.
    pub node_stats: Option<Node>,
    /// What happened since the last sample, if a capability that tells of events was asked for.
    pub events: Vec<Event>,
    /// Names of processes that events speak of, as a daemon told them.
    pub names: BTreeMap<Identity, Arc<str>>,
    /// The histograms of all processes that were asked for, since somebody asked for them.
    pub latencies: Latencies,
    /// What is missing, and why: one sentence each.
    pub notes: Vec<Note>,
    /// Processes that whoever read cannot see.
    pub unseen: Vec<Unseen>,
    /// What each BPF program had to drop since it was loaded.
    pub lost: Vec<Lost>,
}

impl Sample {
    /// Says what the time of it, and of what happened before it, was on `CLOCK_BOOTTIME`.
    pub fn set_boot(&mut self, boot: Ns) {
        let before = std::mem::replace(&mut self.at.boot, boot);
        for event in &mut self.events {
            event.at = boot.since(before.since(event.at));
        }
    }

    /// The name of a process, if it is known.
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
    /// Which.
    pub id: Identity,
    /// Who made it, if that was seen; a parent that has ended does not change it.
    pub parent: Option<Identity>,
    /// Its numbers.
    pub row: ProcessRow,
    /// Command name, NUL-padded, any bytes.
    pub comm: [u8; 16],
    /// Texts that cost a look-up of their own; filled for the rows that are shown.
    pub text: Text,
    /// Whether it acts with no rights but those of its user and group, so that they may look into
    /// it: real, effective and saved ids are one, and it may be dumped (`PTRACE_MODE_READ`). Not
    /// told of root's.
    pub unlent: bool,
    /// Its threads, if asked for.
    pub threads: Vec<Process>,
    /// What it transferred on each disk, in the order of device numbers (`--disk`).
    pub disks: Vec<Device<BlockRow>>,
    /// Time on each processor that it was seen on, by number (`--exact-cpu`).
    pub on_cpus: Vec<(u32, Ns)>,
    /// How long its block requests took and how long it waited for a CPU, where that was counted.
    pub latencies: Latencies,
}

/// Who made whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth {
    /// The process.
    pub id: Identity,
    /// Who made it, if that was seen.
    pub parent: Option<Identity>,
}

/// Texts of a process.
#[derive(Clone, Debug, Default)]
pub struct Text {
    /// Arguments, joined by spaces.
    pub cmdline: Option<Arc<str>>,
    /// The file executed last.
    pub path: Option<Arc<str>>,
    /// Path in the unified cgroup hierarchy.
    pub cgroup: Option<Arc<str>>,
    /// Name of the real user.
    pub user: Option<Arc<str>>,
    /// What it belongs to, as `meter/job` made it out.
    pub job: Option<Arc<str>>,
    /// Which rank of a parallel job it is, as `meter/job` made it out.
    pub rank: Option<Arc<Rank>>,
    /// What tells of its job.
    pub origin: Option<Arc<Origin>>,
}

impl Process {
    /// The command name as text; bytes that are not UTF-8 are replaced.
    pub fn comm(&self) -> std::borrow::Cow<'_, str> {
        let end = self.comm.iter().position(|&byte| byte == 0).unwrap_or(self.comm.len());
        String::from_utf8_lossy(&self.comm[..end])
    }

    /// Notes that what was counted beside the kernel's own accounting began later than it did.
    pub fn count_from(&mut self, since: Ns) {
        if self.id.start < since {
            self.row.set(ProcessField::CountedSince, since.0);
        }
    }

    /// Whether it has ended.
    pub fn ended(&self) -> bool {
        self.row.get(ProcessField::Ended) == Some(1)
    }

    /// Any field: a number from the row, or a text. The command name has its own function,
    /// because it may have to be repaired.
    pub fn value(&self, field: ProcessField) -> Option<Value<'_>> {
        use super::field::Category;
        if field.field().kind != Kind::Text {
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
        text.as_deref().map(Value::Text)
    }
}

/// The node, its processors, disks and interfaces; one level, always.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Its numbers.
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
    /// Its numbers.
    pub row: R,
}

/// Something that a reader of the sample must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// One sentence: what is missing and why.
    pub text: String,
    /// Whether the answer is partial because of it (exit code 4).
    pub partial: bool,
}

impl Note {
    /// Something worth saying; the answer is whole.
    pub fn remark(text: impl Into<String>) -> Self {
        Self { text: text.into(), partial: false }
    }

    /// Something asked for is missing.
    pub fn missing(text: impl Into<String>) -> Self {
        Self { text: text.into(), partial: true }
    }
}

/// What one BPF object dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The object.
    pub program: std::borrow::Cow<'static, str>,
    /// Records that found the ring buffer full.
    pub ring_full: u64,
    /// New keys that found a table full.
    pub table_full: u64,
}
