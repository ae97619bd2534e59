//! Calls of a library: each one is counted, with its arguments and its result.

use super::{RECORD, RuleFixture};
use crate::deadline;
use crate::root::privilege::granted;
use crate::root::undo::{programs, programs_of};
use monitor_backend::rule::insn::{
    Builtin, CellKind, Compare, Insn, MAX_REGS, RecordOptions, Reg, Width,
};
use monitor_backend::rule::{HookPoint, Rules as _};
use monitor_loader::rule::KernelRules;
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt as _;

const V0: Reg = Reg(0);
const V1: Reg = Reg(1);

#[test]
fn root_23_calls_are_23_events_with_arguments_and_results() {
    if !granted("root_23_calls_are_23_events_with_arguments_and_results") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let labs = fixture.function("labs");
    let argument = Insn::Argument(V0, 0, Width::U64);
    let entry = [argument, Insn::Builtin(V1, Builtin::Pid), RECORD];
    let entry = fixture.list(HookPoint::Entry(labs.clone()), &entry);
    let exit = fixture.list(super::ends(&labs), &[argument, RECORD]);
    let _ = fixture.target.run("it = sum(l.labs(-n - 1) for n in range(23))");
    let records = fixture.take_records();
    let pid = fixture.target.pid();
    let of = |list| records.iter().filter(move |it| it.program == list);
    let arguments: Vec<i64> = of(entry).map(|it| it.regs[0].cast_signed()).collect();
    assert_eq!(arguments, (1..=23).map(|n: i64| -n).collect::<Vec<_>>());
    let results: Vec<u64> = of(exit).map(|it| it.regs[0]).collect();
    assert_eq!(results, (1..=23).collect::<Vec<_>>());
    assert!(
        of(entry).all(|it| it.process.pid == pid && it.regs[1] == u64::from(pid.0) && it.ip != 0)
    );
    assert_eq!((fixture.runs(entry), fixture.runs(exit), records.len()), (23, 23, 46));
}

#[test]
fn root_counts_sums_and_extremes_of_chosen_calls_are_exact() {
    if !granted("root_counts_sums_and_extremes_of_chosen_calls_are_exact") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let labs = fixture.function("labs");
    let mut cell = |kind| fixture.rules.make_cell(kind).unwrap();
    let (calls, sum) = (cell(CellKind::Sum), cell(CellKind::Sum));
    let (least, most) = (cell(CellKind::Min), cell(CellKind::Max));
    let id = fixture.list(
        HookPoint::Entry(labs),
        &[
            Insn::Argument(V0, 0, Width::I32),
            Insn::Filter(V0, Compare::Greater, -10),
            Insn::Count(calls),
            Insn::Add(sum, V0),
            Insn::Extreme(least, V0),
            Insn::Extreme(most, V0),
        ],
    );
    assert_eq!((fixture.rules.cell(least), fixture.rules.cell(most)), (None, None));
    let _ = fixture.target.run("it = sum(l.labs(n) for n in range(-11, 12))");
    let held = [calls, sum, least, most].map(|cell| fixture.rules.cell(cell));
    assert_eq!(held, [Some(21), Some((-9..12).sum()), Some(-9), Some(11)]);
    assert_eq!(fixture.runs(id), 23);
}

#[test]
fn root_rule_programs_can_be_disabled_replaced_and_removed() {
    if !granted("root_rule_programs_can_be_disabled_replaced_and_removed") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let labs = fixture.function("labs");
    let mut cell = || fixture.rules.make_cell(CellKind::Sum).unwrap();
    let (first, second) = (cell(), cell());
    let id = fixture.list(HookPoint::Entry(labs), &[Insn::Count(first)]);
    let mut counts = |change: &mut dyn FnMut(&mut dyn monitor_backend::rule::Rules)| {
        change(&mut fixture.rules);
        let _ = fixture.target.run("it = sum(l.labs(n) for n in range(7))");
        (fixture.rules.cell(first).unwrap(), fixture.rules.cell(second).unwrap())
    };
    assert_eq!(counts(&mut |_| {}), (7, 0));
    assert_eq!(counts(&mut |rules| rules.disable(id)), (7, 0));
    assert_eq!(counts(&mut |rules| rules.replace(id, &[Insn::Count(second)]).unwrap()), (7, 0));
    assert_eq!(counts(&mut |rules| rules.enable(id)), (7, 7));
    let both = [Insn::Count(second), Insn::Count(first)];
    assert_eq!(counts(&mut |rules| rules.replace(id, &both).unwrap()), (14, 14));
    assert_eq!(counts(&mut |rules| rules.remove(id)), (14, 14));
}

#[test]
fn root_texts_memory_and_the_stack_are_those_of_the_call() {
    if !granted("root_texts_memory_and_the_stack_are_those_of_the_call") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let atoi = fixture.function("atoi");
    let mut acts = vec![
        Insn::Argument(V0, 0, Width::U64),
        Insn::Memory(V1, V0, 1, Width::U8),
        Insn::Constant(Reg(7), 0),
    ];
    let texts = 0b1000_0001;
    acts.push(Insn::Record(RecordOptions { texts, stack: true, ..RecordOptions::default() }));
    let id = fixture.list(HookPoint::Entry(atoi), &acts);
    let _ = fixture.target.run("it = l.atoi(b'1234')");
    let records = fixture.take_records();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].texts, [Some(b"1234".to_vec()), None], "nothing is at address 0");
    assert_eq!(records[0].regs[1], u64::from(b'2'));
    assert_eq!(records[0].regs.len(), MAX_REGS);
    assert_eq!(records[0].stack.first(), Some(&records[0].ip));
    assert_eq!(fixture.runs(id), 1);
}

#[test]
fn root_memory_that_cannot_be_read_ends_the_run_and_is_counted() {
    if !granted("root_memory_that_cannot_be_read_ends_the_run_and_is_counted") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let labs = fixture.function("labs");
    let seen = fixture.rules.make_cell(CellKind::Sum).unwrap();
    let read = Insn::Memory(V1, V0, 8, Width::U64);
    let acts = [Insn::Argument(V0, 0, Width::U64), read, Insn::Count(seen)];
    let id = fixture.list(HookPoint::Entry(labs), &acts);
    let _ = fixture.target.run("it = sum(l.labs(n) for n in range(5))");
    assert_eq!((fixture.rules.cell(seen), fixture.rules.run_counts(id).faults), (Some(0), 5));
}

#[test]
fn root_detached_probes_leave_the_code_as_it_was() {
    if !granted("root_detached_probes_leave_the_code_as_it_was") {
        return;
    }
    let own = || programs_of(std::process::id());
    let before = own();
    let mut fixture = RuleFixture::new();
    let labs = fixture.function("labs");
    let address = fixture.target.run("it = ctypes.cast(l.labs, ctypes.c_void_p).value");
    let memory = std::fs::File::open(format!("/proc/{}/mem", fixture.target.pid().0)).unwrap();
    let code = || {
        let mut code = [0; 16];
        memory.read_exact_at(&mut code, address).unwrap();
        code
    };
    let untouched = code();
    let _ = fixture.list(HookPoint::Entry(labs.clone()), &[RECORD]);
    let _ = fixture.list(super::ends(&labs), &[RECORD]);
    let _ = fixture.list(HookPoint::Fork, &[RECORD]);
    assert_ne!(code(), untouched);
    let ours: BTreeSet<u32> = own().difference(&before).copied().collect();
    assert!(ours.len() >= 4, "{ours:?}");
    // Only the rules are dropped; the target stays.
    fixture.rules = KernelRules::open().unwrap();
    deadline::until(|| (code() == untouched && programs().is_disjoint(&ours)).then_some(()));
    let _ = fixture.target.run("it = l.labs(-3)");
}

/// The kernel removes probes later than the rules that they ran.
#[test]
fn root_probes_of_a_removed_program_run_no_other() {
    if !granted("root_probes_of_a_removed_program_run_no_other") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let functions = ["labs", "getppid"].map(|name| HookPoint::Entry(fixture.function(name)));
    for _ in 0..4 {
        let removed = fixture.list(functions[0].clone(), &[RECORD]);
        fixture.rules.remove(removed);
        let other = fixture.list(functions[1].clone(), &[RECORD]);
        let _ = fixture.target.run("it = sum(l.labs(n) for n in range(23))");
        let _ = fixture.target.run("it = l.getppid()");
        assert_eq!(fixture.runs(other), 1);
        fixture.rules.remove(other);
    }
}

#[test]
fn root_a_process_that_leaves_a_set_and_joins_it_again_has_each_probe_once() {
    if !granted("root_a_process_that_leaves_a_set_and_joins_it_again_has_each_probe_once") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let labs = fixture.function("labs");
    let id = fixture.list(HookPoint::Entry(labs), &[RECORD]);
    for round in 1..=4 {
        fixture.rules.exclude(fixture.set, fixture.target.pid());
        fixture.rules.include(fixture.set, fixture.target.pid()).unwrap();
        let _ = fixture.target.run("it = sum(l.labs(n) for n in range(23))");
        assert_eq!(fixture.runs(id), 23 * round);
    }
}
