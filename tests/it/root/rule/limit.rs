//! Rule programs that enable and disable each other, and one that runs too often.

use super::{RECORD, RuleFixture};
use crate::root::privilege::granted;
use monitor_backend::rule::insn::{CellKind, Compare, Insn, Reg, Width};
use monitor_backend::rule::rule_record::RecordReason;
use monitor_backend::rule::{HookPoint, Rules as _};

const V0: Reg = Reg(0);
const ARGUMENT: Insn = Insn::Argument(V0, 0, Width::I32);

#[test]
fn root_a_rule_program_that_runs_too_often_disables_itself_with_a_record() {
    if !granted("root_a_rule_program_that_runs_too_often_disables_itself_with_a_record") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let labs = fixture.function("labs");
    let seen = fixture.rules.make_cell(CellKind::Sum).unwrap();
    let id = fixture.limited(HookPoint::Entry(labs), &[Insn::Count(seen)], Some(100));
    let _ = fixture.target.run("it = sum(l.labs(n) for n in range(5000))");
    // The call above the limit is recorded, and its instructions do not run.
    assert!(!fixture.rules.is_enabled(id));
    let (seen, counts) = (fixture.rules.cell(seen).unwrap(), fixture.rules.run_counts(id));
    assert!((100..200).contains(&seen), "{seen}: a second may begin in between");
    assert_eq!((counts.storms, i64::try_from(counts.runs).unwrap()), (1, seen + 1));
    let records = fixture.take_records();
    assert_eq!(
        records.iter().map(|it| (it.reason, it.program)).collect::<Vec<_>>(),
        [(RecordReason::Storm, id)]
    );
    fixture.rules.enable(id);
    assert!(fixture.rules.is_enabled(id));
}

#[test]
fn root_rule_programs_enable_and_disable_each_other() {
    if !granted("root_rule_programs_enable_and_disable_each_other") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let labs = fixture.function("labs");
    let seen = fixture.rules.make_cell(CellKind::Sum).unwrap();
    let counting = fixture.list(super::ends(&labs), &[Insn::Count(seen)]);
    fixture.rules.disable(counting);
    let is = |value| Insn::Filter(V0, Compare::Equal, value);
    let place = HookPoint::Entry(labs);
    let _ = fixture.list(place.clone(), &[ARGUMENT, is(5), Insn::Enable(counting)]);
    let off = fixture.list(place, &[ARGUMENT, is(28), Insn::Disable(counting)]);
    let _ = fixture.target.run("it = sum(l.labs(n) for n in range(100))");
    assert_eq!(fixture.rules.cell(seen), Some(23), "from 5 until before 28");
    assert!(!fixture.rules.is_enabled(counting) && fixture.rules.is_enabled(off));
}

#[test]
fn root_a_raised_event_runs_its_programs_after_the_one_that_raised_it() {
    if !granted("root_a_raised_event_runs_its_programs_after_the_one_that_raised_it") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let labs = fixture.function("labs");
    let event = fixture.rules.make_event().unwrap();
    let again = fixture.rules.make_event().unwrap();
    let second =
        fixture.list(HookPoint::Raised(event), &[ARGUMENT, Insn::Raise(again, V0), RECORD]);
    let third = fixture.list(HookPoint::Raised(event), &[ARGUMENT, RECORD]);
    let fourth = fixture.list(HookPoint::Raised(again), &[ARGUMENT, RECORD]);
    let acts = [ARGUMENT, Insn::Raise(event, V0), Insn::Constant(V0, -1), RECORD];
    let first = fixture.list(HookPoint::Entry(labs), &acts);
    let _ = fixture.target.run("it = l.labs(42)");
    let records: Vec<_> =
        fixture.take_records().iter().map(|it| (it.program, it.regs[0].cast_signed())).collect();
    assert_eq!(records, [(first, -1), (second, 42), (third, 42), (fourth, 42)]);
}

#[test]
fn root_events_that_raise_each_other_come_to_an_end() {
    if !granted("root_events_that_raise_each_other_come_to_an_end") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let labs = fixture.function("labs");
    let event = fixture.rules.make_event().unwrap();
    let raise = Insn::Raise(event, V0);
    let echo = fixture.list(HookPoint::Raised(event), &[raise]);
    let first = fixture.list(HookPoint::Entry(labs), &[raise, raise, raise]);
    let _ = fixture.target.run("it = l.labs(1)");
    // Two of three found a place; each of them raised the next, until sixteen had been.
    assert_eq!(fixture.rules.run_counts(first).lost_raises, 1);
    let counts = fixture.rules.run_counts(echo);
    assert_eq!((counts.runs, counts.lost_raises), (16, 2));
}
