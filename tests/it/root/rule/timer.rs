//! How long calls took, and the area below a level.

use super::{RECORD, Scene};
use crate::root::privilege::granted;
use monitor_backend::rule::insn::{Insn, Reg, TimerScope, Width};
use monitor_backend::rule::{HookPoint, RuleResource, Rules as _};

const V0: Reg = Reg(0);
const V4: Reg = Reg(4);

#[test]
fn root_23_calls_are_timed_and_their_ends_know_their_beginnings() {
    if !granted("root_23_calls_are_timed_and_their_ends_know_their_beginnings") {
        return;
    }
    let mut scene = Scene::new();
    let usleep = scene.function("usleep");
    let timer = scene.rules.make_timer(TimerScope::Thread).unwrap();
    let times = scene.rules.make_latency_histogram().unwrap();
    let argument = Insn::Argument(V0, 0, Width::U32);
    let begin = [argument, Insn::StartTimer(timer, V0)];
    let begin = scene.list(HookPoint::Entry(usleep.clone()), &begin);
    let end = [Insn::StopTimer(V4, timer), Insn::LatencyHistogram(times, V4), RECORD];
    let end = scene.list(HookPoint::Return(usleep), &end);
    let _ = scene.target.run("it = sum(l.usleep(2000 + n) for n in range(23))");
    let told = scene.told();
    let kept: Vec<u64> = told.iter().map(|it| it.regs[5]).collect();
    assert_eq!(kept, (2000..2023).collect::<Vec<_>>());
    assert!(told.iter().all(|it| it.regs[4] >= 1000 * it.regs[5]), "in nanoseconds");
    assert_eq!(scene.rules.latency_histogram(times).count(), 23);
    assert_eq!((scene.runs(begin), scene.runs(end)), (23, 23));
}

#[test]
fn root_threads_do_not_end_each_others_calls() {
    if !granted("root_threads_do_not_end_each_others_calls") {
        return;
    }
    let mut scene = Scene::new();
    let usleep = scene.function("usleep");
    let timer = scene.rules.make_timer(TimerScope::Thread).unwrap();
    let begin = [Insn::Argument(V0, 0, Width::U32), Insn::StartTimer(timer, V0)];
    let _ = scene.list(HookPoint::Entry(usleep.clone()), &begin);
    let _ = scene.list(HookPoint::Return(usleep), &[Insn::StopTimer(V4, timer), RECORD]);
    let _ = scene.target.run(
        "import threading; t = [threading.Thread(target=l.usleep, args=(20000 + 1000 * n,)) for n \
         in range(7)]; [x.start() for x in t]; [x.join() for x in t]; it = 0",
    );
    let told = scene.told();
    assert_eq!(told.len(), 7);
    assert!(told.iter().all(|it| it.regs[4] >= 1000 * it.regs[5]), "{told:?}");
}

#[test]
fn root_an_end_without_a_beginning_is_counted_and_tells_nothing() {
    if !granted("root_an_end_without_a_beginning_is_counted_and_tells_nothing") {
        return;
    }
    let mut scene = Scene::new();
    let labs = scene.function("labs");
    let timer = scene.rules.make_timer(TimerScope::Thread).unwrap();
    let begin = scene.list(HookPoint::Entry(labs.clone()), &[Insn::StartTimer(timer, V0)]);
    let _ = scene.target.run("it = l.labs(1)");
    // The number goes to another timer, for which nothing has begun.
    scene.rules.remove(begin);
    scene.rules.free(RuleResource::Timer(timer));
    let again = scene.rules.make_timer(TimerScope::Thread).unwrap();
    assert_eq!(again.index, timer.index);
    let end = scene.list(HookPoint::Return(labs), &[Insn::StopTimer(V4, again), RECORD]);
    let _ = scene.target.run("it = sum(l.labs(n) for n in range(23))");
    assert_eq!(scene.rules.run_counts(end).lost_times, 23);
    assert_eq!(scene.told(), []);
}

#[test]
fn root_an_area_is_the_level_times_the_time() {
    if !granted("root_an_area_is_the_level_times_the_time") {
        return;
    }
    let mut scene = Scene::new();
    let labs = scene.function("labs");
    let area = scene.rules.make_gauge(0).unwrap();
    let level = scene.rules.make_gauge(0).unwrap();
    let argument = Insn::Argument(V0, 0, Width::I32);
    let acts = [argument, Insn::SetGauge(level, V0), Insn::ChangeGauge(area, V0), RECORD];
    let _ = scene.list(HookPoint::Entry(labs), &acts);
    // 3 for a while; then 3 + 2 - 5, or 2 and then -5, which ends at a level of its own; then 0.
    let _ = scene.target.run("import time; it = l.labs(3); time.sleep(0.05)");
    let _ = scene.target.run("it = l.labs(2); time.sleep(0.05); it = l.labs(-5)");
    let _ = scene.target.run("it = l.labs(0)");
    let told = scene.told();
    let at = |n: usize| i64::try_from(told[n].at.0).unwrap();
    let changed = 3 * (at(1) - at(0)) + 5 * (at(2) - at(1));
    let set = 3 * (at(1) - at(0)) + 2 * (at(2) - at(1)) - 5 * (at(3) - at(2));
    // The clock is read once for all that a list does.
    assert_eq!(scene.rules.gauge_integral(area).integral_at(told[3].at), i128::from(changed));
    assert_eq!(scene.rules.gauge_integral(level).integral_at(told[3].at), i128::from(set));
    let levels: Vec<i64> = told.iter().map(|it| it.regs[0].cast_signed()).collect();
    assert_eq!(levels, [3, 5, 0, 0], "what the level was changed to");
}
