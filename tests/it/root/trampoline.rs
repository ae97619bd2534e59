//! Return trampolines are set on the word of the owner of the process alone; and the price of each
//! probe is known before it is set.

use super::harmless::{changed_code, unwinds_of};
use super::privilege::{USER, able, as_user, granted};
use super::workload::Guarded;
use crate::deadline;
use crate::served::{Folder, Served, monitor};
use crate::socket_session::SocketSession;
use serde_json::Value;
use std::fs;
use std::process::Command;

/// How many descriptors of a process are uretprobes; none if the kernel does not say (before 6.17).
fn n_uretprobes(pid: u32) -> Option<usize> {
    let all = fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap();
    let texts = all.filter_map(|it| fs::read_to_string(it.ok()?.path()).ok());
    let texts: Vec<String> = texts.filter(|it| it.contains("link_type:\tperf")).collect();
    let says = |text: &&String, what: &str| {
        text.lines().any(|line| line.split_whitespace().last() == Some(what))
    };
    let n_ret = texts.iter().filter(|it| says(it, "uretprobe")).count();
    (n_ret > 0 || texts.iter().any(|it| says(&it, "uprobe"))).then_some(n_ret)
}

/// Stores and enables request 10, and waits until the process is probed; returns where.
#[track_caller]
fn watched(session: &mut SocketSession, pid: u32, event: &str) -> Vec<(String, u64)> {
    let name = event.split('(').next().unwrap();
    let stored = session.request(&format!("10 [0] {event}: 11 [0] print($proc)"));
    assert_eq!(stored, format!("10 [0] {name}(0)"));
    assert_eq!(session.request("12 [0] enable(10)"), "12 [0] enable(0)");
    deadline::until(|| Some(in_program(pid)).filter(|it| !it.is_empty()))
}

/// Where the code of the program is changed; without the linker, whose calls the monitor follows.
fn in_program(pid: u32) -> Vec<(String, u64)> {
    let mut changed = changed_code(pid);
    changed.retain(|(file, _)| file.ends_with("/unwinds"));
    changed
}

/// Deletes request 10, and waits until its probes are gone.
#[track_caller]
fn unwatch(session: &mut SocketSession, pid: u32) {
    assert_eq!(session.request("13 [0] delete(10)"), "13 [0] delete(0)");
    deadline::until(|| in_program(pid).is_empty().then_some(()));
}

/// Lets the function of the program return once, and expects the notice.
#[track_caller]
fn returns(target: &mut Guarded, session: &mut SocketSession) {
    target.send_line("return");
    assert_eq!(target.line(), "return");
    let want = format!("11 [0] print(0,[{}])", target.pid().0);
    assert_eq!(session.line(), Some(want));
}

#[test]
fn root_an_end_is_seen_by_a_trampoline_only_on_the_word_of_the_owner() {
    const TEST: &str = "root_an_end_is_seen_by_a_trampoline_only_on_the_word_of_the_owner";
    if !able(TEST) {
        return;
    }
    let folder = Folder::new();
    let Some(mut target) = unwinds_of(TEST, &folder, USER) else { return };
    let pid = target.pid().0;
    let config = format!("[policy]\ncontrol-own = [\"{USER}\"]\n");
    let served = Served::started(&config, monitor(), "ebpf");
    let event = format!("end_lib_call([{pid}],\"probed\")");
    let by_trampoline = format!("end_lib_call([{pid}],\"probed\",\"trampoline\")");
    let attach = format!("1 [0] attach([{pid}])");

    // Not even root, which may do anything else to it.
    let mut root = served.connect();
    assert_eq!(root.request(&attach), "1 [0] attach(0)");
    let refused = root.request(&format!("2 [0] {by_trampoline}: 3 [0] print(1)"));
    let why = format!("process {pid} belongs to user {USER}, and a return trampoline can end it");
    assert!(refused.starts_with("2 [0] end_lib_call(4") && refused.contains(&why), "{refused}");
    let refused =
        root.request(&format!("2 [0] end_lib_call([{pid}],\"probed\",\"quick\"): 3 [0] print(1)"));
    assert!(refused.contains("expected \\\"trampoline\\\" or none"), "{refused}");

    let mut session = as_user(&[], || served.connect());
    assert_eq!(session.request(&attach), "1 [0] attach(0)");
    let start = watched(&mut session, pid, &format!("start_lib_call([{pid}],\"probed\")"));
    assert_eq!(start.len(), 1);
    unwatch(&mut session, pid);

    let ends = watched(&mut session, pid, &event);
    assert!(!ends.contains(&start[0]), "{ends:?}");
    assert!(matches!(n_uretprobes(served.pid()), None | Some(0)));
    returns(&mut target, &mut session);
    unwatch(&mut session, pid);

    // A process that another rule of the same user watches keeps its return addresses.
    let Some(mut other) = unwinds_of(TEST, &folder, USER) else { return };
    let other_pid = other.pid().0;
    let attach = format!("1 [0] attach([{other_pid}])");
    assert_eq!(session.request(&attach), "1 [0] attach(0)");
    let rule = format!("20 [0] start_lib_call([{other_pid}],\"elsewhere\"): 21 [0] print(1)");
    assert_eq!(session.request(&rule), "20 [0] start_lib_call(0)");
    assert_eq!(session.request("22 [0] enable(20)"), "22 [0] enable(0)");
    let _probed = deadline::until(|| Some(in_program(other_pid)).filter(|it| !it.is_empty()));

    let _watched = watched(&mut session, pid, &by_trampoline);
    let probed = deadline::until(|| Some(in_program(pid)).filter(|it| it.contains(&start[0])));
    assert!(!ends.iter().any(|end| probed.contains(end)), "{probed:?}, not at {ends:?}");
    assert!(matches!(n_uretprobes(served.pid()), None | Some(1)));
    assert!(!in_program(other_pid).contains(&start[0]));
    returns(&mut target, &mut session);
    other.send_line("throw");
    assert_eq!(other.line(), "throw");
    // The danger that the option names.
    target.send_line("throw");
    assert_eq!(target.0.wait().unwrap().code(), None, "it is aborted");
}

#[test]
fn root_when_replaces_return_addresses_in_its_users_processes_alone() {
    const TEST: &str = "root_when_replaces_return_addresses_in_its_users_processes_alone";
    if !granted(TEST) {
        return;
    }
    let folder = Folder::new();
    let Some(target) = unwinds_of(TEST, &folder, USER) else { return };
    let words = ["when", "call probed", "time", "--trampoline", "--pid"];
    let output = monitor().args(words).arg(target.pid().0.to_string()).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains(&format!("belongs to user {USER}")), "{error}");
    assert_eq!(output.status.code(), Some(5), "{error}");
    assert_eq!(changed_code(target.pid().0), []);
}

#[test]
fn root_the_price_of_a_rule_is_known_before_it_is_enabled() {
    const TEST: &str = "root_the_price_of_a_rule_is_known_before_it_is_enabled";
    if !granted(TEST) {
        return;
    }
    let folder = Folder::new();
    let Some(target) = unwinds_of(TEST, &folder, 0) else { return };
    let (pid, served) = (target.pid().0, Served::start("ebpf"));
    let mut session = served.connect();
    assert_eq!(session.request(&format!("1 [0] attach([{pid}])")), "1 [0] attach(0)");
    let doctor = || String::from_utf8(served.command("doctor").output().unwrap().stdout).unwrap();
    let before = doctor();
    assert!(before.contains("measured when the first rule on a call is stored"), "{before}");
    let rule = format!("10 [0] end_lib_call([{pid}],\"probed\"): 11 [0] print($proc)");
    assert_eq!(session.request(&rule), "10 [0] end_lib_call(0)");
    let report = session.result("probes", "{}");
    let prices = &report["call_prices"];
    println!("{prices}");
    let ns = |name: &str| prices[name].as_u64().unwrap_or_else(|| panic!("{name} in {prices}"));
    assert!(ns("stepped_ns") > 0 && ns("emulated_ns") > 0 && ns("trampoline_ns") > 0, "{prices}");
    assert!(doctor().contains("end: a return instruction, single-stepped"));
    // Only its end is probed, as it has no description.
    let reply = session.request("12 [0] request_price(10)");
    let want =
        format!("12 [0] request_price(0,{},[[\"{}/", ns("stepped_ns"), folder.path().display());
    assert!(reply.starts_with(&want) && reply.contains(",\"end\","), "{reply}");
    assert_eq!(changed_code(pid), [], "it is not enabled");
    let rule = "13 [0] process_terminated([]): 14 [0] print($proc)";
    assert_eq!(session.request(rule), "13 [0] process_terminated(0)");
    assert_eq!(session.request("15 [0] request_price(13)"), "15 [0] request_price(0,0,[])");
}

#[test]
fn root_when_explains_the_price_of_each_probe_and_sets_none() {
    const TEST: &str = "root_when_explains_the_price_of_each_probe_and_sets_none";
    if !granted(TEST) {
        return;
    }
    let folder = Folder::new();
    let Some(target) = unwinds_of(TEST, &folder, 0) else { return };
    let pid = target.pid().0;
    let explain = |words: &[&str]| {
        let mut command: Command = monitor();
        let words = ["when", "call probed", "count,time", "--explain"].iter().chain(words);
        let output = command.args(words).args(["--pid", &pid.to_string()]).output().unwrap();
        let (out, error) = (String::from_utf8(output.stdout).unwrap(), output.stderr);
        assert_eq!(output.status.code(), Some(0), "{out}{}", String::from_utf8_lossy(&error));
        out
    };
    let text = explain(&[]);
    println!("{text}");
    let lines: Vec<&str> = text.lines().collect();
    let [start, end, sum] = lines[..] else { panic!("{text}") };
    assert!(start.contains(" at the start of ") && end.contains(" single-stepped ends of "));
    assert!(sum.starts_with(&format!("{pid}: a call of probed takes ")), "{text}");
    let line: Value =
        serde_json::from_str(&explain(&["--trampoline", "--format", "json"])).unwrap();
    println!("{line}");
    let probes = line["probes"].as_array().unwrap();
    let ns = |it: &Value| it["ns"].as_u64().unwrap();
    assert_eq!((&probes[0]["place"], &probes[1]["place"]), (&"start".into(), &"trampoline".into()));
    assert_eq!(line["ns_per_call"].as_u64(), Some(ns(&probes[0]) + ns(&probes[1])));
    assert_eq!(changed_code(pid), []);
}
