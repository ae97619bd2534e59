//! Whose parent is whose by number, and what the kernel adds to a parent for its children.
//!
//! In: processes as they are seen. Out: the process that a parent's number means. A number is
//! reused, so a parent must be older than its child.

use crate::model::field::ProcessField;
use crate::model::id::{Identity, Pid};
use crate::model::sample::Process;
use std::collections::HashMap;

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

/// Processes by their number.
#[derive(Debug, Default)]
pub struct Kin {
    pids: HashMap<Pid, Identity>,
}

impl Kin {
    /// A process that is there; a younger one has its number now.
    pub fn see(&mut self, id: Identity) {
        let held = self.pids.entry(id.pid).or_insert(id);
        *held = (*held).max(id);
    }

    /// A process that is gone, unless its number passed on.
    pub fn forget(&mut self, id: Identity) {
        if self.pids.get(&id.pid) == Some(&id) {
            self.pids.remove(&id.pid);
        }
    }

    /// The parent of a process: of an ended one, who waited for it.
    pub fn parent(&self, process: &Process) -> Option<Identity> {
        self.older(parent_pid(process)?, process.id)
    }

    /// Who has that number, if it is old enough to be the parent.
    pub fn older(&self, parent: Pid, child: Identity) -> Option<Identity> {
        self.pids.get(&parent).copied().filter(|parent| parent.start <= child.start)
    }
}

/// The number of the parent.
pub fn parent_pid(process: &Process) -> Option<Pid> {
    process.row.get(ProcessField::Ppid).and_then(|it| u32::try_from(it).ok()).map(Pid)
}
