//! The usage of a process and all its descendants, ended ones included, each counted once.
//!
//! In: samples, in order, and the root. Out: totals, totals by command name, and the living
//! members. Membership follows the process that forked, not the current parent, so a daemon that
//! detached itself still belongs. Needs no clock and reads nothing.

use super::parents::{ParentIndex, WAITED_FOR};
use monitor_model::{
    Category, Identity, Latencies, Pid, Process, ProcessField, ProcessParent, ProcessRow, Role,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Maximum number of members: each is kept until the end, so that its children are known.
const MAX_MEMBERS: usize = 1 << 20;

/// A process tree: the root and all its descendants.
#[derive(Default)]
pub struct ProcessTree {
    root: Pid,
    /// All members so far; the root is among them after its first sample.
    members: HashSet<Identity>,
    /// The same by process id, for children whose fork was not observed.
    parents: ParentIndex,
    /// The last sample of members that have not ended.
    living: HashMap<Identity, Process>,
    /// Usage of ended members.
    ended: TreeUsage,
    /// Whether the root's exit record has arrived, or it vanished.
    root_ended: bool,
    /// Ended members whose exit record has not arrived.
    awaited: HashSet<Identity>,
    /// Number of members that vanished without an exit record.
    lost: u64,
    /// Whether the limit was reached.
    full: bool,
}

/// The usage of a set of processes.
#[derive(Clone, Debug, Default)]
pub struct TreeUsage {
    /// Sums of counters; the peak resident size is the maximum of any process.
    pub row: ProcessRow,
    /// Sums of the latency histograms.
    pub latencies: Latencies,
    /// Number of processes and sums by command name.
    pub commands: BTreeMap<String, (u64, ProcessRow)>,
    /// Number of processes whose totals are those at their exit: their final records are lost.
    pub approximate: u64,
    /// Number of living processes whose totals lack those of threads that ended as they were read.
    pub torn: u64,
}

impl TreeUsage {
    fn add(&mut self, process: &Process, waited_inside: bool) {
        add_row(&mut self.row, process, waited_inside);
        self.latencies.merge(&process.latencies);
        let lacks_some = u64::from(process.row.get(ProcessField::Approximate) == Some(1));
        let count = if process.ended() { &mut self.approximate } else { &mut self.torn };
        *count += lacks_some;
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

impl ProcessTree {
    /// The tree of the process that has this id now.
    pub fn from_root_pid(root: Pid) -> Self {
        Self { root, ..Self::default() }
    }

    /// The tree of a known process.
    pub fn from_root(root: Identity) -> Self {
        let mut tree = Self::from_root_pid(root.pid);
        tree.members.insert(root);
        tree.parents.insert(root);
        tree
    }

    /// Adds a sample of all processes of the node, with the exited ones that have no record yet.
    pub fn learn(&mut self, processes: &[Process], dying: &[ProcessParent]) {
        self.adopt(processes, dying);
        let mut awaited = std::mem::take(&mut self.awaited);
        let mut before = std::mem::take(&mut self.living);
        for process in processes {
            if !self.members.contains(&process.id) {
                continue;
            }
            before.remove(&process.id);
            awaited.remove(&process.id);
            if process.ended() {
                self.close(process);
            } else {
                self.living.insert(process.id, process.clone());
            }
        }
        for id in dying.iter().map(|it| it.id).filter(|id| self.members.contains(id)) {
            self.awaited.insert(id);
            awaited.remove(&id);
            // Its last sample counts until the record arrives.
            self.living.extend(before.remove_entry(&id));
        }
        // Of these not even a sample is known.
        awaited.retain(|id| !before.contains_key(id));
        self.lost += (awaited.len() + before.len()) as u64;
        self.root_ended |= awaited.iter().any(|id| id.pid == self.root);
        for process in before.into_values() {
            self.close(&process);
        }
    }

    /// Adds the final usage of a member.
    fn close(&mut self, process: &Process) {
        let inside = self.waited_inside(process);
        self.ended.add(process, inside);
        self.root_ended |= process.id.pid == self.root;
    }

    /// Finds new members. A child may precede its parent in the list, and its record may arrive
    /// before that of its parent, so this repeats until none is found.
    fn adopt(&mut self, processes: &[Process], dying: &[ProcessParent]) {
        let known = processes.iter().map(|it| (it.id, it.parent, Some(it)));
        let all = known.chain(dying.iter().map(|it| (it.id, it.parent, None)));
        let mut candidates: Vec<_> = all.filter(|(id, ..)| !self.members.contains(id)).collect();
        loop {
            let before = candidates.len();
            candidates.retain(|&(id, parent, process)| {
                let belongs = self.belongs(id, parent, process);
                if belongs && self.members.len() >= MAX_MEMBERS {
                    self.full = true;
                } else if belongs {
                    self.members.insert(id);
                    self.parents.insert(id);
                }
                !belongs
            });
            if candidates.len() == before {
                return;
            }
        }
    }

    fn belongs(&self, id: Identity, parent: Option<Identity>, process: Option<&Process>) -> bool {
        if id.pid == self.root && self.members.is_empty() {
            return true;
        }
        match parent {
            Some(parent) => self.members.contains(&parent),
            None => process.is_some_and(|it| self.parents.parent(it).is_some()),
        }
    }

    /// Whether its usage has been added to a member's own counters already.
    fn waited_inside(&self, process: &Process) -> bool {
        self.parents.parent(process).is_some()
    }

    /// Whether a process is or was a member.
    pub fn has(&self, id: Identity) -> bool {
        self.members.contains(&id)
    }

    /// Number of members so far, the root included.
    pub fn started(&self) -> usize {
        self.members.len()
    }

    /// Members that had not ended at the last sample.
    pub fn living(&self) -> impl Iterator<Item = &Process> {
        self.living.values().filter(|it| !self.awaited.contains(&it.id))
    }

    /// Whether the root's exit record has arrived.
    pub const fn root_ended(&self) -> bool {
        self.root_ended
    }

    /// Number of ended members whose exit record has not arrived.
    pub fn awaited(&self) -> usize {
        self.awaited.len()
    }

    /// Number of members that vanished without an exit record; their last samples are in the
    /// totals.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether there were more descendants than the limit; the totals lack the others.
    pub const fn full(&self) -> bool {
        self.full
    }

    /// Whether the totals are final for now: the root has not ended, or its exit record and those
    /// of all ended members have arrived.
    pub fn settled(&self) -> bool {
        self.awaited.is_empty()
            && (self.root_ended || self.living.keys().any(|it| it.pid == self.root))
    }

    /// The usage of all members until now.
    pub fn usage(&self) -> TreeUsage {
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
    use proptest::collection::vec;

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

    fn learn(tree: &mut ProcessTree, mut processes: Vec<Process>) {
        processes.sort_by_key(|it| it.id);
        tree.learn(&processes, &[]);
    }

    #[track_caller]
    fn check(tree: &ProcessTree, cpu: u64, read: u64) {
        let row = tree.usage().row;
        assert_eq!(row.get(ProcessField::CpuTime), Some(cpu), "cpu");
        assert_eq!(row.get(ProcessField::ReadBytes), Some(read), "read");
    }

    #[test]
    fn a_grandchild_before_its_parent_in_the_list_belongs() {
        let mut tree = ProcessTree::from_root_pid(Pid(100));
        learn(&mut tree, vec![process(50, 60, 1), process(60, 100, 2), process(100, 1, 4)]);
        assert_eq!(tree.started(), 3);
        check(&tree, 7, 7);
    }

    #[test]
    fn io_of_a_waited_for_child_is_counted_once() {
        let mut tree = ProcessTree::from_root_pid(Pid(100));
        learn(&mut tree, vec![process(100, 1, 0), process(101, 100, 5)]);
        // The kernel has added the child's 5 bytes to its parent, which read 2 itself.
        learn(&mut tree, vec![ended(100, 1, 1, 7), ended(101, 100, 100, 5)]);
        check(&tree, 12, 7);
    }

    #[test]
    fn a_process_that_was_read_while_its_threads_ended_is_marked_until_it_is_read_again() {
        let mut tree = ProcessTree::from_root_pid(Pid(100));
        let mut torn = process(100, 1, 3);
        torn.row.set(ProcessField::Approximate, 1);
        learn(&mut tree, vec![torn.clone()]);
        assert_eq!((tree.usage().torn, tree.usage().approximate), (1, 0));
        learn(&mut tree, vec![process(100, 1, 5)]);
        assert_eq!((tree.usage().torn, tree.usage().approximate), (0, 0));
        torn.row.set(ProcessField::Ended, 1);
        learn(&mut tree, vec![torn]);
        assert_eq!((tree.usage().torn, tree.usage().approximate), (0, 1));
    }

    #[test]
    fn a_daemon_waited_for_by_another_process_is_counted() {
        let mut tree = ProcessTree::from_root_pid(Pid(100));
        learn(&mut tree, vec![ended(100, 1, 1, 2), ended(101, 100, 1, 5)]);
        check(&tree, 7, 7);
        assert!(tree.root_ended());
    }

    #[test]
    fn a_reused_parent_pid_makes_no_member() {
        let mut tree = ProcessTree::from_root_pid(Pid(100));
        learn(&mut tree, vec![ended(100, 1, 1, 2)]);
        let mut unrelated = process(200, 100, 9);
        unrelated.parent = Some(Identity { pid: Pid(100), start: Ns(5_000) });
        learn(&mut tree, vec![unrelated]);
        assert_eq!(tree.started(), 1);
    }

    #[test]
    fn a_known_root_is_not_another_process_with_its_pid() {
        let mut tree = ProcessTree::from_root(id(100));
        let mut other = process(100, 1, 9);
        other.id.start = Ns(1);
        learn(&mut tree, vec![other, process(100, 1, 3), process(101, 100, 4)]);
        assert_eq!(tree.started(), 2);
        check(&tree, 7, 7);
    }

    #[test]
    fn children_whose_records_arrive_before_that_of_their_parent_are_counted() {
        let mut tree = ProcessTree::from_root_pid(Pid(100));
        let awaited = |pid, parent| ProcessParent { id: id(pid), parent: Some(id(parent)) };
        let first = [ended(103, 102, 102, 7), ended(102, 101, 101, 5)];
        tree.learn(&first, &[awaited(101, 100), awaited(100, 1), awaited(61, 60)]);
        assert_eq!((tree.started(), tree.awaited(), tree.settled()), (4, 2, false));
        learn(&mut tree, vec![ended(100, 1, 1, 1), ended(101, 100, 100, 2)]);
        assert_eq!((tree.awaited(), tree.lost(), tree.settled()), (0, 0, true));
        check(&tree, 15, 1);
    }

    #[test]
    fn an_exited_process_whose_record_never_arrives_is_lost() {
        let mut tree = ProcessTree::from_root_pid(Pid(100));
        learn(&mut tree, vec![process(100, 1, 3)]);
        tree.learn(&[process(100, 1, 3)], &[ProcessParent { id: id(101), parent: Some(id(100)) }]);
        assert_eq!((tree.awaited(), tree.lost()), (1, 0));
        learn(&mut tree, vec![process(100, 1, 4)]);
        assert_eq!((tree.awaited(), tree.lost(), tree.started()), (0, 1, 2));
        check(&tree, 4, 4);
    }

    #[test]
    fn an_exited_process_with_a_row_and_no_final_record_does_not_run() {
        let mut tree = ProcessTree::from_root_pid(Pid(100));
        let awaited = ProcessParent { id: id(101), parent: Some(id(100)) };
        tree.learn(&[process(100, 1, 3), process(101, 100, 2)], &[awaited]);
        assert_eq!((tree.living().count(), tree.awaited(), tree.started()), (1, 1, 2));
        check(&tree, 5, 5);
    }

    #[test]
    fn io_of_a_child_that_vanished_is_inside_that_of_its_parent() {
        let mut tree = ProcessTree::from_root_pid(Pid(100));
        learn(&mut tree, vec![process(100, 1, 0), process(101, 100, 5)]);
        learn(&mut tree, vec![process(100, 1, 7)]);
        check(&tree, 12, 7);
    }

    /// A process: its parent, and when it was forked, exited and was freed.
    #[derive(Clone, Copy, Debug)]
    struct Life {
        parent: usize,
        forked: u64,
        exited: u64,
        freed: u64,
    }

    /// Turns random numbers into lives, of which the first is the root, and which are forked while
    /// their parents run.
    fn lives(numbers: &[(usize, u64, u64, u64)]) -> Vec<Life> {
        let mut all = vec![Life { parent: 0, forked: 1, exited: 60, freed: 70 }];
        for (parent, after, lasts, later) in numbers {
            let at = parent % all.len();
            let forked = (all[at].forked + 1 + after).min(all[at].exited);
            let exited = forked + lasts;
            all.push(Life { parent: at, forked, exited, freed: exited + later });
        }
        all
    }

    proptest::proptest! {
        /// A sample has the processes that run, those that exited, with a row or without, and the
        /// records of those that were freed since the last one.
        #[test]
        fn every_descendant_is_counted_once_whenever_samples_are_taken(
            numbers in vec((0_usize..9, 0_u64..9, 0_u64..20, 0_u64..9), 1..20),
            pauses in vec(1_u64..40, 1..6),
            has_row: bool,
        ) {
            let all = lives(&numbers);
            let key = |at: usize| u32::try_from(all.len() - at).unwrap_or(0) + 100;
            let mut tree = ProcessTree::from_root(id(key(0)));
            let (mut last, end) = (0, 200);
            let mut now = 0;
            for pause in pauses.into_iter().chain([end]) {
                now += pause;
                let (mut processes, mut dying) = (Vec::new(), Vec::new());
                for (at, life) in all.iter().enumerate().filter(|(_, it)| it.forked < now) {
                    let (pid, parent) = (key(at), if at == 0 { 1 } else { key(life.parent) });
                    let is_running = life.exited >= now;
                    let is_dying = !is_running && life.freed >= now;
                    if is_running || is_dying && has_row {
                        processes.push(process(pid, parent, 1));
                    }
                    if is_dying {
                        dying.push(ProcessParent { id: id(pid), parent: Some(id(parent)) });
                    }
                    if life.freed < now && life.freed >= last {
                        processes.push(ended(pid, parent, parent, 1));
                    }
                }
                processes.sort_by_key(|it| it.id);
                tree.learn(&processes, &dying);
                last = now;
            }
            proptest::prop_assert_eq!((tree.started(), tree.lost()), (all.len(), 0));
            proptest::prop_assert!(tree.settled());
            let cpu = tree.usage().row.get(ProcessField::CpuTime);
            proptest::prop_assert_eq!(cpu, Some(all.len() as u64));
        }
    }

    #[test]
    fn a_vanished_process_counts_with_its_last_sample() {
        let mut tree = ProcessTree::from_root_pid(Pid(100));
        learn(&mut tree, vec![process(100, 1, 3)]);
        learn(&mut tree, vec![]);
        assert_eq!((tree.lost(), tree.started()), (1, 1));
        check(&tree, 3, 3);
    }
}
