//! What a process starts from now on, each child with all its descendants, added up.
//!
//! In: readings, and what ended since it looked last. Out: totals of one child. The process
//! itself is not counted, nor what it had started before. Knows no time, nor who is told.

use super::family::Family;
use super::past::Seat;
use super::totals::totals;
use super::veil::Veil;
use super::view::{Reading, Seen};
use monitor_model::field::ProcessField;
use monitor_model::id::{Identity, Ns, Pid};
use monitor_model::sample::{Birth, Process, Source};
use monitor_model::status::Refusal;
use monitor_model::want::{Capability, Want};
use monitor_protocol::answer::Totals;
use std::collections::BTreeMap;

/// What the sum of a family needs; each can be missing, and the notes say so.
pub const CAPABILITIES: [Capability; 5] = [
    Capability::Snapshot,
    Capability::Lifetimes,
    Capability::Block,
    Capability::Tcp,
    Capability::Sockets,
];
/// Most children that are counted at once. One whose sum was told after its end is forgotten.
const CHILDREN: usize = 64;

/// The children of one process.
pub struct Account {
    caller: Pid,
    veil: Veil,
    want: Want,
    /// Who he is and since when is counted, once he was seen.
    since: Option<(Identity, Ns)>,
    children: BTreeMap<Identity, Family>,
    seat: Option<Seat>,
    source: Source,
    notes: Vec<String>,
    /// Ends that were not seen.
    missed: u64,
}

impl Account {
    /// Of what this process starts, for these eyes.
    pub fn new(caller: Pid, veil: Veil) -> Self {
        Self {
            caller,
            veil,
            want: Want { processes: true, ..Want::default() },
            since: None,
            children: BTreeMap::new(),
            seat: None,
            source: Source::default(),
            notes: Vec::new(),
            missed: 0,
        }
    }

    /// What must be read for it.
    pub const fn want(&self) -> &Want {
        &self.want
    }

    /// Who reads.
    pub const fn source(&self) -> Source {
        self.source
    }

    /// Looks at a reading.
    pub fn see(&mut self, reading: &Reading<'_>) -> Result<Seen, Refusal> {
        let sample = reading.sample;
        self.source = sample.source;
        // What /proc cannot give is of every process, and says nothing of these.
        let exact = sample.source == Source::Ebpf;
        self.notes = sample.notes.iter().filter(|_| exact).map(|it| it.text.clone()).collect();
        let (caller, since) = match self.since {
            Some(known) => known,
            None => self.begin(&sample.processes, sample.at.boot)?,
        };
        let (ended, missed) = reading.past.ended(self.seat.as_ref());
        self.missed += missed;
        let living = sample.processes.iter();
        let mut fresh: Vec<Process> =
            living.chain(ended).filter(|it| it.id.start >= since).cloned().collect();
        reading.past.seen(&mut self.seat, None);
        for process in &mut fresh {
            self.veil.cover(process);
        }
        fresh.sort_by_key(|it| it.id);
        self.adopt(caller, &fresh, &sample.dying);
        for family in self.children.values_mut() {
            family.learn(&fresh, &sample.dying);
        }
        Ok(Seen::default())
    }

    fn begin(&mut self, living: &[Process], now: Ns) -> Result<(Identity, Ns), Refusal> {
        let at = living.partition_point(|it| it.id.pid < self.caller);
        let caller = living.get(at).filter(|it| it.id.pid == self.caller).ok_or_else(|| {
            let Pid(pid) = self.caller;
            Refusal::absent(format!("process {pid}, who asks, is not among those that are read"))
        })?;
        Ok(*self.since.insert((caller.id, now)))
    }

    /// Finds new children, those among them of whom only the end is known.
    fn adopt(&mut self, caller: Identity, fresh: &[Process], dying: &[Birth]) {
        let number = Some(u64::from(caller.pid.0));
        let his = |it: &&Process| match it.parent {
            Some(parent) => parent == caller,
            None => it.row.get(ProcessField::Ppid) == number,
        };
        let seen = fresh.iter().filter(his).map(|it| it.id);
        let gone = dying.iter().filter(|it| it.parent == Some(caller)).map(|it| it.id);
        for id in seen.chain(gone) {
            if self.children.len() < CHILDREN {
                self.children.entry(id).or_insert_with(|| Family::known(id));
            }
        }
    }

    /// Whether nothing more will be known of this child than is known now.
    pub fn settled(&self, child: Pid) -> bool {
        // Only the kernel's own records come late; a sample of /proc is all there will be.
        self.source != Source::Ebpf || self.find(child).is_none_or(|(_, it)| it.settled())
    }

    /// What a child used, and all its descendants.
    pub fn sum(&mut self, child: Pid) -> Result<Totals, Refusal> {
        let mut notes = self.notes.clone();
        if self.missed > 0 {
            let n = self.missed;
            notes.push(format!("{n} processes ended unseen: more than are kept for a second"));
        }
        let Some((id, family)) = self.find(child) else {
            if self.source != Source::Ebpf {
                // It came and went between two readings.
                return Ok(totals(&Family::of(child), self.source, notes));
            }
            let (Pid(pid), Pid(caller)) = (child, self.caller);
            return Err(Refusal::absent(format!(
                "no process {pid} that {caller} started since it asked, of {CHILDREN} at most"
            )));
        };
        let sum = totals(family, self.source, notes);
        let over = family.root_ended();
        if over {
            self.children.remove(&id);
        }
        Ok(sum)
    }

    /// The last child that had this number.
    fn find(&self, child: Pid) -> Option<(Identity, &Family)> {
        let his = self.children.iter().rfind(|(id, _)| id.pid == child);
        his.map(|(id, family)| (*id, family))
    }
}

#[cfg(test)]
mod tests {
    use super::super::past::Past;
    use super::super::target::NoNamespaces;
    use super::*;
    use monitor_model::sample::Sample;
    use monitor_model::whose::Eyes;

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
        account: Account,
        past: Past,
    }

    impl World {
        fn new() -> Self {
            Self {
                account: Account::new(Pid(10), Veil::Own(Eyes { uid: 7, gid: 7 })),
                past: Past::default(),
            }
        }

        fn turn(&mut self, processes: Vec<Process>, dying: &[Birth]) -> Result<Seen, Refusal> {
            let mut sample = Sample { processes, source: Source::Ebpf, ..Sample::default() };
            sample.at.boot = Ns(20);
            sample.dying = dying.to_vec();
            self.past.take_from(&mut sample);
            let (sample, past) = (&sample, &self.past);
            let reading =
                Reading { sample, node: None, past, namespaces: &NoNamespaces, shed: &[] };
            self.account.see(&reading)
        }

        fn cpu(&mut self, child: u32) -> Option<u64> {
            let sum = self.account.sum(Pid(child)).ok()?;
            sum.counters.get("cpu_ns").copied()
        }
    }

    #[test]
    fn neither_the_caller_nor_what_he_started_before_is_counted() {
        let mut world = World::new();
        let there = || vec![process(10, 1, 100), process(11, 10, 50)];
        world.turn(there(), &[]).expect("he is there");
        let now = there().into_iter().chain([process(21, 10, 3), process(22, 21, 4)]);
        world.turn(now.collect(), &[]).expect("a reading");
        assert_eq!((world.cpu(21), world.cpu(11)), (Some(7), None));
    }

    #[test]
    fn a_child_that_nobody_saw_alive_is_known_by_its_end() {
        let mut world = World::new();
        world.turn(vec![process(10, 1, 100)], &[]).expect("he is there");
        let dying = [Birth { id: id(21), parent: Some(id(10)) }];
        world.turn(vec![process(10, 1, 100)], &dying).expect("a reading");
        assert!(!world.account.settled(Pid(21)));
        let records = vec![process(10, 1, 100), ended(21, 10, 3), ended(22, 21, 4)];
        world.turn(records, &[]).expect("a reading");
        assert!(world.account.settled(Pid(21)));
        assert_eq!(world.cpu(21), Some(7));
        assert_eq!(world.cpu(21), None, "what was told after its end is forgotten");
    }

    #[test]
    fn a_caller_who_is_not_there_is_refused() {
        let refusal = World::new().turn(vec![process(9, 1, 1)], &[]).expect_err("nobody");
        assert!(refusal.message.starts_with("process 10, who asks"));
    }

    #[test]
    fn what_runs_as_another_user_tells_him_no_more_than_proc() {
        let mut world = World::new();
        world.turn(vec![process(10, 1, 100)], &[]).expect("he is there");
        let mut root = process(21, 10, 3);
        root.row.set(ProcessField::Uid, 0);
        root.row.set(ProcessField::TcpSent, 5);
        world.turn(vec![process(10, 1, 100), root], &[]).expect("a reading");
        let sum = world.account.sum(Pid(21)).expect("a sum");
        assert_eq!(
            (sum.counters.get("cpu_ns"), sum.counters.get("tcp_sent_bytes")),
            (Some(&3), None)
        );
    }
}
