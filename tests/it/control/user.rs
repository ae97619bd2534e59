//! A user worker is a process of its own, with the rights of its user and no others.

use super::target::{ONE, Target, byte_breakpoint, does, program, refuses, until};
use crate::deadline;
use crate::root::privilege::granted;
use monitor_control::user_worker::{User, WorkerProxy};
use monitor_control::{
    ControlError, LaunchSpec, RequestTag, StopMethod, UserWorker as _, WorkerEventKind,
    WorkerReply, WorkerRequest,
};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

const UID: u32 = 54_321;

pub fn remote(user: Option<User>) -> WorkerProxy {
    WorkerProxy::start(Path::new(env!("CARGO_BIN_EXE_monitor")), user, None).unwrap()
}

fn user() -> User {
    User { uid: UID, gid: UID, groups: vec![UID + 1] }
}

/// A target of that user. The user may not read the program where it was built, so it is a copy.
fn own(mode: &str, threads: usize) -> Target {
    let copy = std::env::temp_dir().join(format!("monitor-control-{}", std::process::id()));
    if !copy.exists() {
        let _bytes = std::fs::copy(program(), &copy).unwrap();
    }
    Target::run(Command::new(copy).args([mode, &threads.to_string()]).uid(UID).gid(UID))
}

#[test]
fn root_a_user_worker_has_the_ids_of_its_user() {
    if !granted("root_a_user_worker_has_the_ids_of_its_user") {
        return;
    }
    let mut worker = remote(Some(user()));
    let _answered = worker.request(ONE, WorkerRequest::ForgetTool).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", worker.pid())).unwrap();
    let line = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(line("Uid:"), vec![UID.to_string(); 4]);
    assert_eq!(line("Gid:"), vec![UID.to_string(); 4]);
    assert_eq!(line("Groups:"), [(UID + 1).to_string()]);
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(line(set), ["0000000000000000"], "{set}");
    }
}

#[test]
fn root_a_user_worker_controls_only_processes_of_its_user() {
    if !granted("root_a_user_worker_controls_only_processes_of_its_user") {
        return;
    }
    let mut worker = remote(Some(user()));
    let (mine, foreign) = (own("spin", 2), Target::new("spin", 1));
    assert_eq!(
        does(&mut worker, WorkerRequest::Stop(mine.whole())),
        WorkerReply::Stopped(StopMethod::Signal)
    );
    assert!(mine.is_stopped());
    let _released = does(&mut worker, WorkerRequest::Continue(mine.whole()));
    mine.until_counts(0);
    let whole = foreign.whole();
    for act in [
        WorkerRequest::Stop(whole),
        WorkerRequest::Signal(whole, 15),
        WorkerRequest::SetNice(whole, 5),
        WorkerRequest::ReadMemory(whole, foreign.at("text"), 1),
        WorkerRequest::WriteMemory(whole, foreign.at("text"), vec![1]),
        WorkerRequest::ReadIntegers(whole, 0, 1),
        WorkerRequest::LoadedImages(whole),
        byte_breakpoint(whole, foreign.at("tick"), RequestTag(1)),
        WorkerRequest::Step(whole, RequestTag(1)),
        WorkerRequest::WatchRules(whole, RequestTag(1)),
    ] {
        let refused = refuses(&mut worker, act.clone());
        assert!(matches!(refused, ControlError::Denied { .. }), "{act:?}: {refused:?}");
    }
    foreign.until_counts(0);
}

#[test]
fn root_a_program_that_a_user_worker_starts_runs_as_its_user() {
    if !granted("root_a_program_that_a_user_worker_starts_runs_as_its_user") {
        return;
    }
    let mut worker = remote(Some(user()));
    let wanted = LaunchSpec {
        path: "/bin/sleep".into(),
        arguments: vec![b"60".to_vec()],
        environment: None,
        folder: None,
        streams: [None, None, None],
        stopped: true,
    };
    let WorkerReply::Started(id) = does(&mut worker, WorkerRequest::Start(wanted)) else {
        panic!()
    };
    use std::os::unix::fs::MetadataExt as _;
    let owner = std::fs::metadata(format!("/proc/{}", id.pid.0)).unwrap().uid();
    assert_eq!(owner, UID);
    let _killed = does(&mut worker, WorkerRequest::Signal(id.into(), 9));
    deadline::until(|| (!Path::new(&format!("/proc/{}", id.pid.0)).exists()).then_some(()));
}

#[test]
fn root_everything_works_over_the_socket_too() {
    if !granted("root_everything_works_over_the_socket_too") {
        return;
    }
    let mut worker = remote(Some(user()));
    let target = own("slow", 1);
    let (whole, tick) = (target.whole(), target.at("tick"));
    let _placed = does(&mut worker, byte_breakpoint(whole, tick, RequestTag(1)));
    for _ in 0..23 {
        let hit = until(&mut worker, RequestTag(1));
        assert_eq!(hit.kind, WorkerEventKind::Breakpoint(tick));
        let _released = does(&mut worker, WorkerRequest::ReleaseEvent(hit.target, RequestTag(1)));
    }
    // The largest frame.
    let most = 4 << 20;
    let refused = refuses(&mut worker, WorkerRequest::ReadMemory(whole, target.at("text"), most));
    assert!(matches!(refused, ControlError::Fault { .. }));
    let refused = refuses(&mut worker, WorkerRequest::WriteMemory(whole, 16, vec![7; 4 << 20]));
    assert!(matches!(refused, ControlError::Fault { .. }));
}

#[test]
fn a_user_worker_that_is_started_by_hand_prints_its_purpose() {
    let got = Command::new(env!("CARGO_BIN_EXE_monitor"))
        .arg("user-worker")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert_eq!(got.status.code(), Some(2));
    let said = String::from_utf8_lossy(&got.stderr).into_owned();
    assert!(said.starts_with("monitor: `user-worker` is started by the daemon"), "{said}");
}

#[test]
fn root_a_started_program_inherits_nothing_of_the_service() {
    if !granted("root_a_started_program_inherits_nothing_of_the_service") {
        return;
    }
    let folder = crate::served::Folder::new();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    // A service as its unit starts it, whatever the nice value of the tests is.
    let service = folder.join("service");
    let script = format!(
        "#!/bin/sh\ntrap '' HUP USR1 PIPE\necho -500 > /proc/self/oom_score_adj\n\
         ulimit -l unlimited\n\
         exec nice -n $((-5 - $(nice))) {} \"$@\"\n",
        env!("CARGO_BIN_EXE_monitor")
    );
    std::fs::write(&service, script).unwrap();
    std::fs::set_permissions(&service, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (name, user) in [("user", Some(user())), ("root", None)] {
        let mut worker = WorkerProxy::start(&service, user, None).unwrap();
        let output = folder.join(name);
        let shown = "cat /proc/self/oom_score_adj; cut -d' ' -f19,41 /proc/self/stat; \
                     awk '/SigBlk|SigIgn/ {print substr($2,10)}' /proc/self/status; \
                     ulimit -l; umask; echo over";
        let wanted = LaunchSpec {
            path: "/bin/sh".into(),
            arguments: vec![b"-c".to_vec(), shown.into()],
            environment: None,
            folder: None,
            streams: [None, Some(output.clone()), None],
            stopped: false,
        };
        let _started = does(&mut worker, WorkerRequest::Start(wanted));
        let text = deadline::until(|| {
            std::fs::read_to_string(&output).ok().filter(|it| it.ends_with("over\n"))
        });
        // The low 28 bits of the sets: signals 32 and 33 belong to libc.
        let want = "0\n0 0\n0000000\n0000000\n8192\n0022\nover\n";
        assert_eq!(text, want, "{name}");
    }
}
