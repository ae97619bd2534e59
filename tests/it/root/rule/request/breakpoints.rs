//! A process has the breakpoints of the requests that name it, and none of another tool's.

use super::{Tooled, granted};
use crate::root::actor::Actor;
use crate::root::harmless::changed_code;
use crate::root::rule::LIBRARY;
use monitor_event::right::{SessionId, Tool};
use monitor_omis::Dialect;
use monitor_services::requests::EngineInput;
use std::collections::BTreeSet;

/// The places in libc that differ from its file; the dynamic linker's is in each process that is
/// watched, for libraries that it loads later.
fn libc_breakpoints(pid: u32) -> BTreeSet<u64> {
    let changed = changed_code(pid).into_iter();
    changed.filter(|(path, _)| path.contains("/libc.so")).map(|(_, offset)| offset).collect()
}

impl Tooled {
    /// Opens a session of another tool on connection 2, attached to a process.
    fn with_other_tool(pid: u32) -> Self {
        let mut it = Self::new();
        let other = Tool::root(SessionId { entry: 0, conn: 2 }, 2);
        it.input(EngineInput::Opened(other, Dialect::Extended));
        it.user_says(&format!("1 [0] attach([{pid}])"), "1 [0] attach(0)");
        it
    }
}

fn check_breakpoints(event: &str) {
    let mut other = Actor::new();
    let _ = other.run(LIBRARY);
    let pid = other.pid().0;
    let mut tool = Tooled::with_other_tool(pid);
    tool.waits(10, &format!("{event}([],\"getppid\")"), "11 [0] print([1])");
    let own = libc_breakpoints(tool.pid());
    assert!(!own.is_empty(), "the process is watched");
    assert!(libc_breakpoints(pid).is_empty(), "no request names the other process");

    let request = format!("10 [0] {event}([],\"fdatasync\"): 11 [0] print([1])");
    tool.user_says(&request, &format!("10 [0] {event}(0)"));
    tool.user_says("9 [0] enable(10)", "9 [0] enable(0)");
    let others = libc_breakpoints(pid);
    assert!(!others.is_empty(), "the other process is watched");
    assert!(own.is_disjoint(&others), "{own:?} {others:?}");
    assert_eq!(libc_breakpoints(tool.pid()), own, "as before the request of the other tool");

    // Each tool receives the calls of its own process alone.
    let _ = other.run("l.getppid(); l.fdatasync(-1)");
    let _ = tool.target.run("l.fdatasync(-1); l.getppid()");
    assert_eq!(tool.next_lines(1), ["11 [0] print(0,[1])"]);
    assert_eq!(tool.others, ["11 [0] print(0,[1])"]);
}

#[test]
fn root_a_request_on_the_start_of_a_call_sets_no_breakpoint_in_the_process_of_another_tool() {
    const TEST: &str =
        "root_a_request_on_the_start_of_a_call_sets_no_breakpoint_in_the_process_of_another_tool";
    if granted(TEST) {
        check_breakpoints("start_lib_call");
    }
}

#[test]
fn root_a_request_on_the_end_of_a_call_sets_no_breakpoint_in_the_process_of_another_tool() {
    const TEST: &str =
        "root_a_request_on_the_end_of_a_call_sets_no_breakpoint_in_the_process_of_another_tool";
    if granted(TEST) {
        check_breakpoints("end_lib_call");
    }
}
