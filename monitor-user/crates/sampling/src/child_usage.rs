//! Usage of the children that a process starts from now on, each with its descendants.
//!
//! In: readings, and exit records since the last one. Out: totals of one child. The process itself
//! is not counted, nor are children from before. Has no clock and no client.

use super::view::{Output, Reading};
use super::{exit_log::Cursor, process_tree::ProcessTree, totals::totals, visibility::Visibility};
use monitor_model::{
    BackendKind, Capability, Identity, Ns, Pid, Process, ProcessField, ProcessParent, ProgramLoss,
    ReadSpec, Refusal,
};
use monitor_protocol::answer::UsageTotals;
use std::collections::BTreeMap;

/// The capabilities for full totals; the notes name the missing ones.
pub const CAPABILITIES: [Capability; 5] = [
    Capability::Snapshot,
    Capability::Lifetimes,
    Capability::Block,
    Capability::Tcp,
    Capability::Sockets,
];
/// Maximum number of children at once. An ended child is removed when its sum is returned.
const MAX_CHILDREN: usize = 64;

/// The children of one process.
#[derive(Default)]
pub struct ChildUsage {
    caller: Pid,
    visibility: Visibility,
    read_spec: ReadSpec,
    /// The caller's identity and the start of counting, after the first reading.
    since: Option<(Identity, Ns)>,
    children: BTreeMap<Identity, ProcessTree>,
    cursor: Option<Cursor>,
    source: BackendKind,
    notes: Vec<String>,
    /// Number of dropped exit records.
    missed: u64,
    /// What the programs had dropped at the first reading, and have dropped now.
    dropped: [Vec<ProgramLoss>; 2],
}

impl ChildUsage {
    /// An accounting of the children of this process, for its user.
    pub fn new(caller: Pid, visibility: Visibility) -> Self {
        Self {
            caller,
            visibility,
            read_spec: ReadSpec { processes: true, ..ReadSpec::default() },
            ..Self::default()
        }
    }

    /// What must be read for it.
    pub const fn read_spec(&self) -> &ReadSpec {
        &self.read_spec
    }

    /// The backend that reads.
    pub const fn source(&self) -> BackendKind {
        self.source
    }

    /// Consumes a reading.
    ///
    /// # Errors
    /// If the caller is not among the processes of the first reading.
    pub fn consume(&mut self, reading: &Reading<'_>) -> Result<Output, Refusal> {
        let sample = reading.sample;
        self.source = sample.backend;
        // Notes about the limits of /proc apply to all processes, not to these in particular.
        let is_exact = sample.backend == BackendKind::Ebpf;
        self.notes = sample.notes.iter().filter(|_| is_exact).map(|it| it.text.clone()).collect();
        let (caller, since) = match self.since {
            Some(known) => known,
            None => {
                self.dropped[0].clone_from(&sample.lost);
                self.begin(&sample.processes, sample.at.boot)?
            }
        };
        self.dropped[1].clone_from(&sample.lost);
        let (ended, missed) = reading.exit_log.ended(self.cursor.as_ref());
        self.missed += missed;
        let living = sample.processes.iter();
        let mut fresh: Vec<Process> =
            living.chain(ended).filter(|it| it.id.start >= since).cloned().collect();
        reading.exit_log.seen(&mut self.cursor, None);
        for process in &mut fresh {
            self.visibility.redact(process);
        }
        fresh.sort_by_key(|it| it.id);
        self.adopt(caller, &fresh, &sample.dying);
        for tree in self.children.values_mut() {
            tree.learn(&fresh, &sample.dying);
        }
        Ok(Output::default())
    }

    fn begin(&mut self, living: &[Process], now: Ns) -> Result<(Identity, Ns), Refusal> {
        let at = living.partition_point(|it| it.id.pid < self.caller);
        let caller = living.get(at).filter(|it| it.id.pid == self.caller).ok_or_else(|| {
            let Pid(pid) = self.caller;
            Refusal::absent(format!(
                "process {pid}, the caller, is not among the processes of this node"
            ))
        })?;
        Ok(*self.since.insert((caller.id, now)))
    }

    /// Finds new children, including those known only from their exit.
    fn adopt(&mut self, caller: Identity, fresh: &[Process], dying: &[ProcessParent]) {
        let caller_pid = Some(u64::from(caller.pid.0));
        let is_child = |it: &&Process| match it.parent {
            Some(parent) => parent == caller,
            None => it.row.get(ProcessField::Ppid) == caller_pid,
        };
        let seen = fresh.iter().filter(is_child).map(|it| it.id);
        let gone = dying.iter().filter(|it| it.parent == Some(caller)).map(|it| it.id);
        for id in seen.chain(gone) {
            if self.children.len() < MAX_CHILDREN {
                self.children.entry(id).or_insert_with(|| ProcessTree::from_root(id));
            }
        }
    }

    /// Whether the totals of this child are final for now.
    pub fn settled(&self, child: Pid) -> bool {
        // Only exit records from hooks arrive late; with /proc there are none.
        self.source != BackendKind::Ebpf || self.find(child).is_none_or(|(_, it)| it.settled())
    }

    /// The usage of a child and all its descendants.
    ///
    /// # Errors
    /// If it is not a child that the caller started since the accounting began.
    pub fn sum(&mut self, child: Pid) -> Result<UsageTotals, Refusal> {
        let mut notes = self.notes.clone();
        if self.missed > 0 {
            let n = self.missed;
            notes.push(format!("{n} exit records dropped: more than the exit log holds"));
        }
        let dropped = self.dropped_since(&mut notes);
        let Some((id, tree)) = self.find(child) else {
            if self.source != BackendKind::Ebpf {
                // It started and ended between two readings.
                return Ok(totals(&ProcessTree::from_root_pid(child), self.source, notes));
            }
            let (Pid(pid), Pid(caller)) = (child, self.caller);
            return Err(Refusal::absent(format!(
                "process {pid} is not a child that {caller} started since account \
             (at most {MAX_CHILDREN})"
            )));
        };
        let sum = UsageTotals { dropped, ..totals(tree, self.source, notes) };
        let has_ended = tree.root_ended();
        if has_ended {
            self.children.remove(&id);
        }
        Ok(sum)
    }

    /// What the programs dropped since counting began. The numbers are of the whole node: a user
    /// who may not see them gets a note.
    fn dropped_since(&self, notes: &mut Vec<String>) -> Vec<ProgramLoss> {
        let [before, now] = &self.dropped;
        let dropped = ProgramLoss::since(now, before);
        if self.visibility.credentials().is_some() && !dropped.is_empty() {
            notes.push("records were lost (ring or table full): counts may be too low".into());
            return Vec::new();
        }
        dropped
    }

    /// The last child with this process id.
    fn find(&self, child: Pid) -> Option<(Identity, &ProcessTree)> {
        let found = self.children.iter().rfind(|(id, _)| id.pid == child);
        found.map(|(id, tree)| (*id, tree))
    }
}

#[cfg(test)]
mod tests {
    use super::super::exit_log::ExitLog;
    use super::super::target::NoNamespaces;
    use super::*;
    use monitor_model::credentials::Credentials;
    use monitor_model::sample::Sample;

    fn id(pid: u32) -> Identity {
        Identity { pid: Pid(pid), start: Ns(u64::from(pid)) }
    }

    fn process(pid: u32, parent: u32, cpu: u64) -> Process {
        let mut it = Process { id: id(pid), parent: Some(id(parent)), ..Process::default() };
        it.row.set(ProcessField::CpuTime, cpu);
        it.row.set(ProcessField::Uid, 7);
        it
    }

    fn ended(pid: u32, parent: u32, cpu: u64) -> Process {
        let mut it = process(pid, parent, cpu);
        it.row.set(ProcessField::Ended, 1);
        it
    }

    struct World {
        usage: ChildUsage,
        exit_log: ExitLog,
    }

    impl World {
        fn new() -> Self {
            Self {
                usage: ChildUsage::new(
                    Pid(10),
                    Visibility::OwnInFull(Credentials { uid: 7, gid: 7 }),
                ),
                exit_log: ExitLog::default(),
            }
        }

        fn turn(
            &mut self,
            processes: Vec<Process>,
            dying: &[ProcessParent],
        ) -> Result<Output, Refusal> {
            let mut sample = Sample { processes, backend: BackendKind::Ebpf, ..Sample::default() };
            sample.at.boot = Ns(20);
            sample.dying = dying.to_vec();
            self.exit_log.take_from(&mut sample);
            let (sample, exit_log) = (&sample, &self.exit_log);
            let reading = Reading {
                sample,
                node: None,
                counters: &Default::default(),
                exit_log,
                namespaces: &NoNamespaces,
                shed: &[],
            };
            self.usage.consume(&reading)
        }

        fn cpu(&mut self, child: u32) -> Option<u64> {
            let sum = self.usage.sum(Pid(child)).ok()?;
            sum.counters.get("cpu_ns").copied()
        }
    }

    #[test]
    fn the_caller_and_its_earlier_children_are_not_counted() {
        let mut world = World::new();
        let there = || vec![process(10, 1, 100), process(11, 10, 50)];
        world.turn(there(), &[]).expect("the caller exists");
        let now = there().into_iter().chain([process(21, 10, 3), process(22, 21, 4)]);
        world.turn(now.collect(), &[]).expect("a reading");
        assert_eq!((world.cpu(21), world.cpu(11)), (Some(7), None));
    }

    #[test]
    fn a_child_between_two_samples_is_known_from_its_exit() {
        let mut world = World::new();
        world.turn(vec![process(10, 1, 100)], &[]).expect("the caller exists");
        let dying = [ProcessParent { id: id(21), parent: Some(id(10)) }];
        world.turn(vec![process(10, 1, 100)], &dying).expect("a reading");
        assert!(!world.usage.settled(Pid(21)));
        let records = vec![process(10, 1, 100), ended(21, 10, 3), ended(22, 21, 4)];
        world.turn(records, &[]).expect("a reading");
        assert!(world.usage.settled(Pid(21)));
        assert_eq!(world.cpu(21), Some(7));
        assert_eq!(world.cpu(21), None, "an ended child is removed with its sum");
    }

    #[test]
    fn a_missing_caller_is_refused() {
        let refusal = World::new().turn(vec![process(9, 1, 1)], &[]).expect_err("no such process");
        assert!(refusal.message.starts_with("process 10, the caller"));
    }

    #[test]
    fn a_child_of_another_user_has_only_its_public_fields() {
        let mut world = World::new();
        world.turn(vec![process(10, 1, 100)], &[]).expect("the caller exists");
        let mut root = process(21, 10, 3);
        root.row.set(ProcessField::Uid, 0);
        root.row.set(ProcessField::TcpSent, 5);
        world.turn(vec![process(10, 1, 100), root], &[]).expect("a reading");
        let sum = world.usage.sum(Pid(21)).expect("a sum");
        assert_eq!(
            (sum.counters.get("cpu_ns"), sum.counters.get("tcp_sent_bytes")),
            (Some(&3), None)
        );
    }
}
