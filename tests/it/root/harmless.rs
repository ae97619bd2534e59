//! Watched calls end no program: whatever unwinds through a watched function, and in no
//! process but the watched one there is a breakpoint.
//!
//! `unwinds.cc` ends its function in every way that C++ and the C library have, `unwinds.rs` in
//! every way of Rust, `unwinds.go` in every way of Go. `monitor when` watches one process of it;
//! those of two other users run beside it.

use super::privilege::{USER, able, as_user, granted};
use super::workload::Guarded;
use crate::probe::fixture::Build;
use crate::probe::when::{wait_until_watching, watch};
use crate::served::{Folder, Served};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that unwinds.
struct Unwinds {
    source: &'static str,
    words: &'static [&'static str],
    /// What it can do, and how often its function then ends by itself. Their number has no common
    /// divisor with 3.
    ways: &'static [(&'static str, u64)],
}

const CPP: Unwinds =
    Unwinds { source: "unwinds.cc", words: &["-O2", "-pthread"], ways: WAYS_OF_CPP };
const RUST: Unwinds = Unwinds {
    source: "unwinds.rs",
    words: &["--edition=2021", "-O", "-Cpanic=unwind", "-Cstrip=none"],
    ways: WAYS_OF_RUST,
};

const WAYS_OF_RUST: &[(&str, u64)] = &[
    ("return", 1),
    ("panic", 0),
    ("resume", 0),
    ("through", 0),
    ("thread", 0),
    ("recurse", 21),
    ("tail", 1),
];

const WAYS_OF_CPP: &[(&str, u64)] = &[
    ("return", 1),
    ("throw", 0),
    ("jump", 0),
    ("signal", 2),
    ("handler", 0),
    ("context", 0),
    ("exit", 0),
    ("cancel", 0),
    ("recurse", 21),
    ("tail", 1),
];

const GO: Unwinds = Unwinds { source: "unwinds.go", words: &[], ways: WAYS_OF_GO };

/// A call that does not end by itself is one call.
const WAYS_OF_GO: &[(&str, u64)] = &[
    ("return", 1),
    ("panic", 0),
    ("through", 0),
    ("recover", 1),
    ("exit", 0),
    ("grow", 50),
    ("many", 20 * 50),
    ("wait", 1),
    ("other", 1),
    ("return", 1),
];

/// Two users that own nothing else.
const USERS: [u32; 2] = [47_001, 47_002];
/// Rounds through all ways, unless `MONITOR_ROUNDS` says otherwise.
const ROUNDS: usize = 5;

fn rounds() -> usize {
    let given = std::env::var("MONITOR_ROUNDS").ok().and_then(|it| it.parse().ok());
    given.unwrap_or(ROUNDS)
}

/// The program, where every user can run it.
fn program(test: &str, unwinds: &Unwinds, folder: &Folder) -> Option<PathBuf> {
    let Unwinds { source, words, .. } = *unwinds;
    let built = Build { test, source, product: "unwinds", words }.done()?;
    let path = folder.join("unwinds");
    fs::copy(built, &path).unwrap();
    fs::set_permissions(folder.join("."), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    Some(path)
}

fn start(path: &Path, uid: u32) -> Guarded {
    let mut target = Guarded::run(Command::new(path).uid(uid).gid(uid));
    assert_eq!(target.line(), "ready");
    target
}

/// Goes through all ways, `rounds` times, in an order that depends on the round; returns how often
/// the function ended.
#[track_caller]
fn go(target: &mut Guarded, ways: &[(&str, u64)], rounds: usize) -> u64 {
    let mut n_ends = 0;
    for round in 0..rounds {
        for at in 0..ways.len() {
            let (way, ends) = ways[(3 * at + round) % ways.len()];
            target.send_line(way);
            assert_eq!(target.line(), way, "the program went wrong in round {round}");
            n_ends += ends;
        }
    }
    n_ends
}

/// The code that differs from its file, as file and offset, with the bytes in memory.
pub fn changed_code(pid: u32) -> Vec<(String, u64)> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut changed = Vec::new();
    for line in maps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [range, "r-xp", offset, _, _, path] = words[..] else { continue };
        if !path.starts_with('/') {
            continue;
        }
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let (from, to) = range.split_once('-').unwrap();
        let (from, to, offset) = (number(from), number(to), number(offset));
        let mut mapped = vec![0; usize::try_from(to - from).unwrap()];
        memory.read_exact_at(&mut mapped, from).unwrap();
        let mut stored = fs::read(path).unwrap().split_off(usize::try_from(offset).unwrap());
        stored.resize(mapped.len(), 0);
        if mapped == stored {
            continue;
        }
        let differs = mapped.iter().zip(&stored).enumerate().filter(|(_, (a, b))| a != b);
        changed.extend(differs.map(|(at, _)| (path.to_owned(), offset + at as u64)));
    }
    changed
}

/// Watches one process with this rule, beside those of others; returns how many ends there were
/// and what `monitor when` counted.
fn check(test: &str, unwinds: &Unwinds, rule: &[&str]) -> Option<(u64, String)> {
    if !granted(test) {
        return None;
    }
    let folder = Folder::new();
    let path = program(test, unwinds, &folder)?;
    let ways = unwinds.ways;
    let rounds = rounds();
    let mut target = start(&path, 0);
    let mut others = USERS.map(|uid| start(&path, uid));
    let nothing: &[(String, u64)] = &[];
    let untouched = |others: &[Guarded; 2], when: &str| {
        for other in others {
            assert_eq!(changed_code(other.pid().0), nothing, "{when}");
        }
    };
    let mut watching = watch(&target, rule);
    wait_until_watching(&mut watching);
    assert_ne!(changed_code(target.pid().0), nothing, "it is watched");
    untouched(&others, "while another process is watched");
    let n_ends = go(&mut target, ways, rounds);
    for other in &mut others {
        let _ = go(other, ways, rounds);
    }
    untouched(&others, "after all ways");
    // Started while another process of the program is watched.
    let mut late = start(&path, USERS[0]);
    assert_eq!(changed_code(late.pid().0), nothing, "a process that began later");
    let _ = go(&mut late, ways, 1);
    let pid = rustix::process::Pid::from_child(&watching.0);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut table = String::new();
    std::io::Read::read_to_string(watching.0.stdout.as_mut().unwrap(), &mut table).unwrap();
    let _ = watching.0.wait().unwrap();
    assert_eq!(changed_code(target.pid().0), nothing, "nothing is left in the watched process");
    untouched(&others, "at the end");
    for mut program in others.into_iter().chain([target, late]) {
        let _ = go(&mut program, ways, 1);
        drop(program.0.stdin.take());
        assert_eq!(program.0.wait().unwrap().code(), Some(0));
    }
    Some((n_ends, table))
}

/// The count in the last row of a table.
#[track_caller]
pub fn counted(table: &str, row: &str) -> u64 {
    let line = table.lines().find_map(|line| line.strip_prefix(row));
    let line = line.unwrap_or_else(|| panic!("no {row:?} in {table}"));
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn root_a_function_that_is_unwound_is_watched_at_its_ends_and_no_process_is_harmed() {
    const TEST: &str =
        "root_a_function_that_is_unwound_is_watched_at_its_ends_and_no_process_is_harmed";
    let Some((n_ends, table)) = check(TEST, &CPP, &["return probed", "count"]) else { return };
    assert_eq!(counted(&table, "return probed"), n_ends, "{table}");
}

#[test]
fn root_calls_of_a_function_that_is_unwound_are_timed_and_no_process_is_harmed() {
    const TEST: &str =
        "root_calls_of_a_function_that_is_unwound_are_timed_and_no_process_is_harmed";
    let Some((n_ends, table)) = check(TEST, &CPP, &["call probed", "count,time"]) else { return };
    assert!(counted(&table, "call probed") > n_ends, "{table}");
}

#[test]
fn root_calls_of_a_thrower_in_a_shared_library_are_watched_and_no_process_is_harmed() {
    const TEST: &str =
        "root_calls_of_a_thrower_in_a_shared_library_are_watched_and_no_process_is_harmed";
    let Some((_, table)) = check(TEST, &CPP, &["call libstdc++:__cxa_throw", "count"]) else {
        return;
    };
    assert!(counted(&table, "call libstdc++:__cxa_throw") > 0, "{table}");
}

#[test]
fn root_panics_pass_through_a_watched_function_of_rust() {
    const TEST: &str = "root_panics_pass_through_a_watched_function_of_rust";
    let Some((n_ends, table)) = check(TEST, &RUST, &["return probed", "count"]) else { return };
    assert_eq!(counted(&table, "return probed"), n_ends, "{table}");
    let Some((n_ends, table)) = check(TEST, &RUST, &["call probed", "count,time"]) else { return };
    assert!(counted(&table, "call probed") > n_ends, "{table}");
}

#[test]
fn root_calls_and_ends_of_a_go_function_are_counted_exactly_while_its_stacks_move() {
    const TEST: &str =
        "root_calls_and_ends_of_a_go_function_are_counted_exactly_while_its_stacks_move";
    let rule = ["return main.probed", "count"];
    let Some((n_ends, table)) = check(TEST, &GO, &rule) else { return };
    assert_eq!(counted(&table, "return main.probed"), n_ends, "{table}");
    let rule = ["call main.probed", "count"];
    let Some((n_ends, table)) = check(TEST, &GO, &rule) else { return };
    let n_endless = WAYS_OF_GO.iter().filter(|(_, ends)| *ends == 0).count() * rounds();
    assert_eq!(counted(&table, "call main.probed"), n_ends + n_endless as u64, "{table}");
    let rule = ["call main.probed", "count,time"];
    let Some((n_ends, table)) = check(TEST, &GO, &rule) else { return };
    assert_eq!(counted(&table, "call main.probed"), n_ends + n_endless as u64, "{table}");
}

#[test]
fn root_a_trampoline_in_a_go_program_is_refused() {
    const TEST: &str = "root_a_trampoline_in_a_go_program_is_refused";
    let folder = Folder::new();
    let Some(path) = granted(TEST).then(|| program(TEST, &GO, &folder)).flatten() else { return };
    let mut target = start(&path, 0);
    let mut refused = watch(&target, &["return main.probed", "count", "--trampoline"]);
    let mut why = String::new();
    std::io::Read::read_to_string(refused.0.stderr.as_mut().unwrap(), &mut why).unwrap();
    assert!(why.contains("a Go program moves its stacks"), "{why}");
    assert_ne!(refused.0.wait().unwrap().code(), Some(0));
    assert_eq!(changed_code(target.pid().0), []);
    let _ = go(&mut target, GO.ways, 1);
}

#[test]
fn root_a_user_that_sets_too_many_probes_is_refused_before_the_first() {
    if !able("root_a_user_that_sets_too_many_probes_is_refused_before_the_first") {
        return;
    }
    let config = format!("[policy]\ncontrol-own = [\"{USER}\"]\n");
    let service = Served::started(&config, crate::served::monitor(), "ebpf");
    let mut command = Command::new("python3");
    let script = "import os,sys\n\
                  all=[]\n\
                  for _ in range(260):\n  \
                    pid=os.fork()\n  \
                    if pid==0: os.read(0,1); os._exit(0)\n  \
                    all.append(pid)\n\
                  print(','.join(map(str,all)),flush=True)\n\
                  os.read(0,1)";
    let mut parent = Guarded::run(command.args(["-c", script]).uid(USER).gid(USER));
    let pids = parent.line();
    let mut session = as_user(&[], || service.connect());
    assert_eq!(session.request(&format!("1 [] attach([{pids}])")), "1 [0] attach(0)");
    let rule = format!("2 [0] start_lib_call([{pids}],\"libc:getppid\"): 3 [0] print($proc)");
    assert_eq!(session.request(&rule), "2 [0] start_lib_call(0)");
    let refused = session.request("4 [0] enable(2)");
    let why = format!("user {USER} may watch 256 calls");
    assert!(refused.starts_with("4 [0] enable(") && refused.contains(&why), "{refused}");
    for pid in pids.split(',').take(7) {
        assert_eq!(changed_code(pid.parse().unwrap()), [], "nothing is set");
    }
    // Fewer are set, and all are seen.
    let few = pids.split(',').take(3).collect::<Vec<_>>().join(",");
    let rule = format!("5 [0] start_lib_call([{few}],\"libc:getppid\"): 6 [0] print($proc)");
    assert_eq!(session.request(&rule), "5 [0] start_lib_call(0)");
    assert_eq!(session.request("7 [0] enable(5)"), "7 [0] enable(0)");
}
