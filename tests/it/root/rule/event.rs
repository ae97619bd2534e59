//! What happens to processes: forks, programs, ends and signals, each one once.

use super::{RECORD, Scene};
use crate::deadline;
use crate::root::privilege::granted;
use crate::root::workload::undisturbed;
use monitor_backend::rule::insn::{Builtin, CellKind, Compare, Insn, Reg, SignalTarget, Width};
use monitor_backend::rule::{HookPoint, Rules as _};

const V0: Reg = Reg(0);
const V1: Reg = Reg(1);

/// The first two arguments of the place, told.
const TELL: [Insn; 3] =
    [Insn::Argument(V0, 0, Width::U32), Insn::Argument(V1, 1, Width::U32), RECORD];

#[test]
fn root_23_forks_are_23_events_with_parent_and_child() {
    if !granted("root_23_forks_are_23_events_with_parent_and_child") {
        return;
    }
    let mut scene = Scene::new();
    let (fork, exit) = (scene.list(HookPoint::Fork, &TELL), scene.list(HookPoint::Exit, &TELL));
    let spawn = "pids = [subprocess.Popen(['/bin/sh', '-c', 'exit 3']) for _ in range(23)]";
    let _ = scene.target.run(&format!("{spawn}; it = sum(p.wait() for p in pids)"));
    let told = scene.told();
    let values = |list| {
        let of = told.iter().filter(move |it| it.program == list);
        of.map(|it| (it.regs[0], it.regs[1])).collect::<Vec<_>>()
    };
    let target = u64::from(scene.target.pid().0);
    let (born, dead) = (values(fork), values(exit));
    assert_eq!((born.len(), dead.len()), (23, 23));
    assert!(born.iter().all(|(parent, _)| *parent == target), "{born:?}");
    let mut children: Vec<_> = born.iter().map(|(_, child)| (*child, 3 << 8)).collect();
    let mut ended = dead;
    children.sort_unstable();
    ended.sort_unstable();
    assert_eq!(children, ended, "each child ended with its code");
    assert_eq!((scene.runs(fork), scene.runs(exit)), (23, 23));
}

#[test]
fn root_a_thread_is_no_process_and_a_program_is_an_event() {
    if !granted("root_a_thread_is_no_process_and_a_program_is_an_event") {
        return;
    }
    let mut scene = Scene::new();
    let fork = scene.list(HookPoint::Fork, &TELL);
    let (exec, exit) = (scene.list(HookPoint::Exec, &TELL), scene.list(HookPoint::Exit, &TELL));
    let _ = scene.target.run(
        "import threading; t = [threading.Thread(target=print, args=('',), kwargs={'end': '', \
         'file': sys.stderr}) for _ in range(5)]; [x.start() for x in t]; [x.join() for x in t]; \
         it = subprocess.call(['/bin/true'])",
    );
    let counts = [fork, exec, exit].map(|list| scene.runs(list));
    assert_eq!(counts, [1, 1, 1], "forks, programs, ends");
}

#[test]
fn root_23_signals_are_23_events_at_both_ends() {
    if !granted("root_23_signals_are_23_events_at_both_ends") {
        return;
    }
    let mut scene = Scene::new();
    let only = Insn::Filter(V1, Compare::Equal, 40);
    let acts = [TELL[0], TELL[1], only, Insn::Argument(Reg(2), 2, Width::U32), RECORD];
    let made = scene.list(HookPoint::SignalGenerate, &acts);
    let taken = scene.list(HookPoint::SignalDeliver, &acts);
    let target = scene.target.pid();
    let _ = scene.target.run("signal.signal(40, lambda *_: None); it = 0");
    let mut sender = crate::root::actor::Actor::new();
    let _ = sender.run(&format!("for _ in range(23): os.kill({}, 40)", target.0));
    let mut told = Vec::new();
    let of = |told: &[monitor_backend::rule::rule_record::RuleRecord], list| {
        told.iter().filter(|it| it.program == list).count()
    };
    deadline::until(|| {
        told.extend(scene.told());
        (of(&told, taken) >= 23).then_some(())
    });
    assert_eq!((of(&told, made), of(&told, taken)), (23, 23));
    assert!(told.iter().all(|it| it.regs[0] == u64::from(target.0) && it.regs[1] == 40));
    let by_sender = told.iter().filter(|it| it.program == made);
    assert!(by_sender.into_iter().all(|it| it.regs[2] == u64::from(sender.pid().0)));
}

#[test]
fn root_a_rule_signals_who_it_happens_to() {
    if !granted("root_a_rule_signals_who_it_happens_to") {
        return;
    }
    let mut scene = Scene::new();
    let labs = scene.function("labs");
    let _ = scene.target.run("got = []; signal.signal(12, lambda *_: got.append(1)); it = 0");
    let id = scene.list(
        HookPoint::Entry(labs),
        &[
            Insn::Argument(V0, 0, Width::I32),
            Insn::Filter(V0, Compare::Equal, 5),
            Insn::Signal(12, SignalTarget::Process),
        ],
    );
    let _ = scene.target.run("it = sum(l.labs(n) for n in range(10))");
    deadline::until(|| (scene.target.run("it = len(got)") == 1).then_some(()));
    assert_eq!(scene.runs(id), 10);
}

#[test]
fn root_blocking_inside_a_call_is_seen_at_the_switch() {
    if !granted("root_blocking_inside_a_call_is_seen_at_the_switch") {
        return;
    }
    let mut scene = Scene::new();
    let usleep = scene.function("usleep");
    // From now on its code is in memory: nothing within it waits for a disk.
    let _ = scene.target.run("it = l.usleep(1)");
    let inside = scene.rules.make_timer(monitor_backend::rule::insn::TimerScope::Thread).unwrap();
    let (begin, end) = (Insn::StartTimer(inside, V0), Insn::StopTimer(V0, inside));
    let _ = scene.list(HookPoint::Entry(usleep.clone()), &[begin]);
    let _ = scene.list(HookPoint::Return(usleep), &[end]);
    let blocked = scene.rules.make_cell(CellKind::Sum).unwrap();
    let woken = scene.rules.make_cell(CellKind::Sum).unwrap();
    let is_inside = [Insn::TimerRunning(V0, inside), Insn::Filter(V0, Compare::Equal, 1)];
    let waits = [Insn::Argument(V1, 5, Width::U32), Insn::Filter(V1, Compare::NotEqual, 0)];
    let _ =
        scene.list(HookPoint::Switch, &[&is_inside[..], &waits, &[Insn::Count(blocked)]].concat());
    let _ = scene.list(HookPoint::Wakeup, &[&is_inside[..], &[Insn::Count(woken)]].concat());
    let counts = |scene: &Scene| [blocked, woken].map(|it| scene.rules.cell(it).unwrap());
    // Whoever is interrupted wakes it, and a waking in the midst of the first process is hidden.
    let met = undisturbed(|_| {
        let before = counts(&scene);
        let _ = scene.target.run("it = sum(l.usleep(1000) for _ in range(23))");
        let after = counts(&scene);
        Some([0, 1].map(|n| after[n] - before[n]))
    });
    assert_eq!(met, [23, 23]);
}

#[test]
fn root_a_switch_names_only_processes_of_the_set() {
    if !granted("root_a_switch_names_only_processes_of_the_set") {
        return;
    }
    let mut scene = Scene::new();
    let set = scene.set;
    let id = scene.list(
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
    let (told, runs) = undisturbed(|_| {
        let (_, before) = (scene.told(), scene.runs(id));
        let sleeps = "import time; it = sum(time.sleep(0.001) or 0 for _ in range(7))";
        let _ = scene.target.run(sleeps);
        Some((scene.told(), scene.runs(id) - before))
    });
    let target = u64::from(scene.target.pid().0);
    let names = |it: &monitor_backend::rule::rule_record::RuleRecord| (it.regs[0], it.regs[1]);
    assert!(told.iter().map(names).all(|it| {
        it == (target, u64::MAX) || it == (u64::MAX, target) || it == (target, target)
    }));
    assert!(told.len() >= 14 && runs >= 14, "{} switches", told.len());
}
