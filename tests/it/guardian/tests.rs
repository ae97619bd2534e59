//! Whichever part of the test program is killed, nothing that its tests started is left.

use super::OWN_MACHINE;
use crate::control::target::{Target, program};
use crate::deadline::until;
use crate::root::privilege::USER;
use crate::root::workload::Guarded;
use crate::served::{Served, monitor};
use rustix::process::{Pid, Signal, getppid, kill_process};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Environment variable of the program that is killed.
const KILLED: &str = "MONITOR_TEST_KILLED";
/// Which part is killed: those before the one that runs the tests are its guardians.
const PARTS: usize = 3;

/// Starts a service, a client, programs of two users, one through the service, and one that has
/// left its parent; prints the processes and waits. Without the variable it does nothing.
#[test]
fn starts_processes_until_it_is_killed() {
    if std::env::var_os(KILLED).is_none() {
        return;
    }
    let is_root = rustix::process::geteuid().is_root();
    let config = "[policy]\ncontrol-own = [\"*\"]\n";
    let service = Served::started(config, monitor(), "procfs");
    let mut session = service.connect();
    let target = Target::new("spin", 2);
    let pid = target.id().pid.0;
    assert_eq!(session.request(&format!("1 [] attach([{pid}])")), "1 [0] attach(0)");
    assert_eq!(session.request(&format!("2 [] stop([{pid}])")), "2 [0] stop(0)");
    let start = format!("3 [] start_stopped(\"{}\",[\"spin\",\"1\"])", program().display());
    let line = session.request(&start);
    let started = line.strip_prefix("3 [0] start_stopped(0,").and_then(|it| it.strip_suffix(')'));
    let started = started.unwrap_or_else(|| panic!("{line}")).to_owned();
    let mut watch = service.command("watch --format json");
    let mut watch = Guarded::run(&mut watch);
    assert!(watch.line().starts_with('{'));
    let mut orphan = Command::new("sh");
    orphan.args(["-c", "setsid sh -c 'sleep 1001 & echo $!; wait' & wait"]);
    if is_root {
        orphan.uid(USER).gid(USER);
    }
    let mut orphan = Guarded::run(&mut orphan);
    let left = orphan.line();
    let tests = std::process::id();
    let pids = [service.pid(), pid, watch.pid().0, orphan.pid().0].map(|it| it.to_string());
    let inner = getppid().expect("a guardian").as_raw_nonzero();
    // The line break ends the line that the test harness has started.
    println!("\npids {inner} {tests} {} {started} {left}", pids.join(" "));
    std::io::stdout().flush().unwrap();
    until(|| None::<()>);
}

/// The program with the test above, and its processes: guardian, tests, and all that it started.
fn killed(part: usize) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "guardian::tests::starts_processes_until_it_is_killed", "--nocapture"])
        .env(KILLED, "1")
        .env_remove(OWN_MACHINE)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.find_map(|line| line.strip_prefix("pids ").map(str::to_owned)).unwrap();
    let mut pids = vec![child.id().cast_signed()];
    pids.extend(line.split(' ').map(|it| it.parse::<i32>().unwrap()));
    assert!(pids.iter().all(|pid| Path::new(&format!("/proc/{pid}")).exists()), "{pids:?}");
    kill_process(Pid::from_raw(pids[part]).unwrap(), Signal::KILL).unwrap();
    let status = child.wait().unwrap();
    assert!(!status.success());
    until(|| pids.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()).then_some(()));
}

#[test]
fn what_tests_start_ends_with_the_test_program_whichever_part_of_it_is_killed() {
    (0..PARTS).for_each(killed);
}
