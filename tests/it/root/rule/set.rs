//! Sets of processes: a rule on a library is for those who are in, and for their children.

use super::{LIBRARY, Scene};
use crate::deadline;
use crate::root::actor::Actor;
use crate::root::privilege::granted;
use monitor_backend::rule::insn::{CellKind, Insn};
use monitor_backend::rule::{Children, HookPoint, RuleProgram, RuleResource, Rules as _};

/// Calls `labs` in so many children, and waits for each.
fn in_children(n: u32) -> String {
    let child = "exec('p = os.fork()\\nif p == 0: l.labs(1); os._exit(0)\\nos.waitpid(p, 0)')";
    format!("it = len([{child} for _ in range({n})])")
}

#[test]
fn root_calls_of_strangers_are_not_counted_and_those_of_children_are() {
    if !granted("root_calls_of_strangers_are_not_counted_and_those_of_children_are") {
        return;
    }
    let mut scene = Scene::new();
    let labs = scene.function("labs");
    let alone = scene.rules.make_set(Children::NotIncluded).unwrap();
    scene.rules.include(alone, scene.target.pid()).unwrap();
    let mut count = |set| {
        let cell = scene.rules.make_cell(CellKind::Sum).unwrap();
        let place = HookPoint::Entry(labs.clone());
        let list = RuleProgram::new(place, set, vec![Insn::Count(cell)]);
        let id = scene.rules.add(&list).unwrap();
        scene.rules.enable(id);
        cell
    };
    let (with_children, without, everybody) =
        (count(Some(scene.set)), count(Some(alone)), count(None));
    let mut stranger = Actor::new();
    let _ = stranger.run(LIBRARY);
    let _ = stranger.run("it = sum(l.labs(n) for n in range(11))");
    let _ = scene.target.run("it = sum(l.labs(n) for n in range(7))");
    let _ = scene.target.run(&in_children(23));
    assert_eq!(scene.rules.cell(with_children), Some(30));
    assert_eq!(scene.rules.cell(without), Some(7));
    assert!(scene.rules.cell(everybody) >= Some(41));
    scene.rules.exclude(scene.set, scene.target.pid());
    let _ = scene.target.run("it = l.labs(7)");
    assert_eq!((scene.rules.cell(with_children), scene.rules.cell(without)), (Some(30), Some(8)));
}

#[test]
fn root_a_set_that_was_freed_has_nobody_when_it_comes_back() {
    if !granted("root_a_set_that_was_freed_has_nobody_when_it_comes_back") {
        return;
    }
    let mut scene = Scene::new();
    let labs = scene.function("labs");
    let first = scene.rules.make_set(Children::Included).unwrap();
    scene.rules.include(first, scene.target.pid()).unwrap();
    scene.rules.free(RuleResource::Set(first));
    let again = scene.rules.make_set(Children::Included).unwrap();
    assert_eq!(again, first);
    scene.set = again;
    let id = scene.list(HookPoint::Entry(labs), &[super::RECORD]);
    let _ = scene.target.run("it = l.labs(7)");
    assert_eq!(scene.runs(id), 0);
}

#[test]
fn root_who_ends_leaves_its_sets() {
    if !granted("root_who_ends_leaves_its_sets") {
        return;
    }
    let mut scene = Scene::new();
    let exit = scene.list(HookPoint::Exit, &[super::RECORD]);
    let mut other = Actor::new();
    // Until it answers, `python3` may be a script that starts others to find out what it is.
    let _ = other.run("it = 0");
    let pid = other.pid();
    scene.rules.include(scene.set, pid).unwrap();
    other.leave();
    deadline::until(|| (scene.runs(exit) != 0).then_some(()));
    assert_eq!(scene.runs(exit), 1);
    // It may be put in once more by one who does not know: that is no error, and nobody is in.
    scene.rules.include(scene.set, pid).unwrap();
    assert_eq!(scene.told().len(), 1);
}

/// Calls `labs` in a child; in one with this pid, if it is not 0 (`clone3(2)`, `set_tid`). `it` is
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
        "import struct; exec('{way}\\nif p == 0: l.labs(1); os._exit(0)\\n\
         if p > 0: os.waitpid(p, 0)'); it = max(p, 0)"
    )
}

#[test]
fn root_who_gets_the_pid_of_one_that_was_in_a_set_is_not_in_it() {
    if !granted("root_who_gets_the_pid_of_one_that_was_in_a_set_is_not_in_it") {
        return;
    }
    let mut scene = Scene::new();
    let labs = scene.function("labs");
    let id = scene.list(HookPoint::Entry(labs), &[super::RECORD]);
    let mut stranger = Actor::new();
    let _ = stranger.run(LIBRARY);
    // Again, if somebody else has got the pid first.
    let n_children = deadline::until(|| {
        let before = scene.runs(id);
        let pid = scene.target.run(&in_child_with(0));
        assert_eq!(scene.runs(id), before + 1, "the child is in the set");
        (stranger.run(&in_child_with(pid)) == pid).then_some(before + 1)
    });
    assert_eq!(scene.runs(id), n_children);
}
