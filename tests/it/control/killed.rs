//! The service and its user workers are killed at the same moment, as the OOM killer and systemd do
//! it: the next service resumes everything before it listens.

use super::group::Group;
use super::target::{Target, program};
use crate::deadline;
use crate::root::privilege::{USER, able, as_user};
use crate::served::Served;
use crate::socket_session::SocketSession;
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Rounds, unless `MONITOR_ROUNDS` says otherwise.
const ROUNDS: u64 = 5;

/// The user workers of a service.
pub fn workers(service: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{service}/task/{service}/children"));
    let all = children.unwrap_or_default();
    let mut threads = vec![all];
    for task in std::fs::read_dir(format!("/proc/{service}/task")).into_iter().flatten().flatten() {
        threads.push(std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
    }
    let pids = threads.iter().flat_map(|it| it.split_whitespace()).map(|it| it.parse().unwrap());
    let mut pids: Vec<u32> = pids.collect();
    pids.sort_unstable();
    pids.dedup();
    pids.retain(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.windows(11).any(|it| it == b"user-worker")
    });
    pids
}

/// Kills a service and its user workers; none can undo anything after another one is killed.
pub fn kill_all(service: &mut Served) {
    let workers: Vec<_> = workers(service.pid())
        .into_iter()
        .filter_map(|it| Pid::from_raw(it.cast_signed()))
        .collect();
    let all = |signal| workers.iter().for_each(|pid| _ = kill_process(*pid, signal));
    all(Signal::STOP);
    service.kill();
    all(Signal::KILL);
    for worker in &workers {
        let path = PathBuf::from(format!("/proc/{}", worker.as_raw_nonzero()));
        let is_over = || {
            let stat = std::fs::read_to_string(path.join("stat")).unwrap_or_default();
            !path.exists() || stat.contains(") Z ")
        };
        deadline::until(|| is_over().then_some(()));
    }
}

fn undo_files(service: &Served) -> usize {
    let folder = PathBuf::from(format!("{}.undo", service.socket().display()));
    std::fs::read_dir(folder).map_or(0, |it| it.count())
}

/// The program, where the user may run it.
fn copy() -> PathBuf {
    let copy = std::env::temp_dir().join(format!("monitor-killed-{}", std::process::id()));
    let _bytes = std::fs::copy(program(), &copy).unwrap();
    copy
}

fn users_target(copy: &Path) -> Target {
    Target::run(Command::new(copy).args(["spin", "1"]).uid(USER).gid(USER))
}

/// Attaches a process, and asks to stop it without waiting for the reply.
fn stop(session: &mut SocketSession, target: &Target) {
    let pid = target.id().pid.0;
    assert_eq!(session.request(&format!("1 [] attach([{pid}])")), "1 [0] attach(0)");
    session.send(format!("2 [0] stop([{pid}])\n").as_bytes()).unwrap();
}

/// The pid of a program that a session has started, and that is stopped.
pub fn started(session: &mut SocketSession, copy: &Path) -> u32 {
    let request = format!("3 [0] start_stopped(\"{}\",[\"spin\",\"1\"])", copy.display());
    let line = session.request(&request);
    let pid = line.strip_prefix("3 [0] start_stopped(0,").and_then(|it| it.strip_suffix(')'));
    pid.unwrap_or_else(|| panic!("{line}")).parse().unwrap()
}

fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[test]
fn root_the_next_service_resumes_what_stays_stopped_when_all_is_killed_at_once() {
    if !able("root_the_next_service_resumes_what_stays_stopped_when_all_is_killed_at_once") {
        return;
    }
    let rounds = std::env::var("MONITOR_ROUNDS").ok().and_then(|it| it.parse().ok());
    let config = format!("[policy]\ncontrol-own = [\"{USER}\"]\n");
    let mut service = Served::started(&config, crate::served::monitor(), "procfs");
    let copy = copy();
    let mut slowest = Duration::ZERO;
    for round in 0..rounds.unwrap_or(ROUNDS) {
        let group = Group::new("monitor-killed");
        let targets = [Target::new("spin", 2), Target::new("spin", 1), users_target(&copy)];
        if let Some(group) = &group {
            std::fs::write(group.0.join("cgroup.procs"), targets[0].id().pid.0.to_string())
                .unwrap();
        }
        let [mut root, mut other] = [(); 2].map(|()| service.connect());
        let mut user = as_user(&[], || service.connect());
        let child = (round % 3 == 0).then(|| started(&mut user, &copy));
        stop(&mut root, &targets[0]);
        stop(&mut user, &targets[2]);
        stop(&mut other, &targets[1]);
        if round % 2 == 0 {
            deadline::until(|| targets[1..].iter().all(Target::is_stopped).then_some(()));
        } else {
            // Moments that differ from round to round, while the stops are made.
            let mut third = service.connect();
            for _ in 0..round * 1_103_515_245 % 23 {
                assert!(third.request("4 [0] print(1)").starts_with("4 [0] print("));
            }
        }
        kill_all(&mut service);
        let before = Instant::now();
        service.restart();
        // On a busy machine some of it is undone after that.
        deadline::until(|| (undo_files(&service) == 0).then_some(()));
        for target in &targets {
            target.until_counts(0);
        }
        if let Some(pid) = child {
            deadline::until(|| state(pid).is_none_or(|it| it != 'T').then_some(()));
            let _ended = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL);
        }
        slowest = slowest.max(before.elapsed());
        drop(targets);
        drop(group);
    }
    println!("everything ran on at most {slowest:?} after the start");
    std::fs::remove_file(copy).unwrap();
}
