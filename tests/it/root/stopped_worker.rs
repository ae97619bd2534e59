//! A user that stops its own user worker: nothing else waits for it.

use super::privilege::granted;
use super::workload::Guarded;
use crate::deadline::until;
use crate::served::{Served, monitor};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Instant;

/// A user that owns nothing else.
const UID: u32 = 47_004;
/// Requests of another user meanwhile.
const MEANWHILE: usize = 100;

/// The user worker of the user, once there is one.
fn user_worker(served: &Served) -> Option<u32> {
    let tasks = fs::read_dir(format!("/proc/{}/task", served.pid())).unwrap().flatten();
    let children = tasks.filter_map(|it| fs::read_to_string(it.path().join("children")).ok());
    let children = children.collect::<String>();
    let is_it = |pid: &&str| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        status.contains(&format!("Uid:\t{UID}\t")) && !words.contains("--reader")
    };
    children.split_whitespace().find(is_it).and_then(|pid| pid.parse().ok())
}

fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim().chars().next()
}

#[test]
fn root_a_stopped_user_worker_holds_up_its_user_alone() {
    if !granted("root_a_stopped_user_worker_holds_up_its_user_alone") {
        return;
    }
    // Loading the rules is charged to the user of the first request.
    let config = format!("[limits]\nprocessor = \"100%\"\n[policy]\ncontrol-own = [\"{UID}\"]\n");
    let mut served = Served::started(&config, monitor(), "ebpf");
    // The last session of all would end all user workers with it.
    let own = Guarded::sh("read line");
    let (mut session, pid) = (served.connect(), own.pid().0);
    assert_eq!(session.request(&format!("1 [0] attach([{pid}])")), "1 [0] attach(0)");
    let mut command = Command::new("sh");
    let target = Guarded::run(command.args(["-c", "read line"]).uid(UID).gid(UID));
    let its = target.pid().0;
    let ask = || {
        let mut session = Guarded::run(served.command("ask -").uid(UID).gid(UID));
        session.send_line(&format!("1 [0] attach([{its}])"));
        session.send_line(&format!("2 [0] stop([{its}])"));
        session
    };
    let first = ask();
    let worker = until(|| user_worker(&served));
    until(|| (state(its) == Some('T')).then_some(()));
    kill_process(Pid::from_raw(i32::try_from(worker).unwrap()).unwrap(), Signal::STOP).unwrap();
    // Its session ends, and another one asks: both are for the worker.
    drop(first);
    let _waiting = ask();
    let begin = Instant::now();
    for n in 0..MEANWHILE {
        let call = if n % 2 == 0 { "stop" } else { "continue" };
        assert_eq!(session.request(&format!("3 [0] {call}([{pid}])")), format!("3 [0] {call}(0)"));
    }
    println!("{MEANWHILE} requests of another user took {:?}", begin.elapsed());
    assert_eq!(state(worker), Some('T'), "it is still stopped");
    let begin = Instant::now();
    served.signal(Signal::TERM);
    served.ends();
    println!("it ended after {:?}", begin.elapsed());
    until(|| (state(its) == Some('S')).then_some(()));
    assert_eq!(state(worker), None);
}
