//! Whose parent is whose by number, and what the kernel adds to a parent for its children.
//!
//! In: processes as they are seen. Out: the process that a parent's number means. A number is
//! reused, so a parent must be older than its child.

use monitor_model::field::ProcessField;
use monitor_model::id::{Identity, Ns, Pid};
use monitor_model::sample::Process;
use std::collections::BTreeSet;

/// The kernel adds these of a child to whoever waited for it (`wait_task_zombie` of
/// kernel/exit.c), so they must not be added again.
pub const WAITED_FOR: [ProcessField; 7] = [
    ProcessField::ReadBytes,
    ProcessField::WrittenBytes,
    ProcessField::CancelledBytes,
    ProcessField::ReadCalls,
    ProcessField::WriteCalls,
    ProcessField::ReadChars,
    ProcessField::WrittenChars,
];

/// How long after a process was first missed its final record may come: what stands in for a lost
/// one is told after a second.
pub const FINAL_RECORD_WITHIN: Ns = Ns(2_000_000_000);

/// Processes by their number, those of one number by their start.
#[derive(Debug, Default)]
pub struct Kin {
    ids: BTreeSet<Identity>,
}

impl Kin {
    /// A process that is there.
    pub fn see(&mut self, id: Identity) {
        self.ids.insert(id);
    }

    /// A process that nobody will ask for any more.
    pub fn forget(&mut self, id: Identity) {
        self.ids.remove(&id);
    }

    /// The parent of a process: of an ended one, who waited for it.
    pub fn parent(&self, process: &Process) -> Option<Identity> {
        self.older(parent_pid(process)?, process.id)
    }

    /// The last who had that number as the child was born.
    pub fn older(&self, parent: Pid, child: Identity) -> Option<Identity> {
        let first = Identity { pid: parent, start: Ns(0) };
        let last = Identity { pid: parent, start: child.start };
        self.ids.range(first..=last).next_back().copied()
    }
}

/// The number of the parent.
pub fn parent_pid(process: &Process) -> Option<Pid> {
    process.row.get(ProcessField::Ppid).and_then(|it| u32::try_from(it).ok()).map(Pid)
}
