//! Process sets: a rule on a library applies to the members of its set and to their children.

use super::{LIBRARY, RuleFixture};
use crate::deadline;
use crate::root::actor::Actor;
use crate::root::privilege::granted;
use aya::maps::{HashMap as MembershipTable, Map, MapData};
use monitor_backend::rule::insn::{CellKind, Insn};
use monitor_backend::rule::{Children, HookPoint, RuleProgram, RuleResource, Rules as _};
use monitor_model::Pid;

#[test]
fn root_calls_of_children_are_counted_and_those_of_unrelated_processes_are_not() {
    if !granted("root_calls_of_children_are_counted_and_those_of_unrelated_processes_are_not") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let labs = fixture.function("labs");
    let alone = fixture.rules.make_set(Children::NotIncluded).unwrap();
    fixture.rules.include(alone, fixture.target.pid()).unwrap();
    let mut count = |set| {
        let cell = fixture.rules.make_cell(CellKind::Sum).unwrap();
        let place = HookPoint::Entry(labs.clone());
        let list = RuleProgram::new(place, Some(set), vec![Insn::Count(cell)]);
        let id = fixture.rules.add(&list).unwrap();
        fixture.rules.enable(id);
        cell
    };
    let (with_children, without) = (count(fixture.set), count(alone));
    let mut unrelated = Actor::new();
    let _ = unrelated.run(LIBRARY);
    let _ = unrelated.run("it = sum(l.labs(n) for n in range(11))");
    let _ = fixture.target.run("it = sum(l.labs(n) for n in range(7))");
    let child = fixture.target.run(
        "exec('r, w = os.pipe()\\np = os.fork()\\n\
         if p == 0: os.read(r, 1); [l.labs(1) for _ in range(23)]; os._exit(0)'); it = p",
    );
    fixture.rules.set_probes(Pid(child.try_into().unwrap())).unwrap();
    let _ = fixture.target.run("it = os.write(w, b'x'); os.waitpid(p, 0)");
    assert_eq!(fixture.rules.cell(with_children), Some(30));
    assert_eq!(fixture.rules.cell(without), Some(7));
    fixture.rules.exclude(fixture.set, fixture.target.pid());
    let _ = fixture.target.run("it = l.labs(7)");
    assert_eq!(
        (fixture.rules.cell(with_children), fixture.rules.cell(without)),
        (Some(30), Some(8))
    );
}

/// Another program of the kernel keeps the sets while a rule waits for forks or ends.
#[test]
fn root_children_join_the_set_before_while_and_after_a_rule_waits_for_forks_and_ends() {
    const TEST: &str =
        "root_children_join_the_set_before_while_and_after_a_rule_waits_for_forks_and_ends";
    if !granted(TEST) {
        return;
    }
    let mut fixture = RuleFixture::new();
    let labs = fixture.function("labs");
    let calls = fixture.list(HookPoint::Entry(labs), &[super::RECORD]);
    let child_calls = |fixture: &mut RuleFixture| {
        let child = fixture.target.run(
            "exec('r, w = os.pipe()\\np = os.fork()\\n\
             if p == 0: os.read(r, 1); [l.labs(1) for _ in range(23)]; os._exit(0)'); it = p",
        );
        fixture.rules.set_probes(Pid(child.try_into().unwrap())).unwrap();
        let _ = fixture.target.run("it = os.write(w, b'x'); os.waitpid(p, 0)");
        fixture.runs(calls)
    };
    assert_eq!(child_calls(&mut fixture), 23);
    let waiting = [HookPoint::Fork, HookPoint::Exit];
    let waiting = waiting.map(|hook| fixture.list(hook, &[super::RECORD]));
    assert_eq!(child_calls(&mut fixture), 46);
    assert_eq!(waiting.map(|id| fixture.runs(id)), [1, 1]);
    for id in waiting {
        fixture.rules.remove(id);
    }
    assert_eq!(child_calls(&mut fixture), 69);
}

#[test]
fn root_a_freed_set_is_empty_when_its_number_is_used_again() {
    if !granted("root_a_freed_set_is_empty_when_its_number_is_used_again") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let labs = fixture.function("labs");
    let first = fixture.rules.make_set(Children::Included).unwrap();
    fixture.rules.include(first, fixture.target.pid()).unwrap();
    fixture.rules.free(RuleResource::Set(first));
    let again = fixture.rules.make_set(Children::Included).unwrap();
    assert_eq!(again, first);
    fixture.set = again;
    let id = fixture.list(HookPoint::Entry(labs), &[super::RECORD]);
    let _ = fixture.target.run("it = l.labs(7)");
    assert_eq!(fixture.runs(id), 0);
}

#[test]
fn root_a_process_that_ends_leaves_its_sets() {
    if !granted("root_a_process_that_ends_leaves_its_sets") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let exit = fixture.list(HookPoint::Exit, &[super::RECORD]);
    let mut other = Actor::new();
    // Until it answers, `python3` may be a script that starts others to find out what it is.
    let _ = other.run("it = 0");
    let pid = other.pid();
    fixture.rules.include(fixture.set, pid).unwrap();
    other.leave();
    deadline::until(|| (fixture.runs(exit) != 0).then_some(()));
    assert_eq!(fixture.runs(exit), 1);
    // Including a process that has ended is no error, and the set stays empty.
    fixture.rules.include(fixture.set, pid).unwrap();
    assert_eq!(fixture.take_records().len(), 1);
}

/// Makes a child; one with this pid, if it is not 0 (`clone3(2)`, `set_tid`). `it` is
/// the child's pid, or 0 if the kernel could not give it that one.
fn in_child_with(pid: u64) -> String {
    let way = match pid {
        0 => "p = os.fork()".to_owned(),
        pid => format!(
            "w = ctypes.c_int({pid})\\np = l.syscall(435, struct.pack(\"11Q\", 0, 0, 0, 0, 17, 0, \
             0, 0, ctypes.addressof(w), 1, 0), 88)"
        ),
    };
    format!(
        "import struct; exec('{way}\\nif p == 0: os._exit(0)\\n\
         if p > 0: os.waitpid(p, 0)'); it = max(p, 0)"
    )
}

#[test]
fn root_a_process_with_the_pid_of_an_ended_member_is_not_in_the_set() {
    if !granted("root_a_process_with_the_pid_of_an_ended_member_is_not_in_the_set") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let id = fixture.list(HookPoint::Exit, &[super::RECORD]);
    let mut unrelated = Actor::new();
    let _ = unrelated.run(LIBRARY);
    // Tries again if another process got the pid first.
    let n_children = deadline::until(|| {
        let before = fixture.runs(id);
        let pid = fixture.target.run(&in_child_with(0));
        assert_eq!(fixture.runs(id), before + 1, "the child is in the set");
        (unrelated.run(&in_child_with(pid)) == pid).then_some(before + 1)
    });
    assert_eq!(fixture.runs(id), n_children);
}

/// Writes the row of an earlier process with this pid, whose end the kernel has not seen, in the
/// sets of `member`.
fn insert_ended_member(member: Pid, pid: Pid) {
    let maps = aya::maps::loaded_maps().flatten();
    let tables = maps.filter(|map| map.name_as_str() == Some("MEMBERS")).filter_map(|map| {
        let data = Map::HashMap(MapData::from_id(map.id()).ok()?);
        MembershipTable::<_, u32, [u64; 4]>::try_from(data).ok()
    });
    let with_row = |table: MembershipTable<_, u32, [u64; 4]>| {
        let sets = table.get(&member.0, 0).ok()?[0];
        Some((table, sets))
    };
    let (mut table, sets) = tables.filter_map(with_row).next().unwrap();
    table.insert(pid.0, [sets, 1, 0, 0], 0).unwrap();
}

#[test]
fn root_a_member_whose_end_was_missed_leaves_no_membership_to_its_pid() {
    if !granted("root_a_member_whose_end_was_missed_leaves_no_membership_to_its_pid") {
        return;
    }
    let mut fixture = RuleFixture::new();
    let id = fixture.list(HookPoint::Exit, &[super::RECORD]);
    let mut unrelated = Actor::new();
    let _ = unrelated.run(LIBRARY);
    let before = fixture.runs(id);
    insert_ended_member(fixture.target.pid(), unrelated.pid());
    // Its children do not join the sets either.
    let _ = unrelated.run(&in_child_with(0));
    unrelated.leave();
    let _ = fixture.target.run(&in_child_with(0));
    assert_eq!(fixture.runs(id), before + 1, "only the child of the member");
}
