//! `job_changed`, `job_history`, `job events` and `job list --ended`, on jobs of both launchers.

use super::{HYDRA, Launcher, OPEN_MPI, RunningJob, failed, kill, printed};
use crate::deadline;
use crate::root::privilege::{able, as_user};
use crate::root::workload::Guarded;
use crate::served::{Folder, Served, monitor};
use crate::socket_session::SocketSession;
use monitor_sys::ptrace;
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ChildStdout, Stdio};

const FOLLOWING: &str = "[jobs]\nfollow = true\n";
const WAIT: &str = "10 [0] job_changed([]): 11 [0] print([$1,$3,$4,$6,$7,$8])";

/// A session that waits for changes.
fn waiting(served: &Served) -> SocketSession {
    let mut session = served.connect();
    assert_eq!(session.request(WAIT), "10 [0] job_changed(0)");
    assert_eq!(session.request("12 [0] enable(10)"), "12 [0] enable(0)");
    session
}

/// The next change of a job of this launcher: the state, the code, the signal and the ranks; the
/// launcher may have been seen without a rank before.
#[track_caller]
fn next(session: &mut SocketSession, launcher: &str) -> String {
    loop {
        let change = next_of_all(session, launcher);
        if !change.starts_with("created ") {
            return change;
        }
    }
}

#[track_caller]
fn next_of_all(session: &mut SocketSession, launcher: &str) -> String {
    loop {
        let line = session.line().expect("a change");
        let (values, pid) = (line.trim_end_matches("])"), format!(",{launcher},"));
        let found = values.split_once(&pid);
        if let Some((before, after)) = found {
            let state = before.rsplit_once(',').unwrap().1.trim_matches('"');
            return format!("{state} {after}");
        }
    }
}

fn signal_all(job: &RunningJob, signal: Signal) {
    for pid in job.ranks() {
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid.0).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

/// The code and the signal of a launcher that has ended, as the event has them.
fn status(job: &mut RunningJob) -> String {
    let status = job.launcher.0.wait().unwrap();
    let signal = status.signal().unwrap_or(0);
    format!("{},{signal}", status.code().unwrap_or(128 + signal))
}

/// All transitions of a job, by a service that follows jobs, for a tool that is there from the
/// start and for one that comes later.
#[track_caller]
fn check_transitions(test: &str, launcher: &Launcher) {
    if !able(test) {
        return;
    }
    let served = Served::started(FOLLOWING, monitor(), "ebpf");
    let mut session = waiting(&served);
    let Some(mut job) = launcher.start(test, 3, "exec sleep 1000") else { return };
    let pid = job.pid();
    assert_eq!(next(&mut session, &pid).split(',').next(), Some("launching -1"));
    assert_eq!(next(&mut session, &pid), "running -1,-1,3");
    signal_all(&job, Signal::STOP);
    assert_eq!(next(&mut session, &pid), "stopped -1,-1,3");
    signal_all(&job, Signal::CONT);
    assert_eq!(next(&mut session, &pid), "running -1,-1,3");
    let killed = job.ranks()[1];
    kill(killed);
    let end = status(&mut job);
    assert_eq!(next(&mut session, &pid), "failed 137,9,3");
    assert_eq!(next(&mut session, &pid), format!("ended {end},3"));
    let history = session.request(&format!("13 [0] job_history(\"{pid}\",60)"));
    let states = ["launching", "running", "stopped", "running", "failed", "ended"];
    let mut rest = &*history;
    for state in states {
        rest = rest.split_once(&format!("\"{state}\",{pid},")).expect(&history).1;
    }
    let mut other = as_user(&[], || served.connect());
    let reply = other.request("1 [0] job_history(\"\",0)");
    assert!(reply.starts_with("1 [0] job_history(0,") && reply.ends_with(",[])"), "{reply}");
}

#[test]
fn root_each_transition_of_a_job_is_reported_and_kept() {
    const TEST: &str = "root_each_transition_of_a_job_is_reported_and_kept";
    check_transitions(TEST, &OPEN_MPI);
    check_transitions(TEST, &HYDRA);
}

/// A launcher whose program does not exist: no rank is ever there. One that has ended before its
/// end was watched has no code.
#[track_caller]
fn check_failed_launch(served: &Served, session: &mut SocketSession, launcher: &Launcher) {
    let mut command = std::process::Command::new(launcher.starter);
    command.args(launcher.words).args(["-n", "2", "/nonexistent"]).stderr(Stdio::null());
    let (pid, code) = deadline::until(|| {
        let mut launched = Guarded::run(&mut command);
        let pid = launched.pid().0.to_string();
        let code = launched.0.wait().unwrap().code().unwrap();
        let history = || served.connect().request(&format!("1 [0] job_history(\"{pid}\",0)"));
        if !history().contains("\"created\"") {
            return None;
        }
        let ended = deadline::until(|| Some(history()).filter(|it| it.contains("\"ended\"")));
        ended.contains("\"failed\"").then_some((pid, code))
    });
    assert_eq!(next_of_all(session, &pid), "created -1,-1,0");
    assert_eq!(next_of_all(session, &pid), format!("failed {code},0,0"));
    assert_eq!(next_of_all(session, &pid), format!("ended {code},0,0"));
}

#[test]
fn root_a_launcher_that_fails_before_there_is_a_rank_is_reported_with_its_status() {
    const TEST: &str =
        "root_a_launcher_that_fails_before_there_is_a_rank_is_reported_with_its_status";
    if !able(TEST) {
        return;
    }
    let served = Served::started(FOLLOWING, monitor(), "ebpf");
    let mut session = waiting(&served);
    for launcher in [&OPEN_MPI, &HYDRA] {
        if std::path::Path::new(launcher.starter).exists() {
            check_failed_launch(&served, &mut session, launcher);
        }
    }
}

#[test]
fn root_a_debugger_of_a_rank_is_reported_to_a_tool_that_waits_for_this_job() {
    const TEST: &str = "root_a_debugger_of_a_rank_is_reported_to_a_tool_that_waits_for_this_job";
    if !able(TEST) {
        return;
    }
    let served = Served::started(FOLLOWING, monitor(), "ebpf");
    let Some(other) = HYDRA.start(TEST, 1, "exec sleep 1000") else { return };
    let Some(job) = OPEN_MPI.start(TEST, 2, "exec sleep 1000") else { return };
    let (pid, rank) = (job.pid(), job.ranks()[1]);
    let mut session = served.connect();
    let states = "[\"debugger-attached\",\"debugger-detached\"]";
    let wait = format!("10 [0] job_changed({states},\"{pid}\"): 11 [0] print([$3,$4,$11,$12])");
    assert_eq!(session.request(&wait), "10 [0] job_changed(0)");
    assert_eq!(session.request("12 [0] enable(10)"), "12 [0] enable(0)");
    let known = format!("1 [0] job_history(\"{pid}\",0)");
    deadline::until(|| served.connect().request(&known).contains("\"running\"").then_some(()));
    // The kernel detaches both when this thread ends.
    let traced = [other.ranks()[0], rank].map(|pid| pid.0.cast_signed());
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let debugger = std::thread::spawn(move || {
        traced.into_iter().for_each(|pid| ptrace::seize_alone(pid).unwrap());
        let _closed = ended.recv();
    });
    let own = std::process::id();
    let line = session.line().unwrap();
    assert!(line.contains(&format!("[\"debugger-attached\",{pid},1,{own}]")), "{line}");
    drop(end);
    debugger.join().unwrap();
    let line = session.line().unwrap();
    assert!(line.contains(&format!("[\"debugger-detached\",{pid},-1,-1]")), "{line}");
}

#[test]
fn without_ebpf_jobs_are_followed_while_a_tool_waits() {
    const TEST: &str = "without_ebpf_jobs_are_followed_while_a_tool_waits";
    let served = Served::started(FOLLOWING, monitor(), "procfs");
    let mut session = waiting(&served);
    let Some(job) = OPEN_MPI.start(TEST, 2, "exec sleep 1000") else { return };
    let pid = job.pid();
    assert_eq!(next(&mut session, &pid).split(',').next(), Some("launching -1"));
    assert_eq!(next(&mut session, &pid), "running -1,-1,2");
    signal_all(&job, Signal::KILL);
    while !next(&mut session, &pid).starts_with("ended ") {}
    drop(session);
    let followed = || served.connect().request("1 [0] job_history(\"\",0)");
    deadline::until(|| followed().starts_with("1 [0] job_history(0,-1.0,[").then_some(()));
}

/// A command that prints transitions.
pub(super) struct Printing {
    command: Guarded,
    lines: BufReader<ChildStdout>,
}

impl Printing {
    pub(super) fn run(served: &Served, words: &str) -> Self {
        let mut command = served.command(words);
        let mut command = Guarded::run(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let lines = BufReader::new(command.0.stdout.take().unwrap());
        Self { command, lines }
    }

    #[track_caller]
    pub(super) fn line(&mut self) -> String {
        let mut line = String::new();
        let _bytes = self.lines.read_line(&mut line).unwrap();
        line
    }

    /// Its exit code after a signal.
    fn end(mut self, signal: Signal) -> Option<i32> {
        let pid = rustix::process::Pid::from_raw(self.command.pid().0.cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
        self.command.0.wait().unwrap().code()
    }
}

#[test]
fn root_the_command_prints_transitions_of_a_job_as_they_occur_and_those_before() {
    const TEST: &str =
        "root_the_command_prints_transitions_of_a_job_as_they_occur_and_those_before";
    if !able(TEST) {
        return;
    }
    let served = Served::started(FOLLOWING, monitor(), "ebpf");
    let mut session = waiting(&served);
    let Some(mut job) = OPEN_MPI.start(TEST, 2, "exec sleep 1000") else { return };
    let pid = job.pid();
    while !next(&mut session, &pid).starts_with("running") {}
    let id = job.listed().unwrap()["id"].as_str().unwrap().to_owned();
    let mut text = Printing::run(&served, &format!("job events {pid} --replay 1h"));
    let mut json = Printing::run(&served, &format!("job events {id} --replay 1h --format json"));
    let user = "user root";
    // A launcher that is found without ranks, at first.
    let mut line = text.line();
    if line.contains(&format!("Z launcher-{pid} created: openmpi4, ")) {
        line = text.line();
    }
    let want = format!("Z {id} launching: openmpi4, launcher {pid}, {user}\n");
    assert!(line.ends_with(&want), "{line}");
    assert!(text.line().ends_with(&format!("Z {id} running: 2 ranks\n")));
    for state in ["launching", "running"] {
        let line: Value = serde_json::from_str(&json.line()).unwrap();
        assert_eq!((&line["state"], &line["id"]), (&state.into(), &id.as_str().into()));
        assert!(line["time_unix_ns"].as_u64() > Some(0));
    }
    kill(job.ranks()[0]);
    let end = status(&mut job);
    let code = end.split_once(',').unwrap().0;
    let line = text.line();
    assert!(line.contains(&format!("Z {id} failed: rank 0, status SIGKILL, pid ")), "{line}");
    let line = text.line();
    assert!(line.contains(&format!("Z {id} ended: status {code}, after ")), "{line}");
    let line: Value = serde_json::from_str(&json.line()).unwrap();
    assert_eq!((&line["state"], &line["rank"]), (&"failed".into(), &0.into()));
    let line: Value = serde_json::from_str(&json.line()).unwrap();
    assert_eq!((&line["state"], &line["code"]), (&"ended".into(), &code.parse().unwrap()));
    assert_eq!((text.end(Signal::INT), json.end(Signal::TERM)), (Some(130), Some(0)));
    check_ended(&served, &id, code);
}

/// The job is among those that have ended.
#[track_caller]
fn check_ended(served: &Served, id: &str, code: &str) {
    let output = |words: &str| {
        let got = served.command(words).output().unwrap();
        assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
        String::from_utf8(got.stdout).unwrap()
    };
    let table = output("job list --ended 1h");
    let row = table.lines().find(|line| line.starts_with(id)).unwrap();
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!((cells[1], cells[3], cells[4], cells[5]), ("openmpi4", "root", "2", code));
    let csv = output("job list --ended 1h --format csv");
    assert!(csv.lines().any(|line| line.starts_with(&format!("{id},openmpi4,"))), "{csv}");
    let json: Value = serde_json::from_str(&output("job list --ended 1h --format json")).unwrap();
    let jobs = json["jobs"].as_array().unwrap();
    let job = jobs.iter().find(|it| it["id"] == *id).unwrap();
    assert_eq!(job["code"], code.parse::<u32>().unwrap());
    assert!(json["notes"][0].as_str().unwrap().starts_with("the service has followed jobs for "));
}

#[test]
fn without_a_service_that_follows_jobs_the_message_says_what_to_do() {
    let folder = Folder::new();
    let absent = folder.join("none.sock");
    for words in [&["job", "list", "--ended", "1h"][..], &["job", "events"]] {
        let (code, message) = failed(monitor().args(words).arg("--socket").arg(&absent));
        assert_eq!((code, message.lines().count()), (Some(7), 1), "{message}");
        assert!(message.contains("start it with monitor serve"), "{message}");
    }
    let served = Served::with("");
    let got = served.command("job list --ended 1h").output().unwrap();
    let stderr = String::from_utf8(got.stderr).unwrap();
    let want = "monitor: the service does not follow jobs: set jobs.follow = true in its \
                configuration\n";
    assert!(got.status.success() && stderr.contains(want), "{stderr}");
    let mut waits = Printing::run(&served, "job events");
    drop(served);
    assert_eq!((waits.line(), waits.command.0.wait().unwrap().code()), (String::new(), Some(7)));
    let _list = printed(&["job", "list"]);
}
