//! The script and the kernel agree: these are cases that `tests/it/root/rule` runs there.

use super::{Happened, Scripted};
use crate::rule::act::{Act, CellKind, Compare, Recorded, Value, Whose, Width};
use crate::rule::{Children, List, Place, Rules as _, Site};
use monitor_model::id::{Ns, Pid};

const V0: Value = Value(0);
const ARGUMENT: Act = Act::Argument(V0, 0, Width::I32);
const RECORD: Act = Act::Record(Recorded { texts: 0, stack: false, urgent: false, holds: None });

fn call() -> Place {
    Place::Entry(Site { path: "/lib/libc.so.6".into(), offset: 64 })
}

fn list(rules: &mut Scripted, place: Place, acts: &[Act]) -> crate::rule::ListId {
    let list = List::new(place, None, acts.to_vec());
    let id = rules.add(&list).unwrap();
    rules.enable(id);
    id
}

fn calls(rules: &mut Scripted, arguments: impl Iterator<Item = i64>) {
    for argument in arguments {
        let arguments = [argument.cast_unsigned(), 0, 0, 0, 0, 0];
        rules.happen(Happened { place: call(), pid: Pid(5), tid: Pid(6), eyes: None, arguments });
    }
}

#[test]
fn counts_sums_and_extremes_of_chosen_calls_are_exact() {
    let mut rules = Scripted::default();
    let mut cell = |kind| rules.make_cell(kind).unwrap();
    let (sum, least) = (cell(CellKind::Sum), cell(CellKind::Least));
    let only = Act::Filter(V0, Compare::Greater, -10);
    let acts = [ARGUMENT, only, Act::Add(sum, V0), Act::Extreme(least, V0)];
    let id = list(&mut rules, call(), &acts);
    assert_eq!(rules.cell(least), None);
    calls(&mut rules, -11..12);
    assert_eq!((rules.cell(sum), rules.cell(least)), (Some((-9..12).sum()), Some(-9)));
    assert_eq!(rules.tally(id).runs, 23);
}

#[test]
fn a_raised_event_runs_its_lists_after_the_one_that_raised_it() {
    let mut rules = Scripted::default();
    let event = rules.make_event().unwrap();
    let second = list(&mut rules, Place::Raised(event), &[ARGUMENT, RECORD]);
    let acts = [ARGUMENT, Act::Raise(event, V0), Act::Constant(V0, -1), RECORD];
    let first = list(&mut rules, call(), &acts);
    calls(&mut rules, std::iter::once(42));
    let mut told = Vec::new();
    let mut reader = rules.take_reader().unwrap();
    let take = &mut |it: crate::rule::told::Told| {
        told.push((it.list, it.values[0].cast_signed()));
    };
    assert_eq!(reader.read(9, take), 2);
    assert_eq!(told, [(first, -1), (second, 42)]);
}

#[test]
fn an_end_knows_its_beginning_and_an_area_its_level() {
    let mut rules = Scripted::default();
    let timer = rules.make_timer(Whose::Thread).unwrap();
    let (took, level) = (rules.make_cell(CellKind::Most).unwrap(), rules.make_level(0).unwrap());
    let begin = [ARGUMENT, Act::Begin(timer, V0), Act::Level(level, V0)];
    let _ = list(&mut rules, call(), &begin);
    let end = [Act::End(V0, timer), Act::Extreme(took, V0)];
    let end = list(&mut rules, Place::Exec, &end);
    let exec =
        Happened { place: Place::Exec, pid: Pid(5), tid: Pid(6), eyes: None, arguments: [0; 6] };
    rules.happen(exec.clone());
    assert_eq!(rules.tally(end).lost_times, 1);
    calls(&mut rules, std::iter::once(3));
    rules.now = Ns(700);
    rules.happen(exec);
    assert_eq!((rules.cell(took), rules.area(level).until(Ns(700))), (Some(700), 2100));
}

#[test]
fn children_of_a_set_are_in_it() {
    let mut rules = Scripted::default();
    let set = rules.make_set(Children::Included).unwrap();
    rules.include(set, Pid(1)).unwrap();
    let list = List::new(call(), Some(set), vec![]);
    let id = rules.add(&list).unwrap();
    rules.enable(id);
    calls(&mut rules, 0..2);
    assert_eq!(rules.tally(id).runs, 0);
    let arguments = [1, 5, 5, 0, 0, 0];
    rules.happen(Happened { place: Place::Fork, pid: Pid(5), tid: Pid(5), eyes: None, arguments });
    calls(&mut rules, 0..2);
    assert_eq!(rules.tally(id).runs, 2);
}

#[test]
fn lists_of_one_switch_are_switched_together_and_by_another_list() {
    let mut rules = Scripted::default();
    let switch = rules.make_switch().unwrap();
    let counts = [(); 2].map(|()| rules.make_cell(CellKind::Sum).unwrap());
    for count in counts {
        let list = List::new(call(), None, vec![Act::Count(count)]);
        rules.add(&List { switch: Some(switch), ..list }).unwrap();
    }
    let off = rules.add(&List::new(Place::Exec, None, vec![Act::Disable(switch)])).unwrap();
    rules.enable(off);
    let counted = |rules: &Scripted| counts.map(|count| rules.cell(count));
    let happens = |rules: &mut Scripted, place| {
        rules.happen(Happened { place, pid: Pid(7), tid: Pid(7), eyes: None, arguments: [0; 6] });
    };
    happens(&mut rules, call());
    rules.enable(switch);
    happens(&mut rules, call());
    happens(&mut rules, Place::Exec);
    happens(&mut rules, call());
    assert_eq!(counted(&rules), [Some(1); 2]);
    assert!(!rules.is_enabled(switch));
}
