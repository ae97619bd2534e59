//! A thread that reaches an event of a request is held until the actions are done: they see the
//! state at the event.

mod end;

use super::target::{Target, byte_breakpoint, program};
use crate::deadline;
use crate::root::privilege::granted;
use crate::served::Served;
use crate::socket_session::SocketSession;
use monitor_control::{Executor, RequestTag, ToolId, UserWorker as _};
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A target that calls `give` `calls` times in each of `threads` threads, once it gets `SIGUSR2`.
fn give_caller(threads: usize, calls: u32) -> Target {
    let it = Target::run(&mut give_command("give", threads, calls));
    deadline::until(|| (it.tids().len() == threads).then_some(()));
    it
}

fn give_command(mode: &str, threads: usize, calls: u32) -> Command {
    let mut it = Command::new(program());
    let _ = it.args([mode, &threads.to_string(), &calls.to_string()]);
    it
}

/// A tool that observes the target.
fn tool(served: &Served, target: &Target) -> SocketSession {
    let mut session = served.connect();
    let pid = target.id().pid.0;
    assert_eq!(session.request(&format!("1 [0] attach([{pid}])")), "1 [0] attach(0)");
    session
}

/// Stores and enables a request, and waits until its actions run at these levels.
#[track_caller]
fn waits(session: &mut SocketSession, (id, event): (u32, &str), actions: &str, levels: &str) {
    let name = event.split('(').next().unwrap();
    let stored = session.request(&format!("{id} [0] {event}: {actions}"));
    assert_eq!(stored, format!("{id} [0] {name}(0)"));
    assert_eq!(session.request(&format!("2 [0] enable({id})")), "2 [0] enable(0)");
    let want = format!("3 [0] request_level(0,[{levels}])");
    deadline::until(|| {
        (session.request(&format!("3 [0] request_level({id})")) == want).then_some(())
    });
}

/// Another debugger of the target, which lets it run.
struct Debugger {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Debugger {
    fn attached_to(target: &Target) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let (whole, address) = (target.whole(), target.at("landing"));
        let should_end = Arc::clone(&ends);
        let thread = std::thread::spawn(move || {
            let mut worker = Executor::default();
            let _placed =
                worker.request(ToolId(9), byte_breakpoint(whole, address, RequestTag(9))).unwrap();
            deadline::until(|| {
                let _happened = worker.poll_events();
                should_end.load(Ordering::Relaxed).then_some(())
            });
        });
        deadline::until(|| target.is_traced().then_some(()));
        Self { ends, thread: Some(thread) }
    }
}

impl Drop for Debugger {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

/// A tool that provides a service, and replies when the test asks it to.
struct Slow(SocketSession);

impl Slow {
    fn new(served: &Served) -> Self {
        let mut session = served.connect();
        let register = "1 [0] extension_register(\"slow_\",[\"slow_one\",\"\",\"Waits.\"])";
        assert_eq!(session.request(register), "1 [0] extension_register(0)");
        Self(session)
    }

    /// The number of the next call.
    #[track_caller]
    fn called(&mut self) -> String {
        let line = self.0.line().expect("a call");
        assert!(line.starts_with("0 [0] extension_called(0,"), "{line}");
        line.split(['(', ',']).nth(2).unwrap().to_owned()
    }

    #[track_caller]
    fn answer(&mut self, call: &str) {
        let line = self.0.request(&format!("1 [0] extension_reply({call},0,[])"));
        assert_eq!(line, "1 [0] extension_reply(0)");
    }
}

/// Whether it runs untraced.
fn is_free(target: &Target) -> bool {
    !target.states().contains(['T', 't']) && !target.is_traced()
}

#[test]
fn root_actions_at_a_call_see_what_it_was_called_with() {
    if !granted("root_actions_at_a_call_see_what_it_was_called_with") {
        return;
    }
    let (served, target) = (Served::start("ebpf"), give_caller(1, 300));
    let (mut session, pid) = (tool(&served, &target), target.id().pid.0);
    let event = format!("start_lib_call([{pid}],\"give\")");
    let actions = format!(
        "11 [0] read_memory({pid},{},8), 12 [0] read_int_registers({pid},5,1), \
         13 [0] read_int_registers({pid},16,1)",
        target.at("rooms"),
    );
    waits(&mut session, (10, &event), &actions, "\"held\",\"held\",\"held\"");
    target.signal("USR2");
    for n in 0..300 {
        let digits: Vec<String> = format!("{n:08}").bytes().map(|it| it.to_string()).collect();
        let want = format!(
            "11 [0] read_memory(0,[{}]); 12 [0] read_int_registers(0,[{}]); \
             13 [0] read_int_registers(0,[{}])",
            digits.join(","),
            target.at("rooms"),
            target.at("give"),
        );
        assert_eq!(session.line().as_deref(), Some(&want[..]));
    }
    deadline::until(|| (target.number(target.at("counters") + 8 * 32) == 299 * 300).then_some(()));
}

#[test]
fn root_each_of_8_threads_at_one_call_is_inspected_by_itself() {
    if !granted("root_each_of_8_threads_at_one_call_is_inspected_by_itself") {
        return;
    }
    let (served, target) = (Served::start("ebpf"), give_caller(8, 23));
    let (mut session, pid) = (tool(&served, &target), target.id().pid.0);
    let event = format!("start_lib_call([{pid}],\"give\")");
    let actions = format!("11 [0] read_int_registers({pid},4,2), 12 [0] stack_backtrace({pid})");
    waits(&mut session, (10, &event), &actions, "\"held\",\"held\"");
    target.signal("USR2");
    let mut seen = BTreeSet::new();
    for _ in 0..8 * 23 {
        let line = session.line().unwrap();
        assert!(line.starts_with("11 [0] read_int_registers(0,["), "{line}");
        let top = format!("12 [0] stack_backtrace(0,[{},", target.at("give"));
        assert!(line.contains(&top), "{line}");
        let list = line.split(['[', ']']).nth(3).expect("registers");
        assert!(seen.insert(list.to_owned()), "{list} again");
    }
    let room = |thread: u64| target.at("rooms") + 16 * thread;
    let all = (0..8).flat_map(|thread| (0..23).map(move |n| format!("{n},{}", room(thread))));
    assert_eq!(seen, all.collect());
}

#[test]
fn root_a_register_that_is_written_at_a_return_is_the_returned_value() {
    if !granted("root_a_register_that_is_written_at_a_return_is_the_returned_value") {
        return;
    }
    let (served, target) = (Served::start("ebpf"), give_caller(1, 23));
    let (mut session, pid) = (tool(&served, &target), target.id().pid.0);
    let event = format!("end_lib_call([{pid}],\"give\")");
    let actions =
        format!("11 [0] read_int_registers({pid},0,1), 12 [0] write_int_registers({pid},0,[1000])");
    waits(&mut session, (10, &event), &actions, "\"held\",\"held\"");
    target.signal("USR2");
    for n in 0..23 {
        let want =
            format!("11 [0] read_int_registers(0,[{}]); 12 [0] write_int_registers(0)", 2 * n);
        assert_eq!(session.line(), Some(want));
    }
    deadline::until(|| (target.number(target.at("counters") + 8 * 32) == 23_000).then_some(()));
}

#[test]
fn root_a_thread_that_another_traces_is_stopped_with_its_process() {
    if !granted("root_a_thread_that_another_traces_is_stopped_with_its_process") {
        return;
    }
    let (served, target) = (Served::start("ebpf"), give_caller(2, 23));
    let debugger = Debugger::attached_to(&target);
    let (mut session, pid) = (tool(&served, &target), target.id().pid.0);
    let event = format!("start_lib_call([{pid}],\"give\")");
    let actions = format!("11 [0] read_memory({pid},{},8)", target.at("rooms"));
    waits(&mut session, (10, &event), &actions, "\"stopped\"");
    target.signal("USR2");
    for _ in 0..46 {
        let line = session.line().unwrap();
        assert!(line.starts_with("11 [0] read_memory(2,["), "{line}");
    }
    let done = |thread| target.count(thread) == 23;
    deadline::until(|| (done(0) && done(1)).then_some(()));
    drop(debugger);
    deadline::until(|| is_free(&target).then_some(()));
}

#[test]
fn root_a_thread_that_is_held_too_long_runs_on_with_a_notice() {
    if !granted("root_a_thread_that_is_held_too_long_runs_on_with_a_notice") {
        return;
    }
    let (served, target) = (Served::start("ebpf"), give_caller(1, 1));
    let mut slow = Slow::new(&served);
    let (mut session, pid) = (tool(&served, &target), target.id().pid.0);
    let event = format!("start_lib_call([{pid}],\"give\")");
    let actions = format!("11 [0] slow_one(); 12 [0] read_memory({pid},{},1)", target.at("rooms"));
    waits(&mut session, (10, &event), &actions, "\"after\",\"held\"");
    target.signal("USR2");
    let call = slow.called();
    assert_eq!(target.count(0), 0, "it is held");
    let notice = session.line().unwrap();
    let want = "10 [0] start_lib_call(202,\"the actions took longer than 2s: the thread runs on\")";
    assert_eq!(notice, want);
    deadline::until(|| (target.count(0) == 1).then_some(()));
    slow.answer(&call);
    assert_eq!(session.line().unwrap(), "11 [0] slow_one(0); 12 [0] read_memory(0,[120])");
}

#[test]
fn root_a_stop_at_a_call_holds_until_its_tool_continues_it() {
    if !granted("root_a_stop_at_a_call_holds_until_its_tool_continues_it") {
        return;
    }
    let (served, target) = (Served::start("ebpf"), give_caller(1, 40));
    let (mut session, mut other) = (tool(&served, &target), tool(&served, &target));
    let pid = target.id().pid.0;
    let event = format!("start_lib_call([{pid}],\"give\")");
    let actions = format!("11 [0] stop([{pid}]); 12 [0] read_int_registers({pid},4,1)");
    waits(&mut session, (10, &event), &actions, "\"held\",\"held\"");
    target.signal("USR2");
    for n in 0..3 {
        let want = format!("11 [0] stop(0); 12 [0] read_int_registers(0,[{n}])");
        assert_eq!(session.line(), Some(want));
        let refused = other.request(&format!("5 [0] continue([{pid}])"));
        assert!(refused.starts_with("5 [0] continue(303,"), "{refused}");
        // From the hold of its event into that of the tool.
        deadline::until(|| target.is_stopped().then_some(()));
        assert_eq!(target.count(0), n, "it has not come further");
        assert_eq!(session.request(&format!("5 [0] continue([{pid}])")), "5 [0] continue(0)");
    }
}

#[test]
fn root_a_handler_does_not_run_before_the_actions_of_its_signal() {
    if !granted("root_a_handler_does_not_run_before_the_actions_of_its_signal") {
        return;
    }
    let (served, target) = (Served::start("ebpf"), Target::new("spin", 2));
    let (mut session, pid) = (tool(&served, &target), target.id().pid.0);
    let event = format!("process_signal([{pid}],[10])");
    let actions = format!("11 [0] read_memory({pid},{},1)", target.at("handled"));
    waits(&mut session, (10, &event), &actions, "\"held\"");
    for n in 0..23u64 {
        target.signal("USR1");
        let seen = (10 * n).to_le_bytes()[0];
        assert_eq!(session.line(), Some(format!("11 [0] read_memory(0,[{seen}])")));
        deadline::until(|| (target.number(target.at("handled")) == 10 * (n + 1)).then_some(()));
    }
}

#[test]
fn root_a_thread_that_blocks_every_signal_is_held_too() {
    if !granted("root_a_thread_that_blocks_every_signal_is_held_too") {
        return;
    }
    let (served, target) = (Served::start("ebpf"), Target::run(&mut give_command("deaf", 1, 23)));
    let (mut session, pid) = (tool(&served, &target), target.id().pid.0);
    let event = format!("start_lib_call([{pid}],\"give\")");
    let actions = format!("11 [0] read_int_registers({pid},4,1)");
    waits(&mut session, (10, &event), &actions, "\"held\"");
    target.signal("USR2");
    for n in 0..23 {
        assert_eq!(session.line(), Some(format!("11 [0] read_int_registers(0,[{n}])")));
    }
    deadline::until(|| (target.count(0) == 23).then_some(()));
}

#[test]
fn root_a_signal_that_holds_no_thread_is_delivered() {
    if !granted("root_a_signal_that_holds_no_thread_is_delivered") {
        return;
    }
    let (served, target) = (Served::start("ebpf"), Target::new("urge", 1));
    let (mut session, pid) = (tool(&served, &target), target.id().pid.0);
    let event = format!("start_lib_call([{pid}],\"give\")");
    waits(&mut session, (10, &event), &format!("11 [0] stack_backtrace({pid})"), "\"held\"");
    let (handled, counted) = (target.number(target.at("handled")) / 23, target.count(0));
    deadline::until(|| (target.count(0) >= counted + 23).then_some(()));
    let now = target.number(target.at("handled")) / 23;
    assert!(now >= handled + 22, "{handled} before, {now} after 23 more");
}
