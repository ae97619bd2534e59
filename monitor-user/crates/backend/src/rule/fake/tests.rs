//! The fake and the kernel agree: `tests/it/root/rule` runs the same cases in the kernel.

use super::{FakeRules, HookHit};
use crate::rule::insn::{CellKind, Compare, Insn, RecordOptions, Reg, TimerScope, Width};
use crate::rule::{Children, HookPoint, RuleProgram, Rules as _, Site};
use monitor_model::id::{Ns, Pid};

const V0: Reg = Reg(0);
const ARGUMENT: Insn = Insn::Argument(V0, 0, Width::I32);
const RECORD: Insn =
    Insn::Record(RecordOptions { texts: 0, stack: false, urgent: false, stop: None });

fn call() -> HookPoint {
    HookPoint::Entry(Site { path: "/lib/libc.so.6".into(), offset: 64 })
}

fn program(rules: &mut FakeRules, hook: HookPoint, insns: &[Insn]) -> crate::rule::ProgramId {
    let program = RuleProgram::new(hook, None, insns.to_vec());
    let id = rules.add(&program).unwrap();
    rules.enable(id);
    id
}

fn calls(rules: &mut FakeRules, arguments: impl Iterator<Item = i64>) {
    for argument in arguments {
        let arguments = [argument.cast_unsigned(), 0, 0, 0, 0, 0];
        rules.hit(HookHit { hook: call(), pid: Pid(5), tid: Pid(6), credentials: None, arguments });
    }
}

#[test]
fn counts_sums_and_extremes_of_chosen_calls_are_exact() {
    let mut rules = FakeRules::default();
    let mut cell = |kind| rules.make_cell(kind).unwrap();
    let (sum, least) = (cell(CellKind::Sum), cell(CellKind::Min));
    let only = Insn::Filter(V0, Compare::Greater, -10);
    let insns = [ARGUMENT, only, Insn::Add(sum, V0), Insn::Extreme(least, V0)];
    let id = program(&mut rules, call(), &insns);
    assert_eq!(rules.cell(least), None);
    calls(&mut rules, -11..12);
    assert_eq!((rules.cell(sum), rules.cell(least)), (Some((-9..12).sum()), Some(-9)));
    assert_eq!(rules.run_counts(id).runs, 23);
}

#[test]
fn a_raised_event_runs_its_programs_after_the_one_that_raised_it() {
    let mut rules = FakeRules::default();
    let event = rules.make_event().unwrap();
    let second = program(&mut rules, HookPoint::Raised(event), &[ARGUMENT, RECORD]);
    let insns = [ARGUMENT, Insn::Raise(event, V0), Insn::Constant(V0, -1), RECORD];
    let first = program(&mut rules, call(), &insns);
    calls(&mut rules, std::iter::once(42));
    let mut records = Vec::new();
    let mut reader = rules.take_reader().unwrap();
    let take = &mut |it: crate::rule::rule_record::RuleRecord| {
        records.push((it.program, it.regs[0].cast_signed()));
    };
    assert_eq!(reader.read(9, take), 2);
    assert_eq!(records, [(first, -1), (second, 42)]);
}

#[test]
fn a_timer_measures_from_its_start_and_an_integral_follows_its_gauge() {
    let mut rules = FakeRules::default();
    let timer = rules.make_timer(TimerScope::Thread).unwrap();
    let (took, level) = (rules.make_cell(CellKind::Max).unwrap(), rules.make_gauge(0).unwrap());
    let begin = [ARGUMENT, Insn::StartTimer(timer, V0), Insn::SetGauge(level, V0)];
    let _ = program(&mut rules, call(), &begin);
    let end = [Insn::StopTimer(V0, timer), Insn::Extreme(took, V0)];
    let end = program(&mut rules, HookPoint::Exec, &end);
    let exec = HookHit {
        hook: HookPoint::Exec,
        pid: Pid(5),
        tid: Pid(6),
        credentials: None,
        arguments: [0; 6],
    };
    rules.hit(exec.clone());
    assert_eq!(rules.run_counts(end).lost_times, 1);
    calls(&mut rules, std::iter::once(3));
    rules.now = Ns(700);
    rules.hit(exec);
    assert_eq!(
        (rules.cell(took), rules.gauge_integral(level).integral_at(Ns(700))),
        (Some(700), 2100)
    );
}

#[test]
fn children_of_members_join_the_set() {
    let mut rules = FakeRules::default();
    let set = rules.make_set(Children::Included).unwrap();
    rules.include(set, Pid(1)).unwrap();
    let program = RuleProgram::new(call(), Some(set), vec![]);
    let id = rules.add(&program).unwrap();
    rules.enable(id);
    calls(&mut rules, 0..2);
    assert_eq!(rules.run_counts(id).runs, 0);
    let arguments = [1, 5, 5, 0, 0, 0];
    rules.hit(HookHit {
        hook: HookPoint::Fork,
        pid: Pid(5),
        tid: Pid(5),
        credentials: None,
        arguments,
    });
    calls(&mut rules, 0..2);
    assert_eq!(rules.run_counts(id).runs, 2);
}

#[test]
fn programs_of_one_switch_are_switched_together_and_by_another_program() {
    let mut rules = FakeRules::default();
    let switch = rules.make_switch().unwrap();
    let counts = [(); 2].map(|()| rules.make_cell(CellKind::Sum).unwrap());
    for count in counts {
        let program = RuleProgram::new(call(), None, vec![Insn::Count(count)]);
        rules.add(&RuleProgram { switch: Some(switch), ..program }).unwrap();
    }
    let off =
        rules.add(&RuleProgram::new(HookPoint::Exec, None, vec![Insn::Disable(switch)])).unwrap();
    rules.enable(off);
    let counted = |rules: &FakeRules| counts.map(|count| rules.cell(count));
    let happens = |rules: &mut FakeRules, hook| {
        rules.hit(HookHit { hook, pid: Pid(7), tid: Pid(7), credentials: None, arguments: [0; 6] });
    };
    happens(&mut rules, call());
    rules.enable(switch);
    happens(&mut rules, call());
    happens(&mut rules, HookPoint::Exec);
    happens(&mut rules, call());
    assert_eq!(counted(&rules), [Some(1); 2]);
    assert!(!rules.is_enabled(switch));
}
