//! Parents by process id, and the counters that the kernel adds to a parent for its children.
//!
//! In: the identities of processes. Out: the process that a parent's process id means. A process id
//! is reused, so a parent must be older than its child.

use monitor_model::{Identity, Ns, Pid, Process, ProcessField};
use std::collections::BTreeSet;

/// The kernel adds these counters of a child to the process that waits for it (`wait_task_zombie`
/// of kernel/exit.c), so they must not be added again.
pub const WAITED_FOR: [ProcessField; 7] = [
    ProcessField::ReadBytes,
    ProcessField::WrittenBytes,
    ProcessField::CancelledBytes,
    ProcessField::ReadCalls,
    ProcessField::WriteCalls,
    ProcessField::ReadChars,
    ProcessField::WrittenChars,
];

/// How long after a process is missing its exit record may arrive: the substitute for a lost record
/// is reported after a second.
pub const FINAL_RECORD_TIMEOUT: Ns = Ns(2_000_000_000);

/// Processes by process id and start time.
#[derive(Debug, Default)]
pub struct ParentIndex {
    ids: BTreeSet<Identity>,
}

impl ParentIndex {
    /// Adds a process.
    pub fn insert(&mut self, id: Identity) {
        self.ids.insert(id);
    }

    /// Removes a process.
    pub fn remove(&mut self, id: Identity) {
        self.ids.remove(&id);
    }

    /// The parent of a process; of an ended one, the process that waited for it.
    pub fn parent(&self, process: &Process) -> Option<Identity> {
        self.parent_with_pid(parent_pid(process)?, process.id)
    }

    /// The process that had this process id when the child started.
    pub fn parent_with_pid(&self, parent: Pid, child: Identity) -> Option<Identity> {
        let first = Identity { pid: parent, start: Ns(0) };
        let last = Identity { pid: parent, start: child.start };
        self.ids.range(first..=last).next_back().copied()
    }
}

/// The process id of the parent.
pub fn parent_pid(process: &Process) -> Option<Pid> {
    process.row.get(ProcessField::Ppid).and_then(|it| u32::try_from(it).ok()).map(Pid)
}
