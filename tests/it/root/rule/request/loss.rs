//! Events that were lost are reported to the user that lost them, and to no other.

use super::super::LIBRARY;
use super::visibility::{CREDENTIALS, USER};
use super::{Tooled, granted};
use crate::deadline;
use crate::root::actor::Actor;
use monitor_sampling::visibility::Visibility;

/// More events than the ring can take.
const STORM: u64 = 60_000;

/// A target of the user, which may read it.
fn target_of_user() -> Actor {
    let mut target = Actor::new();
    let _ = target.run(LIBRARY);
    let ids = format!("*[{USER}] * 3");
    // The last call makes it dumpable again.
    let _ = target.run(&format!(
        "os.setgroups([]); os.setresgid({ids}); os.setresuid({ids}); it = l.prctl(4, 1, 0, 0, 0)"
    ));
    target
}

fn is_loss(line: &&String) -> bool {
    !line.contains("print(")
}

/// Beside root, which observes its own process, a user that observes its own.
fn beside_each_other() -> (Tooled, Actor) {
    let mut tool = Tooled::with_user(Visibility::OwnInFull(CREDENTIALS));
    let target = target_of_user();
    let pid = target.pid().0;
    let event = format!("start_lib_call([{pid}],\"fdatasync\")");
    tool.user_says(&format!("1 [0] attach([{pid}])"), "1 [0] attach(0)");
    tool.user_says(&format!("10 [0] {event}: 11 [0] print([$2])"), "10 [0] start_lib_call(0)");
    tool.user_says("9 [0] enable(10)", "9 [0] enable(0)");
    let event = tool.begun();
    tool.waits(10, &event, "11 [0] print([$2])");
    (tool, target)
}

#[test]
fn root_a_storm_of_a_user_is_its_own_loss() {
    if !granted("root_a_storm_of_a_user_is_its_own_loss") {
        return;
    }
    let (mut tool, mut target) = beside_each_other();
    let _ = target.run(&format!("for _ in range({STORM}): l.fdatasync(-1)"));
    tool.calls("range(100, 123)");
    let lines = tool.next_lines(23);
    let printed: Vec<_> = lines.iter().filter(|line| line.contains("print(")).cloned().collect();
    let want: Vec<String> = (100..123).map(|n| format!("11 [0] print(0,[{n}])")).collect();
    assert_eq!(printed, want);
    deadline::until(|| {
        tool.poll();
        tool.others.iter().any(|line| is_loss(&line)).then_some(())
    });
}

#[test]
fn root_a_user_does_not_see_what_others_lose() {
    if !granted("root_a_user_does_not_see_what_others_lose") {
        return;
    }
    let (mut tool, mut target) = beside_each_other();
    tool.calls(&format!("[-1] * {STORM}"));
    let _ = target.run("for n in range(100, 123): l.fdatasync(n)");
    deadline::until(|| {
        tool.poll();
        let has_lost = tool.lines.iter().any(|line| is_loss(&line));
        (has_lost && tool.others.len() >= 23).then_some(())
    });
    let want: Vec<String> = (100..123).map(|n| format!("11 [0] print(0,[{n}])")).collect();
    assert_eq!(tool.others, want);
}
