//! Text cases: the requests of a session, and where their actions run.

use super::super::stored::KernelRefusal;
use super::compile;
use crate::context::ClusterMember;
use crate::requests::{EngineInput, EngineOutput, RequestEngine, RequestLimits};
use monitor_event::right::{SessionId, Tool};
use monitor_model::Ns;
use monitor_omis::{Dialect, Node};
use monitor_platform::fake::FakePlatform;

/// The engine after these lines of a tool that has attached process 7.
fn engine(lines: &str) -> RequestEngine {
    let own = ClusterMember { node: Node(0), name: "node0".into() };
    let (mut machine, mut platform) =
        (RequestEngine::new(own, RequestLimits::default()), FakePlatform::new("node0").unwrap());
    for line in ["process 7", "callable 7 f", "callable 7 g"] {
        platform.apply(line).unwrap();
    }
    let mut input = |input| machine.input(Ns(0), input, &mut platform);
    let said = |line: &str| EngineInput::ClientLine(0, line.as_bytes().to_vec());
    let _none = input(EngineInput::Opened(Tool::root(SessionId::default(), 1), Dialect::Extended));
    let first = "1 [0] attach(7); 2 [0] cnt_create(\"n\",\"counter\",\"\"); \
                 3 [0] cnt_create(\"t\",\"thread_timer\",\"\"); 4 [0] define_user_event(5); \
                 5 [0] define_user_event(6); 6 [0] cnt_create(\"h\",\"histogram\",\"\"); \
                 7 [0] cnt_create(\"q\",\"integrator\",\"\"); \
                 8 [0] cnt_create(\"r\",\"trace\",\"\")";
    for line in [first].into_iter().chain(lines.lines().map(str::trim)) {
        let replied = input(said(line));
        let [EngineOutput::Reply(_, reply)] = &replied[..] else { panic!("{line}: {replied:?}") };
        assert!(!reply.contains(",0,\""), "{line}: {reply}");
    }
    // The fake platform has no kernel and refuses all programs.
    let stored = machine.sessions.values_mut().flat_map(|it| it.stored.requests.values_mut());
    stored.for_each(|rule| rule.kernel_refusal = KernelRefusal::None);
    machine
}

/// Checks the actions that run in the kernel for each request; `+` marks events reported to user
/// space, `*` a thread held for the rest.
#[track_caller]
fn check(lines: &str, want: &str) {
    assert_eq!(installed(&engine(lines)), want);
}

/// The requests that the kernel has, as `check` writes them.
fn installed(engine: &RequestEngine) -> String {
    let mut said = Vec::new();
    let compiled = compile(&engine.compiler_input()).into_iter();
    for (key, it) in compiled.filter(|(_, it)| it.is_installed) {
        let members: Vec<String> = it.members.iter().map(|(s, m)| format!("{s}.{m}")).collect();
        let mark = match (it.reports, it.holds) {
            (true, true) => "*",
            (true, false) => "+",
            (false, _) => "",
        };
        said.push(format!("{}:{}{mark}", key.1.0, members.join(" ")));
    }
    said.join(", ")
}

#[test]
fn actions_that_need_no_user_space_run_in_the_kernel_alone() {
    check(
        "10 [0] start_lib_call([7],\"f\"): 11 [0] cnt_add(\"n\",1), 12 [0] cnt_start(\"t\",$thread)
         20 [0] end_lib_call([7],\"f\"): 21 [0] cnt_stop(\"t\",$thread,$time)
         30 [0] enable(10); 31 [0] enable(20)",
        "10:0.0 0.1, 20:0.0",
    );
}

#[test]
fn a_request_that_needs_the_thread_held_is_in_the_kernel_to_hold_it() {
    check(
        "10 [0] start_lib_call([7],\"f\"): 11 [0] stack_backtrace(7)
         20 [0] end_lib_call([7],\"f\"): 21 [0] cnt_add(\"n\",1); 22 [0] stop([7])
         30 [0] process_signal([7],[10]): 31 [0] print($2), 32 [0] read_memory(7,0,1)
         40 [0] process_terminated([7]): 41 [0] stop([7])
         50 [0] start_lib_call([7],\"f\"): 51 [0] print($1)
         9 [0] enable(10); 9 [0] enable(20); 9 [0] enable(30); 9 [0] enable(40); 9 [0] enable(50)",
        "10:*, 20:0.0*, 30:*, 50:+",
    );
}

#[test]
fn a_disabled_request_that_no_other_names_is_not_installed() {
    check("10 [0] start_lib_call([7],\"f\"): 11 [0] cnt_add(\"n\",1)", "");
}

#[test]
fn actions_beside_a_print_are_split_off_and_those_after_one_are_not() {
    check(
        "10 [0] start_lib_call([7],\"f\"): 11 [0] print($1), 12 [0] cnt_add(\"n\",1)
         20 [0] start_lib_call([7],\"f\"): 21 [0] cnt_add(\"n\",1); 22 [0] print($1); \
                23 [0] cnt_add(\"n\",1)
         30 [0] start_lib_call([7],\"f\"): 31 [0] print($1); 32 [0] cnt_add(\"n\",1)
         9 [0] enable(10); 9 [0] enable(20); 9 [0] enable(30)",
        "10:0.1+, 20:0.0+, 30:+",
    );
}

#[test]
fn a_request_enabled_by_the_kernel_is_installed_even_to_report_alone() {
    check(
        "10 [0] start_lib_call([7],\"f\"): 11 [0] enable(20)
         20 [0] start_lib_call([7],\"g\"): 21 [0] print($1), 22 [0] disable(20)
         9 [0] enable(10)",
        "10:0.0, 20:0.1+",
    );
    // A request that the kernel cannot have is enabled in user space.
    check(
        "10 [0] start_lib_call([7],\"f\"): 11 [0] enable(20)
         20 [0] process_stopped([7]): 21 [0] print($1)
         9 [0] enable(10)",
        "10:+",
    );
}

#[test]
fn an_event_is_raised_in_the_kernel_if_all_its_requests_are_there() {
    let first = "10 [0] start_lib_call([7],\"f\"): 11 [0] raise_event(5,[1,$2])
                 20 [0] user_event(5): 21 [0] cnt_add(\"n\",$2)
                 9 [0] enable(10); 9 [0] enable(20)";
    check(first, "10:0.0, 20:0.0");
    let reporting = format!("{first}\n30 [0] user_event(5): 31 [0] print($1)\n9 [0] enable(30)");
    check(&reporting, "10:0.0, 20:0.0, 30:+");
    // No request waits for it, it has too many parameters for the kernel, or the process is one.
    check("10 [0] start_lib_call([7],\"f\"): 11 [0] raise_event(6,[1])\n9 [0] enable(10)", "10:+");
    let many = first.replace("[1,$2]", "[1,2,3,4]");
    check(&many, "10:+");
    check(&first.replace("[1,$2]", "[$1]"), "10:+");
}

#[test]
fn a_cycle_of_events_runs_in_user_space() {
    check(
        "10 [0] start_lib_call([7],\"f\"): 11 [0] raise_event(5,[])
         20 [0] user_event(5): 21 [0] raise_event(6,[])
         30 [0] user_event(6): 31 [0] raise_event(5,[])
         9 [0] enable(10); 9 [0] enable(20); 9 [0] enable(30)",
        "10:+",
    );
}

#[test]
fn a_timer_runs_in_the_kernel_or_in_user_space_not_in_both() {
    check(
        "10 [0] start_lib_call([7],\"f\"): 11 [0] cnt_start(\"t\",$thread)
         20 [0] end_lib_call([7],\"f\"): 21 [0] print($1); 22 [0] cnt_stop(\"t\",$thread)
         9 [0] enable(10); 9 [0] enable(20)",
        "10:+, 20:+",
    );
}

/// What the kernel refuses is left to user space, but not the events of calls: their probes are
/// those of the request alone.
#[test]
fn a_call_whose_condition_or_actions_are_refused_is_still_reported_by_the_kernel() {
    let lines = "10 [0] start_lib_call([7],\"f\"): 11 [0] cnt_add(\"n\",1)
                 20 [0] process_signal([7],[10]): 21 [0] cnt_add(\"n\",1)
                 9 [0] enable(10); 9 [0] enable(20)";
    for (refusal, want) in [
        (KernelRefusal::None, "10:0.0, 20:0.0"),
        (KernelRefusal::Actions, "10:+"),
        (KernelRefusal::Whole, ""),
    ] {
        let mut engine = engine(lines);
        let stored = engine.sessions.values_mut().flat_map(|it| it.stored.requests.values_mut());
        stored.for_each(|rule| rule.kernel_refusal = refusal);
        assert_eq!(installed(&engine), want, "{refusal:?}");
    }
}

#[test]
fn numbers_that_the_kernel_does_not_know_are_left_to_user_space() {
    check(
        "10 [0] process_signal([7],[40]): 11 [0] cnt_add(\"n\",$2)
         20 [0] process_terminated([7]): 21 [0] cnt_add(\"n\",$2)
         30 [0] process_terminated([7]): 31 [0] cnt_add(\"n\",1)
         40 [0] process_signal([7],[40]): 41 [0] cnt_add(\"n\",$seq)
         9 [0] enable(10); 9 [0] enable(20); 9 [0] enable(30); 9 [0] enable(40)",
        "10:0.0, 30:0.0",
    );
}

#[test]
fn every_kind_of_instrument_is_updated_and_signals_are_sent_in_the_kernel() {
    check(
        "10 [0] start_lib_call([7],\"f\"): 11 [0] cnt_record(\"h\",$2), 12 [0] cnt_set(\"q\",$2), \
                13 [0] cnt_add(\"q\",-1), 14 [0] cnt_record(\"r\",$2,$thread,$time)
         20 [0] start_lib_call([7],\"f\"): 21 [0] kill($proc,9), 22 [0] kill([$1],10)
         9 [0] enable(10); 9 [0] enable(20)",
        "10:0.0 0.1 0.2 0.3, 20:0.0 0.1",
    );
}

#[test]
fn process_numbers_and_signals_to_other_processes_are_left_to_user_space() {
    check(
        "10 [0] start_lib_call([7],\"f\"): 11 [0] cnt_record(\"r\",$1), 12 [0] cnt_set(\"n\",1), \
                13 [0] cnt_record(\"r\",1,2,3,4,5), 14 [0] kill([7],9), 15 [0] kill($proc,0)
         20 [0] process_terminated([7]): 21 [0] kill($proc,9)
         9 [0] enable(10); 9 [0] enable(20)",
        "10:*",
    );
}
