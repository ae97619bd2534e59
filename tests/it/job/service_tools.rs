//! `job_stacks` and `job_attach` through the socket of a service: places of ranks, daemons beside
//! them, whose right they need, and what is left when a service is killed.

use super::{HYDRA, Launcher, OPEN_MPI, RunningJob, has_ended, state};
use crate::control::killed::kill_all;
use crate::deadline;
use crate::probe::mpi::{self, Library, Ranks};
use crate::root::privilege::{USER, able, as_user};
use crate::served::{Folder, Served, monitor};
use crate::socket_session::SocketSession;
use monitor_model::id::Pid;
use monitor_sys::ptrace;
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// Ranks that do nothing until they are ended.
const IDLE: &str = "exec sleep 1000";

/// The status of a service, and its other results.
pub fn results(session: &mut SocketSession, service: &str) -> (i64, Vec<Value>) {
    let reply = session.request(&format!("1 [0] {service}"));
    let begin = reply.find('(').unwrap() + 1;
    let values = &reply[begin..reply.rfind(')').unwrap()];
    let mut all: Vec<Value> =
        serde_json::from_str(&format!("[{values}]")).unwrap_or_else(|why| panic!("{reply}: {why}"));
    (all.remove(0).as_i64().unwrap(), all)
}

pub fn rows(list: &Value, n: usize) -> Vec<Vec<Value>> {
    list.as_array().unwrap().chunks(n).map(<[Value]>::to_vec).collect()
}

/// Ranks, process and path of each class.
fn classes(results: &[Value]) -> Vec<(String, u32, Vec<String>)> {
    let class = |it: Vec<Value>| {
        let pid = u32::try_from(it[2].as_u64().unwrap()).unwrap();
        (
            serde_json::from_value(it[0].clone()).unwrap(),
            pid,
            serde_json::from_value(it[3].clone()).unwrap(),
        )
    };
    rows(&results[0], 4).into_iter().map(class).collect()
}

fn states(ranks: &[Pid]) -> String {
    ranks.iter().map(|pid| state(*pid)).collect()
}

fn send(pid: Pid, signal: Signal) {
    let pid = rustix::process::Pid::from_raw(pid.0.cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Rank 0 reads its standard input, and the others wait for it in a broadcast.
#[track_caller]
fn check_two_places(test: &str, library: &Library) {
    let Some(mut ranks) = Ranks::start_many(test, library, 3) else { return };
    let job = ranks.starter_pid().0;
    let served = Served::start("procfs");
    let mut session = served.connect();
    let all = deadline::until(|| {
        let (status, all) = results(&mut session, &format!("job_stacks(\"{job}\",\"first\")"));
        assert_eq!((status, &all[2]), (0, &Value::from(Vec::<Value>::new())));
        let [(most, _, wait), (one, pid, read)] = &classes(&all)[..] else { return None };
        let waits = matches!(wait.last()?.as_str(), "MPI_Bcast" | "PMPI_Bcast");
        let reads = read.iter().any(|it| it.contains("fgets")) && *pid == ranks.pids[0].0;
        (most == "1-2" && one == "0" && waits && reads).then_some(all)
    });
    let nodes = rows(&all[1], 6);
    let main = nodes.iter().find(|it| it[1] == "main").unwrap();
    assert_eq!((&main[2], &main[3], &main[4]), (&"0-2".into(), &3.into(), &0.into()));
    let depths: Vec<i64> = nodes.iter().map(|it| it[0].as_i64().unwrap()).collect();
    assert!(depths.windows(2).all(|it| it[1] <= it[0] + 1), "{depths:?}");
    let ends = |nodes: &[Vec<Value>]| nodes.iter().map(|it| it[4].as_i64().unwrap()).sum::<i64>();
    let stopped = all[3].as_f64().unwrap();
    assert!(ends(&nodes) == 3 && 0.0 < stopped && stopped < 5.0, "{all:?}");
    let (_, all) = results(&mut session, &format!("job_stacks(\"{job}:1\",\"all\")"));
    assert_eq!(classes(&all).len(), 1);
    let tasks = std::fs::read_dir(format!("/proc/{}/task", ranks.pids[1].0)).unwrap().count();
    assert_eq!(ends(&rows(&all[1], 6)), i64::try_from(tasks).unwrap());
    // The program goes on as before.
    ranks.run("fill 3");
    ranks.end();
}

#[test]
fn the_service_returns_the_places_of_ranks() {
    const TEST: &str = "the_service_returns_the_places_of_ranks";
    check_two_places(TEST, &mpi::OPEN_MPI);
    check_two_places(TEST, &mpi::MPICH);
}

#[test]
fn a_rank_that_cannot_be_read_is_named_and_the_others_are_returned() {
    const TEST: &str = "a_rank_that_cannot_be_read_is_named_and_the_others_are_returned";
    let Some(job) = OPEN_MPI.start(TEST, 3, IDLE) else { return };
    let ranks = job.ranks();
    let traced = ranks[1].0;
    // The kernel detaches it when this thread ends.
    ptrace::seize_alone(traced.cast_signed()).unwrap();
    let served = Served::start("procfs");
    let mut session = served.connect();
    let pid = job.pid();
    let (status, all) = results(&mut session, &format!("job_stacks(\"{pid}\",\"first\")"));
    let own = std::process::id();
    let why = format!("process {own} traces it already; detach that tracer first");
    let missing = vec![1.into(), traced.into(), 307.into(), Value::from(why.clone())];
    assert_eq!((status, rows(&all[2], 4)), (1, vec![missing]), "{all:?}");
    assert_eq!(classes(&all)[0].0, "0,2");
    let reply = session.request(&format!("2 [0] job_stacks(\"{pid}:1\",\"first\")"));
    assert!(reply.contains("job_stacks(307,") && reply.contains(&why), "{reply}");
    let reply = session.request("3 [0] job_stacks(\"nosuch\",\"first\")");
    assert!(reply.contains("job_stacks(300,"), "{reply}");
    // One that the user worker itself traces for a tool.
    let held = ranks[2].0;
    assert_eq!(session.request(&format!("4 [0] attach([{held}])")), "4 [0] attach(0)");
    let reply = session.request(&format!("5 [0] stop_threads([{held}])"));
    assert_eq!(reply, "5 [0] stop_threads(0,[1])");
    let reply = session.request(&format!("6 [0] job_stacks(\"{pid}:2\",\"first\")"));
    assert!(reply.contains("job_stacks(307,"), "{reply}");
    let reply = session.request(&format!("7 [0] continue_threads([{held}],0)"));
    assert_eq!(reply, "7 [0] continue_threads(0)");
    let (status, _) = results(&mut session, &format!("job_stacks(\"{pid}:2\",\"first\")"));
    assert_eq!(status, 0);
}

#[test]
fn the_service_reads_ranks_that_are_held_and_they_stay_held() {
    const TEST: &str = "the_service_reads_ranks_that_are_held_and_they_stay_held";
    let Some(job) = HYDRA.start(TEST, 2, IDLE) else { return };
    let ranks = job.ranks();
    let served = Served::start("procfs");
    let mut session = served.connect();
    let pid = job.pid();
    let act = |session: &mut SocketSession, name: &str| {
        let reply = session.request(&format!("1 [0] {name}(\"{pid}\")"));
        assert_eq!(reply, format!("1 [0] {name}(0)"));
    };
    act(&mut session, "job_hold");
    for _ in 0..3 {
        let (status, all) = results(&mut session, &format!("job_stacks(\"{pid}\",\"all\")"));
        assert_eq!((status, classes(&all).len()), (0, 1), "{all:?}");
        deadline::until(|| (states(&ranks) == "TT").then_some(()));
    }
    act(&mut session, "job_release");
    deadline::until(|| (states(&ranks) == "SS").then_some(()));
}

/// Kills the service, or that and its user workers, at different moments of copies.
#[track_caller]
fn check_killed(test: &str, launcher: &Launcher, kill: fn(&mut Served)) {
    let script = "trap 'echo got' USR1; echo ready; while :; do :; done";
    let Some(mut job) = launcher.start(test, 2, script) else { return };
    let ranks = job.ranks();
    for _ in &ranks {
        assert_eq!(job.launcher.line(), "ready");
    }
    for round in 0..8 {
        let mut served = Served::start("procfs");
        let mut session = served.connect();
        let service = format!("job_stacks(\"{}\",\"all\")", job.pid());
        let (status, _) = results(&mut session, &service);
        assert_eq!(status, 0);
        for number in 2..100 {
            session.send(format!("{number} [0] {service}\n").as_bytes()).unwrap();
        }
        for _ in 0..round {
            assert!(session.line().is_some());
        }
        kill(&mut served);
        for pid in &ranks {
            deadline::until(|| (state(*pid) == 'R').then_some(()));
            send(*pid, Signal::USR1);
            assert_eq!(job.launcher.line(), "got");
        }
    }
}

#[test]
fn ranks_run_on_when_the_service_is_killed_while_it_copies() {
    const TEST: &str = "ranks_run_on_when_the_service_is_killed_while_it_copies";
    check_killed(TEST, &OPEN_MPI, Served::kill);
    check_killed(TEST, &HYDRA, kill_all);
}

/// Sends what daemons write to a file.
fn write_to(session: &mut SocketSession, file: &Path) {
    let reply =
        session.request(&format!("1 [0] start_options(\"\",[],[\"\",\"{}\"])", file.display()));
    assert_eq!(reply, "1 [0] start_options(0)");
}

/// The lines of a file in alphabetical order, once there are `n`.
fn lines(file: &Path, n: usize) -> Vec<String> {
    deadline::until(|| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        (lines.len() >= n && text.ends_with('\n')).then_some(lines)
    })
}

/// Rank and process of each daemon.
fn daemons(session: &mut SocketSession, service: &str) -> Vec<(i64, Pid)> {
    let (status, all) = results(session, service);
    assert_eq!((status, &all[1]), (0, &Value::from(Vec::<Value>::new())), "{all:?}");
    let pid = |it: &Value| Pid(u32::try_from(it.as_u64().unwrap()).unwrap());
    rows(&all[0], 2).iter().map(|it| (it[0].as_i64().unwrap(), pid(&it[1]))).collect()
}

#[track_caller]
fn check_variables(test: &str, launcher: &Launcher) {
    let Some(job) = launcher.start(test, 3, IDLE) else { return };
    let ranks = job.ranks();
    let id = job.listed().unwrap()["id"].as_str().unwrap().to_owned();
    let (served, folder) = (Served::start("procfs"), Folder::new());
    let mut session = served.connect();
    write_to(&mut session, &folder.join("each"));
    let daemon = "echo $$ $MONITOR_JOB_LOCAL_RANK of $MONITOR_JOB_RANKS in $MONITOR_JOB_ID \
                  $MONITOR_JOB_RUNTIME: $MONITOR_JOB_RANK is $MONITOR_JOB_PID";
    let service = format!("job_attach(\"{id}:1-2\",\"{daemon}\",\"process\")");
    let each = daemons(&mut session, &service);
    let want = each.iter().enumerate().map(|(index, (rank, daemon))| {
        let pid = ranks[index + 1].0;
        assert_eq!(*rank, i64::try_from(index + 1).unwrap());
        let (daemon, runtime) = (daemon.0, launcher.runtime);
        format!("{daemon} {index} of 1-2 in {id} {runtime}: {rank} is {pid}")
    });
    let mut want: Vec<String> = want.collect();
    want.sort();
    assert_eq!(lines(&folder.join("each"), 2), want);
    write_to(&mut session, &folder.join("node"));
    let daemon = "echo $MONITOR_JOB_PIDS, no rank: $MONITOR_JOB_RANK";
    let one = daemons(&mut session, &format!("job_attach(\"{id}\",\"{daemon}\",\"node\")"));
    assert!(matches!(one[..], [(-1, _)]), "{one:?}");
    let all: Vec<String> = ranks.iter().map(|pid| pid.0.to_string()).collect();
    assert_eq!(lines(&folder.join("node"), 1), [format!("{}, no rank:", all.join(" "))]);
}

#[test]
fn daemons_of_the_service_find_their_ranks_in_their_environment() {
    const TEST: &str = "daemons_of_the_service_find_their_ranks_in_their_environment";
    check_variables(TEST, &OPEN_MPI);
    check_variables(TEST, &HYDRA);
}

/// Starts daemons that say when they get SIGTERM, or that ignore it.
fn begin_daemons(session: &mut SocketSession, job: &RunningJob, file: &Path) -> Vec<Pid> {
    write_to(session, file);
    let daemon = "trap 'echo end; exit' TERM; echo begin; while :; do sleep 0.01; done";
    let service = format!("job_attach(\"{}\",\"{daemon}\",\"process\")", job.pid());
    let all = daemons(session, &service).into_iter().map(|it| it.1).collect();
    assert_eq!(lines(file, 2), ["begin", "begin"]);
    all
}

#[test]
fn daemons_end_with_the_session_of_their_tool_and_the_ranks_run_on() {
    const TEST: &str = "daemons_end_with_the_session_of_their_tool_and_the_ranks_run_on";
    let Some(job) = OPEN_MPI.start(TEST, 2, IDLE) else { return };
    let ranks = job.ranks();
    let (mut served, folder) = (Served::start("procfs"), Folder::new());
    let (mut one, mut other) = (served.connect(), served.connect());
    let of_one = begin_daemons(&mut one, &job, &folder.join("one"));
    let of_other = begin_daemons(&mut other, &job, &folder.join("other"));
    drop(one);
    deadline::until(|| of_one.iter().all(|pid| has_ended(*pid)).then_some(()));
    assert_eq!(lines(&folder.join("one"), 4), ["begin", "begin", "end", "end"]);
    assert!(!of_other.iter().any(|pid| has_ended(*pid)));
    // The user worker sees the end of the service.
    served.kill();
    deadline::until(|| of_other.iter().all(|pid| has_ended(*pid)).then_some(()));
    assert_eq!(lines(&folder.join("other"), 4), ["begin", "begin", "end", "end"]);
    let mut served = Served::start("procfs");
    let killed = begin_daemons(&mut served.connect(), &job, &folder.join("killed"));
    kill_all(&mut served);
    deadline::until(|| killed.iter().all(|pid| has_ended(*pid)).then_some(()));
    assert_eq!(states(&ranks), "SS");
}

#[test]
fn the_child_of_a_daemon_that_has_ended_ends_with_the_session() {
    const TEST: &str = "the_child_of_a_daemon_that_has_ended_ends_with_the_session";
    let Some(job) = OPEN_MPI.start(TEST, 1, IDLE) else { return };
    let (served, folder) = (Served::start("procfs"), Folder::new());
    let mut session = served.connect();
    let file = folder.join("out");
    write_to(&mut session, &file);
    let service = format!("job_attach(\"{}\",\"sleep 1001 & echo $!\",\"node\")", job.pid());
    let daemon = daemons(&mut session, &service)[0].1;
    let child = Pid(lines(&file, 1)[0].parse().unwrap());
    deadline::until(|| has_ended(daemon).then_some(()));
    assert!(!has_ended(child));
    drop(session);
    deadline::until(|| has_ended(child).then_some(()));
}

#[test]
fn looks_over_a_time_leave_the_service_free_for_others() {
    const TEST: &str = "looks_over_a_time_leave_the_service_free_for_others";
    let Some(job) = OPEN_MPI.start(TEST, 2, IDLE) else { return };
    let (served, pid) = (Served::start("procfs"), job.pid());
    let (mut looking, mut other) = (served.connect(), served.connect());
    let begun = Instant::now();
    let looks = format!("1 [0] job_stacks(\"{pid}\",\"first\",4,0.5,\"lines\")\n");
    looking.send(looks.as_bytes()).unwrap();
    let mut gone = served.connect();
    gone.send(looks.as_bytes()).unwrap();
    drop(gone);
    // They are answered between the looks.
    let (status, all) = results(&mut other, &format!("job_stacks(\"{pid}\",\"first\")"));
    assert_eq!((status, &all[4], &all[5]), (0, &1.into(), &0.into()));
    let answered = Instant::now();
    let reply = looking.line().unwrap();
    let least = Duration::from_millis(1500);
    assert!(begun.elapsed() >= least && answered < begun + least, "{:?}", begun.elapsed());
    assert!(reply.starts_with("1 [0] job_stacks(0,[\"0-1\",") && reply.contains(",4,"), "{reply}");
    let values = &reply[reply.find('(').unwrap() + 1..reply.rfind(')').unwrap()];
    let all: Vec<Value> = serde_json::from_str(&format!("[{values}]")).unwrap();
    assert_eq!((&all[5], all.len()), (&4.into(), 7));
    let nodes = rows(&all[2], 6);
    assert!(nodes.iter().all(|it| it[5] == 1), "a sleeping rank stays where it is: {nodes:?}");
}

#[test]
fn a_daemon_that_ignores_the_signal_is_killed() {
    const TEST: &str = "a_daemon_that_ignores_the_signal_is_killed";
    let Some(job) = HYDRA.start(TEST, 1, IDLE) else { return };
    let (served, folder) = (Served::start("procfs"), Folder::new());
    let mut session = served.connect();
    let file = folder.join("out");
    write_to(&mut session, &file);
    let daemon = "trap '' TERM; echo begin; while :; do sleep 0.01; done";
    let service = format!("job_attach(\"{}\",\"{daemon}\",\"node\")", job.pid());
    let all = daemons(&mut session, &service);
    assert_eq!(lines(&file, 1), ["begin"]);
    drop(session);
    deadline::until(|| has_ended(all[0].1).then_some(()));
}

#[test]
fn root_a_user_looks_into_the_own_job_only_and_needs_the_right() {
    const TEST: &str = "root_a_user_looks_into_the_own_job_only_and_needs_the_right";
    if !able(TEST) {
        return;
    }
    let Some(foreign) = OPEN_MPI.start(TEST, 1, IDLE) else { return };
    let own = OPEN_MPI.start_as(USER, 2, IDLE);
    let ranks = own.ranks();
    let services = |job: &RunningJob| {
        let pid = job.pid();
        [
            format!("job_stacks(\"{pid}\",\"first\")"),
            format!("job_attach(\"{pid}\",\"exec sleep 1000\",\"process\")"),
        ]
    };
    let config = format!("[policy]\ncontrol-own = [\"{USER}\"]\n");
    let granted = Served::started(&config, monitor(), "procfs");
    let mut session = as_user(&[], || granted.connect());
    for service in services(&foreign) {
        let (status, _) = results(&mut session, &service);
        assert_eq!(status, 300, "{service}");
    }
    let [stacks, attach] = services(&own);
    let (status, all) = results(&mut session, &stacks);
    assert_eq!((status, &*classes(&all)[0].0), (0, "0-1"));
    let all = daemons(&mut session, &attach);
    assert_eq!(all.len(), 2);
    for (_, pid) in all {
        let process = procfs::process::Process::new(pid.0.cast_signed()).unwrap();
        assert_eq!(process.status().unwrap().euid, USER);
    }
    let denied = Served::start("procfs");
    let mut session = as_user(&[], || denied.connect());
    for service in services(&own) {
        let reply = session.request(&format!("1 [0] {service}"));
        let is_refused = reply.contains("(400,") && reply.contains("control-own");
        assert!(is_refused, "{reply}");
    }
    deadline::until(|| (states(&ranks) == "SS").then_some(()));
}
