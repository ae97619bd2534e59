//! Cases of text: what a session has said, and where each action is run then.

use super::{Wanted, compile};
use crate::ctx::Member;
use crate::requests::{Input, Limits, Machine, Output};
use monitor_event::right::{SessionId, Tool};
use monitor_model::id::Ns;
use monitor_omis::{Dialect, Node};
use monitor_platform::scripted::Scripted;

/// What is stored once a tool, which observes process 7, has said these lines.
fn wanted(lines: &str) -> Vec<Wanted> {
    let own = Member { node: Node(0), name: "node0".into() };
    let (mut machine, mut ground) =
        (Machine::new(own, Limits::default()), Scripted::new("node0").unwrap());
    for line in ["process 7", "callable 7 f", "callable 7 g"] {
        ground.happen(line).unwrap();
    }
    let mut input = |input| machine.input(Ns(0), input, &mut ground);
    let said = |line: &str| Input::Said(0, line.as_bytes().to_vec());
    let _none = input(Input::Opened(Tool::root(SessionId::default(), 1), Dialect::Extended));
    let first = "1 [0] attach(7); 2 [0] cnt_create(\"n\",\"counter\",\"\"); \
                 3 [0] cnt_create(\"t\",\"thread_timer\",\"\"); 4 [0] define_user_event(5); \
                 5 [0] define_user_event(6); 6 [0] cnt_create(\"h\",\"histogram\",\"\"); \
                 7 [0] cnt_create(\"q\",\"integrator\",\"\"); \
                 8 [0] cnt_create(\"r\",\"trace\",\"\")";
    for line in [first].into_iter().chain(lines.lines().map(str::trim)) {
        let replied = input(said(line));
        let [Output::Reply(_, reply)] = &replied[..] else { panic!("{line}: {replied:?}") };
        assert!(!reply.contains(",0,\""), "{line}: {reply}");
    }
    // The script has no kernel, and has taken nothing.
    let all = machine.wanted().into_iter();
    all.map(|it| Wanted { is_refused: false, ..it }).collect()
}

/// Of each request that the kernel has, the actions that it runs, with `+` if it tells of them, and
/// with `*` if it holds who met its event for the rest.
#[track_caller]
fn check(lines: &str, want: &str) {
    let all = wanted(lines);
    let mut said = Vec::new();
    for (key, it) in compile(&all).into_iter().filter(|(_, it)| it.is_needed) {
        let members: Vec<String> = it.members.iter().map(|(s, m)| format!("{s}.{m}")).collect();
        let tells = match (it.tells, it.holds) {
            (true, true) => "*",
            (true, false) => "+",
            (false, _) => "",
        };
        said.push(format!("{}:{}{tells}", key.1.0, members.join(" ")));
    }
    assert_eq!(said.join(", "), want);
}

#[test]
fn what_needs_nobody_is_run_in_the_kernel_alone() {
    check(
        "10 [0] start_lib_call([7],\"f\"): 11 [0] cnt_add(\"n\",1), 12 [0] cnt_start(\"t\",$thread)
         20 [0] end_lib_call([7],\"f\"): 21 [0] cnt_stop(\"t\",$thread,$time)
         30 [0] enable(10); 31 [0] enable(20)",
        "10:0.0 0.1, 20:0.0",
    );
}

#[test]
fn the_kernel_has_what_needs_who_met_the_event_if_only_to_hold_him() {
    check(
        "10 [0] start_lib_call([7],\"f\"): 11 [0] stack_backtrace(7)
         20 [0] end_lib_call([7],\"f\"): 21 [0] cnt_add(\"n\",1); 22 [0] stop([7])
         30 [0] process_signal([7],[10]): 31 [0] print($2), 32 [0] read_memory(7,0,1)
         40 [0] process_terminated([7]): 41 [0] stop([7])
         50 [0] start_lib_call([7],\"f\"): 51 [0] print($1)
         9 [0] enable(10); 9 [0] enable(20); 9 [0] enable(30); 9 [0] enable(40); 9 [0] enable(50)",
        "10:*, 20:0.0*, 30:*",
    );
}

#[test]
fn a_request_that_is_off_and_that_nobody_names_is_not_there() {
    check("10 [0] start_lib_call([7],\"f\"): 11 [0] cnt_add(\"n\",1)", "");
}

#[test]
fn what_stands_beside_a_print_is_split_off_and_what_waits_for_one_is_not() {
    check(
        "10 [0] start_lib_call([7],\"f\"): 11 [0] print($1), 12 [0] cnt_add(\"n\",1)
         20 [0] start_lib_call([7],\"f\"): 21 [0] cnt_add(\"n\",1); 22 [0] print($1); \
                23 [0] cnt_add(\"n\",1)
         30 [0] start_lib_call([7],\"f\"): 31 [0] print($1); 32 [0] cnt_add(\"n\",1)
         9 [0] enable(10); 9 [0] enable(20); 9 [0] enable(30)",
        "10:0.1+, 20:0.0+",
    );
}

#[test]
fn whoever_is_enabled_in_the_kernel_is_there_even_to_tell_alone() {
    check(
        "10 [0] start_lib_call([7],\"f\"): 11 [0] enable(20)
         20 [0] start_lib_call([7],\"g\"): 21 [0] print($1), 22 [0] disable(20)
         9 [0] enable(10)",
        "10:0.0, 20:0.1+",
    );
    // One that the kernel cannot have is enabled here.
    check(
        "10 [0] start_lib_call([7],\"f\"): 11 [0] enable(20)
         20 [0] process_stopped([7]): 21 [0] print($1)
         9 [0] enable(10)",
        "",
    );
}

#[test]
fn an_event_is_raised_in_the_kernel_if_all_who_wait_for_it_are_there() {
    let first = "10 [0] start_lib_call([7],\"f\"): 11 [0] raise_event(5,[1,$2])
                 20 [0] user_event(5): 21 [0] cnt_add(\"n\",$2)
                 9 [0] enable(10); 9 [0] enable(20)";
    check(first, "10:0.0, 20:0.0");
    let telling = format!("{first}\n30 [0] user_event(5): 31 [0] print($1)\n9 [0] enable(30)");
    check(&telling, "10:0.0, 20:0.0, 30:+");
    // Nobody waits, or it is told more than the kernel carries, or the process.
    check("10 [0] start_lib_call([7],\"f\"): 11 [0] raise_event(6,[1])\n9 [0] enable(10)", "");
    let many = first.replace("[1,$2]", "[1,2,3,4]");
    check(&many, "");
    check(&first.replace("[1,$2]", "[$1]"), "");
}

#[test]
fn a_circle_of_events_is_run_where_it_is_told_of() {
    check(
        "10 [0] start_lib_call([7],\"f\"): 11 [0] raise_event(5,[])
         20 [0] user_event(5): 21 [0] raise_event(6,[])
         30 [0] user_event(6): 31 [0] raise_event(5,[])
         9 [0] enable(10); 9 [0] enable(20); 9 [0] enable(30)",
        "",
    );
}

#[test]
fn a_timer_is_in_one_place() {
    check(
        "10 [0] start_lib_call([7],\"f\"): 11 [0] cnt_start(\"t\",$thread)
         20 [0] end_lib_call([7],\"f\"): 21 [0] print($1); 22 [0] cnt_stop(\"t\",$thread)
         9 [0] enable(10); 9 [0] enable(20)",
        "",
    );
}

#[test]
fn numbers_that_the_kernel_does_not_know_are_left_to_us() {
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
fn every_kind_of_instrument_is_fed_in_the_kernel_and_so_are_signals_sent() {
    check(
        "10 [0] start_lib_call([7],\"f\"): 11 [0] cnt_record(\"h\",$2), 12 [0] cnt_set(\"q\",$2), \
                13 [0] cnt_add(\"q\",-1), 14 [0] cnt_record(\"r\",$2,$thread,$time)
         20 [0] start_lib_call([7],\"f\"): 21 [0] kill($proc,9), 22 [0] kill([$1],10)
         9 [0] enable(10); 9 [0] enable(20)",
        "10:0.0 0.1 0.2 0.3, 20:0.0 0.1",
    );
}

#[test]
fn what_is_told_of_a_process_and_who_does_not_run_is_left_to_us() {
    check(
        "10 [0] start_lib_call([7],\"f\"): 11 [0] cnt_record(\"r\",$1), 12 [0] cnt_set(\"n\",1), \
                13 [0] cnt_record(\"r\",1,2,3,4,5), 14 [0] kill([7],9), 15 [0] kill($proc,0)
         20 [0] process_terminated([7]): 21 [0] kill($proc,9)
         9 [0] enable(10); 9 [0] enable(20)",
        "10:*",
    );
}
