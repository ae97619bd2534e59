//! Owners of table rows, and when rows can be removed.
//!
//! In: the owners of all rows, and the processes of a sample. Out: the owners that are in no sample
//! any more. For those whose exit was not observed the sample gets a process, so that no count is
//! lost; such a process has no name. I/O that is done after the end of a process makes no process:
//! `late_usage.rs` counts it. Afterwards a row belongs to a live process, to an ended one (read and
//! remove), or is kept for the next sample.

use crate::decode;
use crate::object::{Object, Plain};
use monitor_ebpf::abi::Owner;
use monitor_model::{Identity, Ns, Process, Sample, field::ProcessField as F};
use std::collections::{HashMap, HashSet};

/// Maximum delay of an exit record: the kernel frees a task after an RCU grace period.
const GRACE: Ns = Ns(2_000_000_000);

/// Owners missing from the samples, and since when.
#[derive(Default)]
pub struct MissingOwners {
    missing: HashMap<Owner, Ns>,
}

impl MissingOwners {
    /// The rows of a table by owner. Adds processes for owners missing for too long, and removes
    /// the rows of ended processes from the table.
    pub fn rows<V: Plain>(
        &mut self,
        object: &mut Object,
        table: &str,
        sample: &mut Sample,
    ) -> HashMap<Owner, V> {
        let rows: HashMap<_, _> = object.rows::<Owner, V>(table).into_iter().collect();
        let processes = &mut sample.processes;
        self.add_missing(rows.keys().copied(), processes, sample.at.boot);
        let ended_owners = rows.keys().copied().filter(|owner| ended(processes, *owner));
        object.remove_rows::<Owner, V>(table, ended_owners);
        rows
    }

    /// Adds a process for each owner that has been missing for too long.
    pub fn add_missing(
        &mut self,
        owners: impl Iterator<Item = Owner>,
        processes: &mut Vec<Process>,
        now: Ns,
    ) {
        let mut gone: Vec<_> =
            self.gone(owners, processes, now).into_iter().map(nameless).collect();
        if !gone.is_empty() {
            processes.append(&mut gone);
            processes.sort_by_key(|process| process.id);
        }
    }

    /// The owners that have been missing for too long: their processes were in an earlier sample
    /// for the last time.
    pub fn gone(
        &mut self,
        owners: impl Iterator<Item = Owner>,
        processes: &[Process],
        now: Ns,
    ) -> HashSet<Owner> {
        let mut missing = HashMap::new();
        for owner in owners.filter(|owner| find(processes, *owner).is_none()) {
            let since = self.missing.get(&owner).copied().unwrap_or(now);
            let _known = missing.insert(owner, since);
        }
        self.missing = missing;
        let is_gone = |since: &Ns| now.since(*since) > GRACE;
        self.missing.iter().filter(|(_, since)| is_gone(since)).map(|(owner, _)| *owner).collect()
    }
}

/// The owner record of a process.
pub const fn from_process(process: &Process) -> Owner {
    from_identity(process.id)
}

/// The owner record of the process with this identity.
pub const fn from_identity(id: Identity) -> Owner {
    Owner { start_boottime_ns: id.start.0, tgid: id.pid.0, zero: 0 }
}

/// The process of an owner, in a list that is in the order of identities.
pub fn find(processes: &[Process], owner: Owner) -> Option<usize> {
    processes.binary_search_by_key(&decode::identity(owner), |process| process.id).ok()
}

/// Whether the process of an owner is in the list and has ended, so that its rows can be removed.
pub fn ended(processes: &[Process], owner: Owner) -> bool {
    find(processes, owner).is_some_and(|index| processes[index].ended())
}

fn nameless(owner: Owner) -> Process {
    let mut it = Process { id: decode::identity(owner), ..Process::default() };
    it.row.set(F::Pid, u64::from(owner.tgid));
    it.row.set(F::StartTime, owner.start_boottime_ns);
    it.row.set(F::Ended, 1);
    it
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = Owner { start_boottime_ns: 5, tgid: 7, zero: 0 };

    /// Adds missing owners at each of these times to an empty list; which are in it afterwards?
    #[track_caller]
    fn check(seconds: &[u64], wanted: &[u64]) {
        let mut owners = MissingOwners::default();
        let mut processes = Vec::new();
        for at in seconds {
            let twice = [OWNER, OWNER].into_iter();
            owners.add_missing(twice, &mut processes, Ns(at * 1_000_000_000));
        }
        let ended = processes.iter().filter(|it| it.ended());
        let pids: Vec<_> = ended.filter_map(|it| it.row.get(F::Pid)).collect();
        assert_eq!(pids, wanted);
    }

    #[test]
    fn an_owner_that_is_missing_waits_for_its_exit_record() {
        check(&[1], &[]);
        check(&[1, 2, 3], &[]);
    }

    #[test]
    fn one_that_stays_missing_becomes_one_ended_process() {
        check(&[1, 2, 3, 4], &[7]);
        check(&[1, 60], &[7]);
    }

    #[test]
    fn one_that_is_in_the_list_stays_as_it_is() {
        let mut owners = MissingOwners::default();
        let mut processes = vec![Process { id: decode::identity(OWNER), ..Process::default() }];
        for at in [0, 60] {
            owners.add_missing([OWNER].into_iter(), &mut processes, Ns(at * 1_000_000_000));
        }
        assert_eq!(processes.len(), 1);
        assert!(!processes[0].ended());
    }
}
