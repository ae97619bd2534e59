//! The services of the request language that act on processes, through a service of the node.

use super::target::{Target, program};
use crate::deadline;
use crate::root::privilege::granted;
use crate::served::Served;
use crate::socket_session::SocketSession;
use monitor_omis::{Value, parse};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

const UID: u32 = 54_322;

/// A tool that observes the target, and the number of that.
fn tool(served: &Served, target: &Target) -> (SocketSession, u32) {
    let (mut session, pid) = (served.connect(), target.id().pid.0);
    assert_eq!(session.request(&format!("1 [0] attach([{pid}])")), "1 [0] attach(0)");
    (session, pid)
}

/// The reply to a request, without its number and node.
#[track_caller]
fn reply_to(session: &mut SocketSession, request: &str) -> String {
    let line = session.request(&format!("2 [0] {request}"));
    line.strip_prefix("2 [0] ").unwrap_or(&line).to_owned()
}

/// The numbers of a list that is the only result.
#[track_caller]
fn numbers(reply: &str) -> Vec<u64> {
    let list = reply.split_once("(0,[").and_then(|(_, rest)| rest.strip_suffix("])"));
    let list = list.unwrap_or_else(|| panic!("{reply}"));
    list.split(',').map(|number| number.parse().unwrap()).collect()
}

#[test]
fn root_processes_are_stopped_continued_signalled_and_reniced() {
    if !granted("root_processes_are_stopped_continued_signalled_and_reniced") {
        return;
    }
    let (served, mut target) = (Served::start("ebpf"), Target::new("spin", 3));
    let (mut session, pid) = tool(&served, &target);
    assert_eq!(reply_to(&mut session, &format!("stop([{pid}])")), "stop(0)");
    assert!(target.is_stopped());
    let info = reply_to(&mut session, &format!("process_info([{pid}],4)"));
    assert_eq!(info, format!("process_info(0,1,[{pid},5])"), "stopped by us");
    // Another tool holds it too, and disconnects.
    let (mut other, _) = tool(&served, &target);
    assert_eq!(reply_to(&mut other, &format!("stop({pid})")), "stop(0)");
    assert_eq!(reply_to(&mut session, &format!("continue([{pid}])")), "continue(0)");
    assert!(target.is_stopped());
    drop(other);
    target.until_counts(2);
    // What a shell stops is stopped by others.
    target.signal("STOP");
    deadline::until(|| target.is_stopped().then_some(()));
    let info = reply_to(&mut session, &format!("process_info([{pid}],4)"));
    assert_eq!(info, format!("process_info(0,1,[{pid},6])"));
    target.signal("CONT");
    let refused = reply_to(&mut session, &format!("continue([{pid}])"));
    assert!(refused.starts_with("continue(303,"), "{refused}");
    assert_eq!(reply_to(&mut session, &format!("nice([{pid}],7)")), "nice(0)");
    let info = reply_to(&mut session, &format!("process_info([{pid}],16)"));
    assert_eq!(info, format!("process_info(0,1,[{pid},7])"));
    assert_eq!(reply_to(&mut session, &format!("kill([{pid}],10)")), "kill(0)");
    deadline::until(|| (target.number(target.at("handled")) == 10).then_some(()));
    assert_eq!(reply_to(&mut session, &format!("kill([{pid}],9)")), "kill(0)");
    deadline::until(|| target.ended());
    let gone = reply_to(&mut session, &format!("stop([{pid}])"));
    assert!(gone.starts_with("stop(301,"), "{gone}");
}

#[test]
fn root_memory_and_registers_are_read_and_written() {
    if !granted("root_memory_and_registers_are_read_and_written") {
        return;
    }
    let (served, target) = (Served::start("ebpf"), Target::new("dive", 1));
    deadline::until(|| (target.states() == "S").then_some(()));
    let (mut session, pid) = tool(&served, &target);
    let text = target.at("text");
    let bytes = reply_to(&mut session, &format!("read_memory({pid},{text},5)"));
    assert_eq!(bytes, "read_memory(0,[104,101,108,108,111])");
    assert_eq!(
        reply_to(&mut session, &format!("write_memory({pid},{text},[72])")),
        "write_memory(0)"
    );
    let bytes = reply_to(&mut session, &format!("read_memory({pid},{text},2)"));
    assert_eq!(bytes, "read_memory(0,[72,101])");
    let fault = reply_to(&mut session, &format!("read_memory({pid},16,2)"));
    assert!(fault.starts_with("read_memory(401,[],14,\"address 0x10 is not accessible"), "{fault}");
    assert_eq!(reply_to(&mut session, &format!("stop({pid})")), "stop(0)");
    let written = format!("write_int_registers({pid},12,[5,-1])");
    assert_eq!(reply_to(&mut session, &written), "write_int_registers(0)");
    let read = reply_to(&mut session, &format!("read_int_registers({pid},12,2)"));
    assert_eq!(numbers(&read), [5, u64::MAX]);
    let written = format!("write_fp_registers({pid},20,[2.5,-1])");
    assert_eq!(reply_to(&mut session, &written), "write_fp_registers(0)");
    let read = reply_to(&mut session, &format!("read_fp_registers({pid},20,2)"));
    assert_eq!(read, "read_fp_registers(0,[2.5,-1.0])");
    let wrong = reply_to(&mut session, &format!("read_int_regs({pid},17,1)"));
    assert!(wrong.starts_with("read_int_regs(105,"), "{wrong}");
    let landing = target.at("landing");
    assert_eq!(reply_to(&mut session, &format!("goto({pid},{landing})")), "goto(0)");
    assert_eq!(reply_to(&mut session, &format!("continue({pid})")), "continue(0)");
    deadline::until(|| (target.number(target.at("landed")) == 1).then_some(()));
}

#[test]
fn root_a_probe_of_ours_is_not_read_with_the_code() {
    if !granted("root_a_probe_of_ours_is_not_read_with_the_code") {
        return;
    }
    let (served, target) = (Served::start("ebpf"), Target::new("dive", 1));
    deadline::until(|| (target.states() == "S").then_some(()));
    let (mut session, pid) = tool(&served, &target);
    let deep = target.at("deep");
    let read = format!("read_memory({pid},{deep},16)");
    let (own, there) = (reply_to(&mut session, &read), target.number(deep));
    let event = format!("3 [0] start_lib_call([{pid}],\"deep\"): 4 [0] print($1)");
    assert_eq!(session.request(&event), "3 [0] start_lib_call(0)");
    assert_eq!(reply_to(&mut session, "enable(3)"), "enable(0)");
    assert_ne!(target.number(deep), there, "the probe is there");
    assert_eq!(reply_to(&mut session, &read), own);
    assert_eq!(reply_to(&mut session, "delete(3)"), "delete(0)");
    assert_eq!(reply_to(&mut session, &read), own, "also while the probe is removed");
    deadline::until(|| (target.number(deep) == there).then_some(()));
    assert_eq!(reply_to(&mut session, &read), own);
}

#[test]
fn root_the_stack_and_the_loaded_objects_are_returned() {
    if !granted("root_the_stack_and_the_loaded_objects_are_returned") {
        return;
    }
    let (served, target) = (Served::start("ebpf"), Target::new("dive", 1));
    deadline::until(|| (target.states() == "S").then_some(()));
    let (mut session, pid) = tool(&served, &target);
    let named = reply_to(&mut session, &format!("stack_names({pid})"));
    assert_eq!(named.matches("\"deep\"").count(), 6, "{named}");
    assert!(named.contains("\"main\""), "{named}");
    // Each frame has a name, empty where there is none.
    let reply = parse::reply(format!("1 [0] {named}").as_bytes()).unwrap();
    let values = reply.0[0].results[0].list().unwrap();
    let is_name = |(at, value): (usize, &Value)| value.text().is_some() == (at % 3 == 2);
    assert!(values.iter().enumerate().all(is_name), "{named}");
    let frames = numbers(&reply_to(&mut session, &format!("stack_backtrace({pid})")));
    let deep = target.at("deep");
    let within = frames.chunks(2).filter(|it| (deep..deep + 32).contains(&it[0])).count();
    assert!(frames.len().is_multiple_of(2) && within >= 6, "{frames:x?}");
    let objects = reply_to(&mut session, &format!("loader_information({pid})"));
    let own = format!("loader_information(0,[\"{}\",\"\",", program().display());
    assert!(objects.starts_with(&own) && objects.contains("libc.so"), "{objects}");
}

#[test]
fn root_a_program_is_started_and_observed() {
    if !granted("root_a_program_is_started_and_observed") {
        return;
    }
    let served = Served::start("ebpf");
    let mut session = served.connect();
    let reply = reply_to(&mut session, "start_stopped(\"/bin/sleep\",[\"60\"])");
    let pid = reply.strip_prefix("start_stopped(0,").and_then(|it| it.strip_suffix(')'));
    let pid = pid.unwrap_or_else(|| panic!("{reply}")).to_owned();
    let info = reply_to(&mut session, "process_info([],6)");
    assert_eq!(info, format!("process_info(0,1,[{pid},[\"/bin/sleep\",\"60\"],5])"));
    assert_eq!(reply_to(&mut session, &format!("continue({pid})")), "continue(0)");
    assert_eq!(reply_to(&mut session, &format!("kill({pid},9)")), "kill(0)");
    let gone = std::path::PathBuf::from(format!("/proc/{pid}"));
    deadline::until(|| (!gone.exists()).then_some(()));
    let reply = reply_to(&mut session, "start(\"/no/such\",[])");
    assert!(reply.starts_with("start(404,0,\"starting /no/such: No such file"), "{reply}");
}

#[test]
fn root_a_breakpoint_holds_the_thread_until_the_actions_are_done() {
    if !granted("root_a_breakpoint_holds_the_thread_until_the_actions_are_done") {
        return;
    }
    let (served, target) = (Served::start("ebpf"), Target::new("slow", 1));
    let (mut session, pid) = tool(&served, &target);
    let (tick, counters) = (target.at("tick"), target.at("counters"));
    let request = format!(
        "10 [0] breakpoint([{pid}],{tick}): 11 [0] read_int_registers($1,16,1); \
         12 [0] read_memory($1,{counters},1)"
    );
    assert_eq!(session.request(&request), "10 [0] breakpoint(0)");
    assert_eq!(session.request("13 [0] enable(10)"), "13 [0] enable(0)");
    let mut counts = Vec::new();
    for _ in 0..23 {
        let line = session.line().unwrap();
        let (first, second) = line.split_once("; ").unwrap_or_else(|| panic!("{line}"));
        assert_eq!(first, format!("11 [0] read_int_registers(0,[{tick}])"));
        counts.push(numbers(second.strip_prefix("12 [0] ").unwrap())[0]);
    }
    // One count per hit; the last byte of the counter wraps around.
    let steps = counts.windows(2).map(|pair| (pair[1] + 256 - pair[0]) % 256);
    assert_eq!(steps.collect::<Vec<_>>(), [1; 22]);
    drop(session);
    deadline::until(|| (!target.is_traced()).then_some(()));
    target.until_counts(0);
}

#[test]
fn root_enabling_a_command_that_is_unsafe_is_refused_and_it_stays_disabled() {
    if !granted("root_enabling_a_command_that_is_unsafe_is_refused_and_it_stays_disabled") {
        return;
    }
    let (served, target) = (Served::start("ebpf"), Target::new("slow", 1));
    let (mut session, pid) = tool(&served, &target);
    let (tick, counters) = (target.at("tick"), target.at("counters"));
    let refusals = [
        (format!("breakpoint([{pid}],{})", tick + 1), "405,0,\"no instruction begins"),
        (format!("call_procedure({pid},{})", tick + 1), "405,0,\"no instruction begins"),
        (format!("breakpoint([{pid}],{counters})"), "405,0,\""),
    ];
    for (event, refusal) in refusals {
        let stored = session.request(&format!("20 [0] {event}: 21 [0] print(1)"));
        assert!(stored.ends_with("(0)"), "{stored}");
        // Refused each time: it was not enabled by the first.
        for _ in 0..2 {
            let refused = session.request("22 [0] enable(20)");
            assert!(refused.starts_with(&format!("22 [0] enable({refusal}")), "{event}: {refused}");
        }
        assert_eq!(session.request("23 [0] delete(20)"), "23 [0] delete(0)");
    }
    // One of two processes cannot have the breakpoint.
    let other = Target::new("slow", 1);
    let other_pid = other.id().pid.0;
    assert_eq!(session.request(&format!("1 [0] attach({other_pid})")), "1 [0] attach(0)");
    let (place, is_elsewhere) = (tick, other.at("tick") != tick);
    let both = format!("30 [0] breakpoint([{pid},{other_pid}],{place}): 31 [0] print($1)");
    assert_eq!(session.request(&both), "30 [0] breakpoint(0)");
    let enabled = session.request("32 [0] enable(30)");
    if is_elsewhere {
        assert!(enabled.starts_with(&format!("32 [0] enable(1,[{other_pid},")), "{enabled}");
    }
    assert_eq!(session.line().unwrap(), format!("31 [0] print(0,[{pid}])"));
    // Disabled in the same line, it need not begin.
    let line = "33 [0] disable(30); 34 [0] enable(30), 35 [0] disable(30)";
    let done = "33 [0] disable(0); 34 [0] enable(0); 35 [0] disable(0)";
    let mut reply = session.request(line);
    while reply.starts_with("31 ") {
        reply = session.line().unwrap();
    }
    assert_eq!(reply, done);
}

#[test]
fn root_requests_step_finish_and_call_in_threads() {
    if !granted("root_requests_step_finish_and_call_in_threads") {
        return;
    }
    let (served, target) = (Served::start("ebpf"), Target::new("spin", 2));
    let (mut session, pid) = tool(&served, &target);
    assert_eq!(reply_to(&mut session, &format!("stop({pid})")), "stop(0)");
    for service in ["step", "next"] {
        let before =
            numbers(&reply_to(&mut session, &format!("read_int_registers({pid},16,1)")))[0];
        let request = format!("10 [0] {service}({pid}): 11 [0] print($pc)");
        assert_eq!(session.request(&request), format!("10 [0] {service}(0)"));
        assert_eq!(session.request("12 [0] enable(10)"), "12 [0] enable(0)");
        let line = session.line().unwrap();
        let pc: u64 = line
            .strip_prefix("11 [0] print(0,[")
            .and_then(|it| it.strip_suffix("])"))
            .unwrap_or_else(|| panic!("{line}"))
            .parse()
            .unwrap();
        assert!(pc != before && pc.abs_diff(before) < 4096, "{before:x} {pc:x}");
        assert_eq!(session.request("13 [0] delete(10)"), "13 [0] delete(0)");
    }
    let sum = target.at("sum");
    let request = format!("10 [0] call_procedure({pid},{sum},1,2,3,4,5,6,7,8): 11 [0] print($2)");
    assert_eq!(session.request(&request), "10 [0] call_procedure(0)");
    assert_eq!(session.request("12 [0] enable(10)"), "12 [0] enable(0)");
    assert_eq!(session.line().unwrap(), "11 [0] print(0,[87654321])");
    // Once more, with strings and floats.
    let scale = target.at("scale");
    let request =
        format!("20 [0] call_procedure({pid},{scale},2.5,\"four\"): 21 [0] print([$1,$3])");
    assert_eq!(session.request(&request), "20 [0] call_procedure(0)");
    assert_eq!(session.request("22 [0] enable(20)"), "22 [0] enable(0)");
    assert_eq!(session.line().unwrap(), format!("21 [0] print(0,[{pid},10.0])"));
    deadline::until(|| target.is_stopped().then_some(()));
    assert_eq!(reply_to(&mut session, &format!("continue({pid})")), "continue(0)");
    target.until_counts(1);
}

#[test]
fn root_a_procedure_that_was_stopped_inside_is_finished() {
    if !granted("root_a_procedure_that_was_stopped_inside_is_finished") {
        return;
    }
    let (served, target) = (Served::start("ebpf"), Target::new("slow", 1));
    let (mut session, pid) = tool(&served, &target);
    let tick = target.at("tick");
    let request = format!("10 [0] breakpoint([{pid}],{tick}): 11 [0] stop($1); 14 [0] print($1)");
    assert_eq!(session.request(&request), "10 [0] breakpoint(0)");
    assert_eq!(session.request("12 [0] enable(10)"), "12 [0] enable(0)");
    assert_eq!(session.line().unwrap(), format!("11 [0] stop(0); 14 [0] print(0,[{pid}])"));
    assert_eq!(session.request("13 [0] delete(10)"), "13 [0] delete(0)");
    let request = format!("30 [0] finish({pid}): 31 [0] print([$1,$2])");
    assert_eq!(session.request(&request), "30 [0] finish(0)");
    assert_eq!(session.request("32 [0] enable(30)"), "32 [0] enable(0)");
    // What `tick` returns is what it has counted.
    assert_eq!(session.line().unwrap(), format!("31 [0] print(0,[{pid},{}])", target.count(0)));
    assert_eq!(reply_to(&mut session, &format!("continue({pid})")), "continue(0)");
    target.until_counts(0);
}

#[test]
fn root_stops_and_continues_are_events_for_every_tool() {
    if !granted("root_stops_and_continues_are_events_for_every_tool") {
        return;
    }
    let (served, target) = (Served::start("ebpf"), Target::new("slow", 1));
    let (mut watcher, pid) = tool(&served, &target);
    for (id, event) in [(10, "process_stopped"), (20, "process_continued")] {
        let request = format!("{id} [0] {event}([{pid}]): {} [0] print($1)", id + 1);
        assert_eq!(watcher.request(&request), format!("{id} [0] {event}(0)"));
        let enabled = watcher.request(&format!("{} [0] enable({id})", id + 2));
        assert_eq!(enabled, format!("{} [0] enable(0)", id + 2));
    }
    let (mut actor, _) = tool(&served, &target);
    for _ in 0..3 {
        assert_eq!(reply_to(&mut actor, &format!("stop({pid})")), "stop(0)");
        assert_eq!(reply_to(&mut actor, &format!("stop({pid})")), "stop(0)");
        assert_eq!(watcher.line().unwrap(), format!("11 [0] print(0,[{pid}])"));
        assert_eq!(reply_to(&mut actor, &format!("continue({pid})")), "continue(0)");
        assert_eq!(watcher.line().unwrap(), format!("21 [0] print(0,[{pid}])"));
    }
}

#[test]
fn root_a_program_is_started_with_the_options_of_its_session() {
    if !granted("root_a_program_is_started_with_the_options_of_its_session") {
        return;
    }
    let folder = crate::served::Folder::new();
    let (served, output) = (Served::start("ebpf"), folder.join("output"));
    let mut session = served.connect();
    let wanted =
        format!("start_options(\"/usr\",[\"COLOUR=green\"],[\"\",\"{}\"])", output.display());
    assert_eq!(reply_to(&mut session, &wanted), "start_options(0)");
    let script = "start(\"/bin/sh\",[\"-c\",\"echo $COLOUR $(pwd); env | wc -l; cat\"])";
    let started = reply_to(&mut session, script);
    assert!(started.starts_with("start(0,"), "{started}");
    // The shell adds PWD by itself, and some add more.
    let text = deadline::until(|| {
        let text = std::fs::read_to_string(&output).unwrap_or_default();
        (text.lines().count() == 2).then_some(text)
    });
    let (first, count) = text.split_once('\n').unwrap();
    assert_eq!(first, "green /usr");
    assert!(count.trim().parse::<u32>().unwrap() <= 5, "{text}");
    // Another session has its own options, and empty options reset those of this session.
    assert_eq!(reply_to(&mut session, "start_options(\"\",[],[])"), "start_options(0)");
    let refused = reply_to(&mut session, "start_options(\"/\",[],[\"\",\"\",\"\",\"\"])");
    assert!(refused.starts_with("start_options(105,"), "{refused}");
}

#[test]
fn root_a_missing_requirement_of_a_migration_is_named() {
    if !granted("root_a_missing_requirement_of_a_migration_is_named") {
        return;
    }
    let (served, target) = (Served::start("ebpf"), Target::new("spin", 1));
    let (mut session, _) = tool(&served, &target);
    let refused = reply_to(&mut session, "prepare_checkpoint()");
    if super::checkpoint::passes() {
        // Its peer has closed the pipe.
        assert_eq!(refused, "prepare_checkpoint(0)");
    } else {
        let is_named =
            refused.starts_with("prepare_checkpoint(402,0,\"") && refused.contains("CRIU");
        assert!(is_named, "{refused}");
    }
    target.until_counts(0);
}

#[test]
fn root_a_user_without_the_right_to_control_is_refused() {
    if !granted("root_a_user_without_the_right_to_control_is_refused") {
        return;
    }
    let copy = std::env::temp_dir().join(format!("monitor-service-{}", std::process::id()));
    let _bytes = std::fs::copy(program(), &copy).unwrap();
    let own = Target::run(Command::new(&copy).args(["spin", "1"]).uid(UID).gid(UID));
    let foreign = Target::new("spin", 1);
    let ask = |served: &Served, target: &Target| {
        let pid = target.id().pid.0;
        let mut command = served.command(&format!("ask --pid {pid}"));
        let command = command.arg(format!("1 [0] stop({pid})")).uid(UID).gid(UID);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let closed = Served::started("", crate::served::monitor(), "ebpf");
    let refused = ask(&closed, &own);
    assert!(refused.contains("stop(400,") && refused.contains("control-own"), "{refused}");
    let config = format!("[policy]\ncontrol-own = [\"{UID}\"]\n");
    let open = Served::started(&config, crate::served::monitor(), "ebpf");
    assert!(ask(&open, &own).contains("1 [0] stop(0)"));
    let refused = ask(&open, &foreign);
    assert!(refused.contains("stop(400,") && refused.contains("control-all"), "{refused}");
    own.until_counts(0);
    foreign.until_counts(0);
    std::fs::remove_file(copy).unwrap();
}
