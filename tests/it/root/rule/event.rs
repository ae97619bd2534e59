//! What happens to processes: forks, programs, ends and signals, each one once.

use super::{RECORD, RuleFixture};
use crate::deadline;
use crate::root::privilege::granted;
use crate::root::workload::undisturbed;
use monitor_backend::rule::insn::{Builtin, CellKind, Compare, Insn, Reg, SignalTarget, Width};
use monitor_backend::rule::{HookPoint, Rules as _};

const V0: Reg = Reg(0);
const V1: Reg = Reg(1);

/// Records the first two arguments of the hook.
pub const RECORD_TWO: [Insn; 3] =
    [Insn::Argument(V0, 0, Width::U32), Insn::Argument(V1, 1, Width::U32), RECORD];

#[test]
fn root_23_forks_are_23_events_with_parent_and_child() {
    if !granted("root_23_forks_are_23_events_with_parent_and_child") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let (fork, exit) =
        (fixture.list(HookPoint::Fork, &RECORD_TWO), fixture.list(HookPoint::Exit, &RECORD_TWO));
    let spawn = "pids = [subprocess.Popen(['/bin/sh', '-c', 'exit 3']) for _ in range(23)]";
    let _ = fixture.target.run(&format!("{spawn}; it = sum(p.wait() for p in pids)"));
    let records = fixture.take_records();
    let values = |list| {
        let of = records.iter().filter(move |it| it.program == list);
        of.map(|it| (it.regs[0], it.regs[1])).collect::<Vec<_>>()
    };
    let target = u64::from(fixture.target.pid().0);
    let (born, dead) = (values(fork), values(exit));
    assert_eq!((born.len(), dead.len()), (23, 23));
    assert!(born.iter().all(|(parent, _)| *parent == target), "{born:?}");
    let mut children: Vec<_> = born.iter().map(|(_, child)| (*child, 3 << 8)).collect();
    let mut ended = dead;
    children.sort_unstable();
    ended.sort_unstable();
    assert_eq!(children, ended, "each child ended with its code");
    assert_eq!((fixture.runs(fork), fixture.runs(exit)), (23, 23));
}

#[test]
fn root_a_thread_is_no_process_and_a_program_is_an_event() {
    if !granted("root_a_thread_is_no_process_and_a_program_is_an_event") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let fork = fixture.list(HookPoint::Fork, &RECORD_TWO);
    let (exec, exit) =
        (fixture.list(HookPoint::Exec, &RECORD_TWO), fixture.list(HookPoint::Exit, &RECORD_TWO));
    let _ = fixture.target.run(
        "import threading; t = [threading.Thread(target=print, args=('',), kwargs={'end': '', \
         'file': sys.stderr}) for _ in range(5)]; [x.start() for x in t]; [x.join() for x in t]; \
         it = subprocess.call(['/bin/true'])",
    );
    let counts = [fork, exec, exit].map(|list| fixture.runs(list));
    assert_eq!(counts, [1, 1, 1], "forks, programs, ends");
}

#[test]
fn root_23_signals_are_23_events_at_both_ends() {
    if !granted("root_23_signals_are_23_events_at_both_ends") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let only = Insn::Filter(V1, Compare::Equal, 40);
    let acts = [RECORD_TWO[0], RECORD_TWO[1], only, Insn::Argument(Reg(2), 2, Width::U32), RECORD];
    let made = fixture.list(HookPoint::SignalGenerate, &acts);
    let taken = fixture.list(HookPoint::SignalDeliver, &acts);
    let target = fixture.target.pid();
    let _ = fixture.target.run("signal.signal(40, lambda *_: None); it = 0");
    let mut sender = crate::root::actor::Actor::new();
    let _ = sender.run(&format!("for _ in range(23): os.kill({}, 40)", target.0));
    let mut records = Vec::new();
    let of = |records: &[monitor_backend::rule::rule_record::RuleRecord], list| {
        records.iter().filter(|it| it.program == list).count()
    };
    deadline::until(|| {
        records.extend(fixture.take_records());
        (of(&records, taken) >= 23).then_some(())
    });
    assert_eq!((of(&records, made), of(&records, taken)), (23, 23));
    assert!(records.iter().all(|it| it.regs[0] == u64::from(target.0) && it.regs[1] == 40));
    let by_sender = records.iter().filter(|it| it.program == made);
    assert!(by_sender.into_iter().all(|it| it.regs[2] == u64::from(sender.pid().0)));
}

#[test]
fn root_a_rule_signals_the_process_that_makes_the_call() {
    if !granted("root_a_rule_signals_the_process_that_makes_the_call") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let labs = fixture.function("labs");
    let _ = fixture.target.run("got = []; signal.signal(12, lambda *_: got.append(1)); it = 0");
    let id = fixture.list(
        HookPoint::Entry(labs),
        &[
            Insn::Argument(V0, 0, Width::I32),
            Insn::Filter(V0, Compare::Equal, 5),
            Insn::Signal(12, SignalTarget::Process),
        ],
    );
    let _ = fixture.target.run("it = sum(l.labs(n) for n in range(10))");
    deadline::until(|| (fixture.target.run("it = len(got)") == 1).then_some(()));
    assert_eq!(fixture.runs(id), 10);
}

#[test]
fn root_blocking_inside_a_call_is_counted_at_the_switch() {
    if !granted("root_blocking_inside_a_call_is_counted_at_the_switch") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let usleep = fixture.function("usleep");
    // From now on its code is in memory: nothing within it waits for a disk.
    let _ = fixture.target.run("it = l.usleep(1)");
    let inside = fixture.rules.make_timer(monitor_backend::rule::insn::TimerScope::Thread).unwrap();
    let (begin, end) = (Insn::StartTimer(inside, V0), Insn::StopTimer(V0, inside));
    let _ = fixture.list(HookPoint::Entry(usleep.clone()), &[begin]);
    let _ = fixture.list(super::ends(&usleep), &[end]);
    let blocked = fixture.rules.make_cell(CellKind::Sum).unwrap();
    let woken = fixture.rules.make_cell(CellKind::Sum).unwrap();
    let is_inside = [Insn::TimerRunning(V0, inside), Insn::Filter(V0, Compare::Equal, 1)];
    let waits = [Insn::Argument(V1, 5, Width::U32), Insn::Filter(V1, Compare::NotEqual, 0)];
    let _ = fixture
        .list(HookPoint::Switch, &[&is_inside[..], &waits, &[Insn::Count(blocked)]].concat());
    let _ = fixture.list(HookPoint::Wakeup, &[&is_inside[..], &[Insn::Count(woken)]].concat());
    let counts = |fixture: &RuleFixture| [blocked, woken].map(|it| fixture.rules.cell(it).unwrap());
    // The interrupted task wakes it; a wake-up while the first process is current is hidden.
    let counted = undisturbed(|_| {
        let before = counts(&fixture);
        let _ = fixture.target.run("it = sum(l.usleep(1000) for _ in range(23))");
        let after = counts(&fixture);
        Some([0, 1].map(|n| after[n] - before[n]))
    });
    assert_eq!(counted, [23, 23]);
}

#[test]
fn root_a_switch_names_only_processes_of_the_set() {
    if !granted("root_a_switch_names_only_processes_of_the_set") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let set = fixture.set;
    let id = fixture.list(
        HookPoint::Switch,
        &[
            Insn::Argument(V0, 0, Width::U32),
            Insn::Argument(V1, 1, Width::U32),
            Insn::IfMember(V0, V0, set),
            Insn::IfMember(V1, V1, set),
            Insn::Builtin(Reg(2), Builtin::Cpu),
            RECORD,
        ],
    );
    let (records, runs) = undisturbed(|_| {
        let (_, before) = (fixture.take_records(), fixture.runs(id));
        let sleeps = "import time; it = sum(time.sleep(0.001) or 0 for _ in range(7))";
        let _ = fixture.target.run(sleeps);
        Some((fixture.take_records(), fixture.runs(id) - before))
    });
    let target = u64::from(fixture.target.pid().0);
    let names = |it: &monitor_backend::rule::rule_record::RuleRecord| (it.regs[0], it.regs[1]);
    assert!(records.iter().map(names).all(|pids| {
        pids == (target, u64::MAX) || pids == (u64::MAX, target) || pids == (target, target)
    }));
    assert!(records.len() >= 14 && runs >= 14, "{} switches", records.len());
}
