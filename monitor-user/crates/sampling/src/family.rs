//! A process and all its descendants, ended ones included, added up exactly once.
//!
//! In: samples, one after another, and who the ancestor is. Out: totals, totals by command name,
//! and who is still there. Membership follows who made whom, not who is whose parent now, so a
//! daemon that detached itself still belongs. Needs no clock and reads nothing.

use super::kin::{Kin, WAITED_FOR};
use monitor_model::field::process::ProcessRow;
use monitor_model::field::{Category, ProcessField, Role};
use monitor_model::histogram::Latencies;
use monitor_model::id::{Identity, Pid};
use monitor_model::sample::{Birth, Process};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Most members of a family: each is kept until the end, so that its children are known.
const MEMBERS: usize = 1 << 20;

/// A family: the root and everything it made.
pub struct Family {
    root: Pid,
    /// Everyone who ever belonged; the root's identity is known once it was seen.
    members: HashSet<Identity>,
    /// The same by process id, for those whose making was not seen.
    kin: Kin,
    /// The last record of those that have not ended.
    living: HashMap<Identity, Process>,
    /// What the ended used.
    ended: Used,
    /// Whether the root's final numbers have come, or it vanished.
    root_ended: bool,
    /// Members that have ended and whose final record is still to come.
    awaited: usize,
    /// Processes that were there and then were not, without a final record.
    lost: u64,
    /// Whether there were more than are kept.
    full: bool,
}

/// What a set of processes used.
#[derive(Clone, Debug, Default)]
pub struct Used {
    /// Counters added up; the peak resident size is the largest of any one process.
    pub row: ProcessRow,
    /// How long requests and waits took, all added up.
    pub latencies: Latencies,
    /// The same by command name, with how many processes had it.
    pub commands: BTreeMap<String, (u64, ProcessRow)>,
}

impl Used {
    fn add(&mut self, process: &Process, waited_inside: bool) {
        add_row(&mut self.row, process, waited_inside);
        self.latencies.merge(&process.latencies);
        let (count, row) = self.commands.entry(process.comm().into_owned()).or_default();
        *count += 1;
        add_row(row, process, waited_inside);
    }
}

fn add_row(sum: &mut ProcessRow, process: &Process, waited_inside: bool) {
    for field in ProcessField::all() {
        let Some(value) = process.row.get(field) else { continue };
        if field == ProcessField::PeakRss {
            sum.set(field, value.max(sum.get(field).unwrap_or(0)));
        } else if field.field().role == Role::Counter {
            let again = waited_inside && WAITED_FOR.contains(&field);
            sum.add(field, if again { 0 } else { value });
        }
    }
}

impl Family {
    /// The family of the process that has this id now.
    pub fn of(root: Pid) -> Self {
        Self {
            root,
            members: HashSet::new(),
            kin: Kin::default(),
            living: HashMap::new(),
            ended: Used::default(),
            root_ended: false,
            awaited: 0,
            lost: 0,
            full: false,
        }
    }

    /// The family of a process that is known.
    pub fn known(root: Identity) -> Self {
        let mut it = Self::of(root.pid);
        it.members.insert(root);
        it.kin.see(root);
        it
    }

    /// Takes in all processes of the node, and those whose final record is on its way.
    pub fn learn(&mut self, processes: &[Process], dying: &[Birth]) {
        self.adopt(processes);
        let mut before = std::mem::take(&mut self.living);
        for process in processes {
            if !self.members.contains(&process.id) {
                continue;
            }
            before.remove(&process.id);
            if process.ended() {
                self.close(process);
            } else {
                self.living.insert(process.id, process.clone());
            }
        }
        self.await_final(dying);
        // Their last numbers stand until the final ones arrive.
        self.living.extend(dying.iter().filter_map(|it| before.remove_entry(&it.id)));
        for process in before.into_values() {
            self.lost += 1;
            self.close(&process);
        }
    }

    /// Adds the last numbers of a member.
    fn close(&mut self, process: &Process) {
        let inside = self.waited_inside(process);
        self.ended.add(process, inside);
        self.root_ended |= process.id.pid == self.root;
    }

    /// Counts the members among those that have ended without a final record until now.
    fn await_final(&mut self, dying: &[Birth]) {
        let relatives = |it: &&Birth| {
            // A root that was never seen alive is nobody's child here.
            it.id.pid == self.root
                || self.members.contains(&it.id)
                || it.parent.is_some_and(|it| self.members.contains(&it))
        };
        self.awaited = dying.iter().filter(relatives).count();
    }

    /// Finds new members. A child may stand before its parent in the list, so this looks until
    /// nothing new is found.
    fn adopt(&mut self, processes: &[Process]) {
        let mut candidates: Vec<_> =
            processes.iter().filter(|it| !self.members.contains(&it.id)).collect();
        loop {
            let before = candidates.len();
            candidates.retain(|process| {
                let belongs = self.belongs(process);
                if belongs && self.members.len() >= MEMBERS {
                    self.full = true;
                } else if belongs {
                    self.members.insert(process.id);
                    self.kin.see(process.id);
                }
                !belongs
            });
            if candidates.len() == before {
                return;
            }
        }
    }

    fn belongs(&self, process: &Process) -> bool {
        if process.id.pid == self.root && self.members.is_empty() {
            return true;
        }
        match process.parent {
            Some(parent) => self.members.contains(&parent),
            None => self.kin.parent(process).is_some(),
        }
    }

    /// Whether what it used has been added to a member's own counters already.
    fn waited_inside(&self, process: &Process) -> bool {
        process.ended() && self.kin.parent(process).is_some()
    }

    /// Whether a process belongs or belonged.
    pub fn has(&self, id: Identity) -> bool {
        self.members.contains(&id)
    }

    /// How many processes belonged, the root included.
    pub fn started(&self) -> usize {
        self.members.len()
    }

    /// Members that had not ended at the last sample.
    pub fn living(&self) -> impl Iterator<Item = &Process> {
        self.living.values()
    }

    /// Whether the root's last numbers have come.
    pub const fn root_ended(&self) -> bool {
        self.root_ended
    }

    /// Members that have ended and whose final record is still to come.
    pub const fn awaited(&self) -> usize {
        self.awaited
    }

    /// Members that went away without a final record; their last numbers are in the totals.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether there were more descendants than are kept, who are not in the totals.
    pub const fn full(&self) -> bool {
        self.full
    }

    /// Whether nothing more will be known of the root than is known now: its last numbers are
    /// there, and those of all that ended, or it has not ended.
    pub fn settled(&self) -> bool {
        self.awaited == 0 && (self.root_ended || self.living.keys().any(|it| it.pid == self.root))
    }

    /// What all of them used until now.
    pub fn used(&self) -> Used {
        let mut used = self.ended.clone();
        for process in self.living.values() {
            used.add(process, false);
        }
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::id::Ns;

    fn id(pid: u32) -> Identity {
        Identity { pid: Pid(pid), start: Ns(u64::from(pid) * 10) }
    }

    fn process(pid: u32, parent: u32, cpu: u64) -> Process {
        let mut it = Process { id: id(pid), parent: Some(id(parent)), ..Process::default() };
        it.row.set(ProcessField::Ppid, u64::from(parent));
        it.row.set(ProcessField::CpuTime, cpu);
        it.row.set(ProcessField::ReadBytes, cpu);
        it
    }

    fn ended(pid: u32, parent: u32, waiter: u32, cpu: u64) -> Process {
        let mut it = process(pid, parent, cpu);
        it.row.set(ProcessField::Ended, 1);
        it.row.set(ProcessField::Ppid, u64::from(waiter));
        it
    }

    fn learn(family: &mut Family, mut processes: Vec<Process>) {
        processes.sort_by_key(|it| it.id);
        family.learn(&processes, &[]);
    }

    #[track_caller]
    fn check(family: &Family, cpu: u64, read: u64) {
        let row = family.used().row;
        assert_eq!(row.get(ProcessField::CpuTime), Some(cpu), "cpu");
        assert_eq!(row.get(ProcessField::ReadBytes), Some(read), "read");
    }

    #[test]
    fn a_grandchild_before_its_parent_in_the_list_belongs() {
        let mut family = Family::of(Pid(100));
        learn(&mut family, vec![process(50, 60, 1), process(60, 100, 2), process(100, 1, 4)]);
        assert_eq!(family.started(), 3);
        check(&family, 7, 7);
    }

    #[test]
    fn io_of_a_child_that_was_waited_for_is_counted_once() {
        let mut family = Family::of(Pid(100));
        learn(&mut family, vec![process(100, 1, 0), process(101, 100, 5)]);
        // The kernel has added the child's 5 bytes to its waiter, who read 2 itself.
        learn(&mut family, vec![ended(100, 1, 1, 7), ended(101, 100, 100, 5)]);
        check(&family, 12, 7);
    }

    #[test]
    fn a_daemon_that_somebody_else_waited_for_is_counted_too() {
        let mut family = Family::of(Pid(100));
        learn(&mut family, vec![ended(100, 1, 1, 2), ended(101, 100, 1, 5)]);
        check(&family, 7, 7);
        assert!(family.root_ended());
    }

    #[test]
    fn a_reused_pid_of_a_parent_makes_no_relative() {
        let mut family = Family::of(Pid(100));
        learn(&mut family, vec![ended(100, 1, 1, 2)]);
        let mut stranger = process(200, 100, 9);
        stranger.parent = Some(Identity { pid: Pid(100), start: Ns(5_000) });
        learn(&mut family, vec![stranger]);
        assert_eq!(family.started(), 1);
    }

    #[test]
    fn a_known_root_is_no_other_of_its_number() {
        let mut family = Family::known(id(100));
        let mut other = process(100, 1, 9);
        other.id.start = Ns(1);
        learn(&mut family, vec![other, process(100, 1, 3), process(101, 100, 4)]);
        assert_eq!(family.started(), 2);
        check(&family, 7, 7);
    }

    #[test]
    fn one_that_vanished_is_counted_with_its_last_numbers() {
        let mut family = Family::of(Pid(100));
        learn(&mut family, vec![process(100, 1, 3)]);
        learn(&mut family, vec![]);
        assert_eq!((family.lost(), family.started()), (1, 1));
        check(&family, 3, 3);
    }
}
