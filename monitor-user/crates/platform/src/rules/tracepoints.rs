//! The tracepoints that are watched besides calls, and what their records mean.
//!
//! In: a record of a program that [`Tracepoint::program`] made. Out: platform events. Pure: no
//! program is attached here.

use crate::PlatformEvent;
use monitor_backend::rule::insn::{
    Builtin, Compare, Insn, ProcessSetId, RecordOptions, Reg as Slot, Width,
};
use monitor_backend::rule::rule_record::RuleRecord as Record;
use monitor_backend::rule::{HookPoint, RuleProgram};
use monitor_event::node_event::{EventKind, FollowedActivity, NodeEvent};
use monitor_event::outcome::EventParam;
use monitor_model::{Identity, Ns, Pid};
use monitor_omis::Value;
use monitor_sys::pidfd::exit_code;
use std::collections::BTreeSet;

/// `TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE` of include/linux/sched.h: it waits.
const TASK_WAITING: i64 = 3;
/// What stands for a process that is not followed.
const NOT_WATCHED: u64 = u64::MAX;

/// The register of the signal number, or of the exit status as wait(2) returns it.
pub const NUMBER: Slot = Slot(0);

/// Something to look out for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tracepoint {
    /// Processes that watched processes create.
    Fork,
    /// Processes that any process creates.
    ForkOfAll,
    /// Programs that any process executes.
    Exec,
    /// Processes that end.
    Exit,
    /// Signals that are taken.
    Signal,
    /// Threads that begin to wait.
    Block,
    /// Threads that are woken.
    Wakeup,
    /// Processors that go from one thread to another.
    Switch,
    /// Processes, any of the node, that are killed because memory is used up.
    OomKill,
    /// Machine checks of any processor.
    MachineCheck,
}

impl Tracepoint {
    /// The tracepoints that show these events.
    pub fn for_events(kinds: &BTreeSet<EventKind>, all_new: bool) -> BTreeSet<Self> {
        kinds.iter().flat_map(|kind| Self::for_event(kind, all_new)).copied().collect()
    }

    /// The tracepoints that show one event; none, if no tracepoint shows it.
    pub const fn for_event(kind: &EventKind, all_new: bool) -> &'static [Self] {
        match kind {
            EventKind::Created if all_new => &[Self::ForkOfAll, Self::Exec],
            EventKind::Created => &[Self::Fork],
            EventKind::Ended => &[Self::Exit],
            EventKind::Executed => &[Self::Exec],
            EventKind::Signalled => &[Self::Signal],
            EventKind::Blocked => &[Self::Block],
            EventKind::Unblocked => &[Self::Wakeup],
            EventKind::Scheduled => &[Self::Switch],
            EventKind::OomKilled => &[Self::OomKill],
            EventKind::MachineChecked => &[Self::MachineCheck],
            _ => &[],
        }
    }

    /// Whether its records are too frequent to wake the reader for each.
    pub const fn is_frequent(self) -> bool {
        matches!(self, Self::Block | Self::Wakeup | Self::Switch)
    }

    /// Whether it is watched all the time on some nodes, so that a record that is lost is worth no
    /// timer.
    pub const fn is_permanent(self) -> bool {
        matches!(self, Self::Exec | Self::OomKill | Self::MachineCheck)
    }

    /// The activity whose process set it uses; none, if it is for all processes.
    pub const fn activity(self) -> Option<FollowedActivity> {
        match self {
            Self::ForkOfAll | Self::Exec | Self::OomKill | Self::MachineCheck => None,
            Self::Fork | Self::Exit | Self::Signal => Some(FollowedActivity::Lifecycle),
            Self::Block | Self::Wakeup | Self::Switch => Some(FollowedActivity::Scheduling),
        }
    }

    /// The program that the kernel runs.
    pub fn program(self, set: Option<ProcessSetId>) -> RuleProgram {
        let mut insns = self.insns(set);
        let urgent = !self.is_frequent();
        insns.push(Insn::Record(RecordOptions { urgent, ..RecordOptions::default() }));
        RuleProgram::new(self.hook_point(), set, insns)
    }

    /// Where it runs.
    pub const fn hook_point(self) -> HookPoint {
        match self {
            Self::Fork | Self::ForkOfAll => HookPoint::Fork,
            Self::Exec => HookPoint::Exec,
            Self::Exit => HookPoint::Exit,
            Self::Signal => HookPoint::SignalDeliver,
            Self::Block | Self::Switch => HookPoint::Switch,
            Self::Wakeup => HookPoint::Wakeup,
            Self::OomKill => HookPoint::OomKill,
            Self::MachineCheck => HookPoint::MachineCheck,
        }
    }

    /// The instructions before its record.
    pub fn insns(self, set: Option<ProcessSetId>) -> Vec<Insn> {
        let argument = |to, from| Insn::Argument(Slot(to), from, Width::U64);
        match (self, set) {
            (Self::Fork | Self::ForkOfAll, _) => vec![argument(0, 0), argument(1, 3)],
            (Self::MachineCheck, _) => (0..3).map(|n| argument(n, n)).collect(),
            (Self::Exit | Self::Signal, _) => vec![argument(NUMBER.0, 1)],
            (Self::Block, Some(set)) => block_insns(set),
            (Self::Switch, Some(set)) => switch_insns(set),
            (Self::Exec | Self::OomKill | Self::Wakeup | Self::Block | Self::Switch, _) => {
                Vec::new()
            }
        }
    }

    /// What a record of it says.
    pub fn events(self, it: &Record) -> Vec<PlatformEvent> {
        let mut events = self.events_of_record(it);
        for event in &mut events {
            if let PlatformEvent::Event(event) = event {
                // A switch may be about the process that it goes to, and these are of the other.
                let is_subject = event.process == Some(it.process);
                event.credentials = it.credentials.filter(|_| is_subject);
                event.is_checked = true;
            }
        }
        events
    }

    fn events_of_record(self, it: &Record) -> Vec<PlatformEvent> {
        let [first, second, third, cpu, ..] = it.regs;
        let number = |number: u64| EventParam::Value(Value::from(number));
        let occurred =
            |kind, subject, params| vec![event(kind, (subject, it.at, Some(it.tid)), params)];
        let own = |kind, rest: Vec<EventParam>| {
            let params = [EventParam::Process(it.process)].into_iter().chain(rest).collect();
            occurred(kind, it.process, params)
        };
        match self {
            Self::Fork | Self::ForkOfAll => {
                let parent = process(first, second);
                let mut born = vec![PlatformEvent::ProcessCreated { child: it.process, parent }];
                born.extend(own(EventKind::Created, Vec::new()));
                born
            }
            Self::Exec => {
                let mut executed = vec![PlatformEvent::ProcessExecuted(it.process)];
                executed.extend(own(EventKind::Executed, Vec::new()));
                executed
            }
            Self::Exit => end_events(it.process, it.at, Some(first)),
            Self::OomKill => own(EventKind::OomKilled, Vec::new()),
            Self::MachineCheck => vec![machine_check(it.at, [first, second, third])],
            Self::Signal => own(EventKind::Signalled, vec![number(first)]),
            Self::Block => own(EventKind::Blocked, Vec::new()),
            Self::Wakeup => own(EventKind::Unblocked, Vec::new()),
            Self::Switch => {
                let old = (first != NOT_WATCHED).then_some(it.process);
                let new = process(second, third);
                let params = [old, new]
                    .map(|id| id.map_or(EventParam::Value((-1).into()), EventParam::Process));
                let params = params.into_iter().chain([number(cpu)]).collect();
                let subject = old.or(new);
                subject
                    .map(|subject| occurred(EventKind::Scheduled, subject, params))
                    .unwrap_or_default()
            }
        }
    }
}

/// A thread of ours leaves its processor to wait, not because it must.
fn block_insns(set: ProcessSetId) -> Vec<Insn> {
    let (old, state) = (Slot(0), Slot(1));
    vec![
        Insn::Argument(old, 0, Width::U32),
        Insn::IfMember(old, old, set),
        Insn::Filter(old, Compare::NotEqual, -1),
        Insn::Argument(state, 4, Width::U64),
        Insn::Filter(state, Compare::Equal, 0),
        Insn::Argument(state, 5, Width::U32),
        Insn::Filter(state, Compare::AnyBit, TASK_WAITING),
    ]
}

/// Both processes, each if it is one of ours, when the second began, and the processor.
fn switch_insns(set: ProcessSetId) -> Vec<Insn> {
    let (old, new) = (Slot(0), Slot(1));
    vec![
        Insn::Argument(old, 0, Width::U32),
        Insn::IfMember(old, old, set),
        Insn::Argument(new, 1, Width::U32),
        Insn::IfMember(new, new, set),
        Insn::Argument(Slot(2), 6, Width::U64),
        Insn::Builtin(Slot(3), Builtin::Cpu),
    ]
}

fn process(pid: u64, start: u64) -> Option<Identity> {
    let pid = u32::try_from(pid).ok()?;
    Some(Identity { pid: Pid(pid), start: Ns(start) })
}

/// A machine check: processor, bank and status.
pub fn machine_check(at: Ns, numbers: [u64; 3]) -> PlatformEvent {
    let params = numbers.map(|it| EventParam::Value(Value::from(it)));
    PlatformEvent::Event(NodeEvent::new(EventKind::MachineChecked, at, params.into()))
}

/// A process that has ended: the event first, as long as it is one of its session's.
pub fn end_events(process: Identity, at: Ns, status: Option<u64>) -> Vec<PlatformEvent> {
    let or_unknown = |it: Option<u64>| EventParam::Value(it.map_or(Value::from(-1), Value::from));
    let status = status.map(|it| it as u32);
    let code = or_unknown(status.map(exit_code));
    // The low bits of a wait status, see wait(2): 0 if the process has exited by itself.
    let signal = or_unknown(status.map(|it| u64::from(it & 0x7f)));
    let (kind, params) = (EventKind::Ended, vec![EventParam::Process(process), code, signal]);
    vec![event(kind, (process, at, None), params), PlatformEvent::ProcessEnded(process)]
}

fn event(
    kind: EventKind,
    (process, at, thread): (Identity, Ns, Option<Pid>),
    params: Vec<EventParam>,
) -> PlatformEvent {
    let it = NodeEvent::new(kind, at, params.into());
    PlatformEvent::Event(NodeEvent { process: Some(process), thread, ..it })
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_backend::rule::fake::{FakeRules, HookHit};
    use monitor_backend::rule::{Children, Rules};

    /// The events of a tracepoint hit while process 7 is watched.
    fn events_of(tracepoint: Tracepoint, pid: u32, arguments: [u64; 6]) -> Vec<PlatformEvent> {
        let mut rules = FakeRules::default();
        let set = rules.make_set(Children::Included).unwrap();
        rules.include(set, Pid(7)).unwrap();
        let list = rules.add(&tracepoint.program(tracepoint.activity().map(|_| set))).unwrap();
        rules.enable(list);
        let (place, pid) = (tracepoint.hook_point(), Pid(pid));
        rules.hit(HookHit { hook: place, pid, tid: pid, credentials: None, arguments });
        let (mut reader, mut all) = (rules.take_reader().unwrap(), Vec::new());
        let _n_read = reader.read(usize::MAX, &mut |it| all.extend(tracepoint.events(&it)));
        all
    }

    fn values(events: &[PlatformEvent]) -> Vec<EventParam> {
        let occurred = events.iter().find_map(|it| match it {
            PlatformEvent::Event(it) => Some(it.params.to_vec()),
            _ => None,
        });
        occurred.unwrap_or_default()
    }

    fn id(pid: u32) -> EventParam {
        EventParam::Process(Identity { pid: Pid(pid), start: Ns(0) })
    }

    #[test]
    fn a_child_has_its_parent_and_an_end_its_code() {
        let born = events_of(Tracepoint::Fork, 8, [7, 8, 8, 55, 0, 0]);
        let parent = Some(Identity { pid: Pid(7), start: Ns(55) });
        assert!(
            matches!(born[0], PlatformEvent::ProcessCreated { parent: it, .. } if it == parent),
            "{born:?}"
        );
        assert_eq!(values(&born), [id(8)]);
        let code =
            |status| values(&events_of(Tracepoint::Exit, 7, [7, status, 0, 0, 0, 0]))[1].clone();
        assert_eq!(code(3 << 8), EventParam::Value(3.into()));
        assert_eq!(code(9), EventParam::Value(137.into()));
        assert_eq!(code(0x80 | 11), EventParam::Value(139.into()));
    }

    #[test]
    fn a_preempted_thread_does_not_wait() {
        let waits = [7, 8, 7, 8, 0, 1];
        assert_eq!(values(&events_of(Tracepoint::Block, 7, waits)), [id(7)]);
        assert_eq!(events_of(Tracepoint::Block, 7, [7, 8, 7, 8, 1, 1]), []);
        assert_eq!(events_of(Tracepoint::Block, 7, [7, 8, 7, 8, 0, 0]), []);
    }

    #[test]
    fn a_process_that_is_not_watched_is_minus_one() {
        let none = EventParam::Value((-1).into());
        let cpu = EventParam::Value(0.into());
        let both = values(&events_of(Tracepoint::Switch, 7, [7, 8, 7, 8, 0, 1]));
        assert_eq!(both, [id(7), none, cpu]);
    }
}
