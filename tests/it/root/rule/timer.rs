//! Durations of calls, and the integral of a gauge over time.

use super::{RECORD, RuleFixture};
use crate::root::privilege::granted;
use monitor_backend::rule::insn::{Insn, Reg, TimerScope, Width};
use monitor_backend::rule::{HookPoint, RuleResource, Rules as _};

const V0: Reg = Reg(0);
const V4: Reg = Reg(4);

#[test]
fn root_23_calls_are_timed_and_keep_the_argument_of_their_start() {
    if !granted("root_23_calls_are_timed_and_keep_the_argument_of_their_start") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let usleep = fixture.function("usleep");
    let timer = fixture.rules.make_timer(TimerScope::Thread).unwrap();
    let times = fixture.rules.make_latency_histogram().unwrap();
    let argument = Insn::Argument(V0, 0, Width::U32);
    let begin = [argument, Insn::StartTimer(timer, V0)];
    let begin = fixture.list(HookPoint::Entry(usleep.clone()), &begin);
    let end = [Insn::StopTimer(V4, timer), Insn::LatencyHistogram(times, V4), RECORD];
    let end = fixture.list(super::ends(&usleep), &end);
    let _ = fixture.target.run("it = sum(l.usleep(2000 + n) for n in range(23))");
    let records = fixture.take_records();
    let kept: Vec<u64> = records.iter().map(|it| it.regs[5]).collect();
    assert_eq!(kept, (2000..2023).collect::<Vec<_>>());
    assert!(records.iter().all(|it| it.regs[4] >= 1000 * it.regs[5]), "in nanoseconds");
    assert_eq!(fixture.rules.latency_histogram(times).count(), 23);
    assert_eq!((fixture.runs(begin), fixture.runs(end)), (23, 23));
}

#[test]
fn root_threads_do_not_end_each_others_calls() {
    if !granted("root_threads_do_not_end_each_others_calls") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let usleep = fixture.function("usleep");
    let timer = fixture.rules.make_timer(TimerScope::Thread).unwrap();
    let begin = [Insn::Argument(V0, 0, Width::U32), Insn::StartTimer(timer, V0)];
    let _ = fixture.list(HookPoint::Entry(usleep.clone()), &begin);
    let _ = fixture.list(super::ends(&usleep), &[Insn::StopTimer(V4, timer), RECORD]);
    let _ = fixture.target.run(
        "import threading; t = [threading.Thread(target=l.usleep, args=(20000 + 1000 * n,)) for n \
         in range(7)]; [x.start() for x in t]; [x.join() for x in t]; it = 0",
    );
    let records = fixture.take_records();
    assert_eq!(records.len(), 7);
    assert!(records.iter().all(|it| it.regs[4] >= 1000 * it.regs[5]), "{records:?}");
}

#[test]
fn root_an_end_without_a_beginning_is_counted_and_makes_no_record() {
    if !granted("root_an_end_without_a_beginning_is_counted_and_makes_no_record") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let labs = fixture.function("labs");
    let timer = fixture.rules.make_timer(TimerScope::Thread).unwrap();
    let begin = fixture.list(HookPoint::Entry(labs.clone()), &[Insn::StartTimer(timer, V0)]);
    let _ = fixture.target.run("it = l.labs(1)");
    // The number goes to another timer, for which nothing has begun.
    fixture.rules.remove(begin);
    fixture.rules.free(RuleResource::Timer(timer));
    let again = fixture.rules.make_timer(TimerScope::Thread).unwrap();
    assert_eq!(again.index, timer.index);
    let end = fixture.list(super::ends(&labs), &[Insn::StopTimer(V4, again), RECORD]);
    let _ = fixture.target.run("it = sum(l.labs(n) for n in range(23))");
    assert_eq!(fixture.rules.run_counts(end).lost_times, 23);
    assert_eq!(fixture.take_records(), []);
}

#[test]
fn root_an_integral_is_the_gauge_times_the_time() {
    if !granted("root_an_integral_is_the_gauge_times_the_time") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let labs = fixture.function("labs");
    let area = fixture.rules.make_gauge(0).unwrap();
    let level = fixture.rules.make_gauge(0).unwrap();
    let argument = Insn::Argument(V0, 0, Width::I32);
    let acts = [argument, Insn::SetGauge(level, V0), Insn::ChangeGauge(area, V0), RECORD];
    let _ = fixture.list(HookPoint::Entry(labs), &acts);
    // 3 for a while; then 3 + 2 - 5, or 2 and then -5, which ends at a level of its own; then 0.
    let _ = fixture.target.run("import time; it = l.labs(3); time.sleep(0.05)");
    let _ = fixture.target.run("it = l.labs(2); time.sleep(0.05); it = l.labs(-5)");
    let _ = fixture.target.run("it = l.labs(0)");
    let records = fixture.take_records();
    let at = |n: usize| i64::try_from(records[n].at.0).unwrap();
    let changed = 3 * (at(1) - at(0)) + 5 * (at(2) - at(1));
    let set = 3 * (at(1) - at(0)) + 2 * (at(2) - at(1)) - 5 * (at(3) - at(2));
    // The clock is read once for all that a list does.
    assert_eq!(fixture.rules.gauge_integral(area).integral_at(records[3].at), i128::from(changed));
    assert_eq!(fixture.rules.gauge_integral(level).integral_at(records[3].at), i128::from(set));
    let levels: Vec<i64> = records.iter().map(|it| it.regs[0].cast_signed()).collect();
    assert_eq!(levels, [3, 5, 0, 0], "what the level was changed to");
}
