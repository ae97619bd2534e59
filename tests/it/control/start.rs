//! Programs that are started for a tool.

use super::target::{ONE, byte_breakpoint, does, meanwhile, program, refuses, until, worker};
use crate::deadline;
use monitor_control::{
    ControlError, LaunchSpec, RequestTag, UserWorker as _, WorkerEventKind, WorkerReply,
    WorkerRequest,
};
use std::path::PathBuf;

fn run(path: &str, arguments: &[&str]) -> LaunchSpec {
    LaunchSpec {
        path: path.into(),
        arguments: arguments.iter().map(|it| it.as_bytes().to_vec()).collect(),
        environment: Some(vec![(b"COLOUR".to_vec(), b"green".to_vec())]),
        folder: None,
        streams: [None, None, None],
        stopped: false,
    }
}

fn folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("monitor-start-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn a_program_gets_its_arguments_environment_folder_and_files() {
    let mut worker = worker();
    let output = folder().join("output");
    let mut wanted = run("/bin/sh", &["-c", "echo $1 $COLOUR $(pwd) $#; cat", "sh", "one", "two"]);
    wanted.folder = Some("/usr".into());
    wanted.streams = [Some("/dev/null".into()), Some(output.clone()), None];
    let WorkerReply::Started(id) = does(&mut worker, WorkerRequest::Start(wanted)) else {
        panic!()
    };
    let _seen = meanwhile(&mut worker, || !PathBuf::from(format!("/proc/{}", id.pid.0)).exists());
    assert_eq!(std::fs::read_to_string(&output).unwrap(), "one green /usr 2\n");
    std::fs::remove_file(output).unwrap();
}

#[test]
fn a_program_that_is_started_stopped_has_executed_nothing() {
    let mut worker = worker();
    let output = folder().join("nothing");
    let mut wanted = run(program().to_str().unwrap(), &["slow"]);
    wanted.streams[1] = Some(output.clone());
    wanted.stopped = true;
    let WorkerReply::Started(id) = does(&mut worker, WorkerRequest::Start(wanted)) else {
        panic!()
    };
    let state = || {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", id.pid.0)).unwrap();
        text.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    };
    deadline::until(|| (state() == 'T').then_some(()));
    let WorkerReply::Images(images) = does(&mut worker, WorkerRequest::LoadedImages(id.into()))
    else {
        panic!()
    };
    let names: Vec<_> = images.iter().map(|it| String::from_utf8_lossy(&it.path)).collect();
    assert!(!names.iter().any(|it| it.contains("libc")), "no library is loaded yet: {names:?}");
    // A breakpoint at the entry is reached, since nothing has run.
    let entry = RequestTag(4);
    let WorkerReply::Integers(pc) =
        does(&mut worker, WorkerRequest::ReadIntegers(id.into(), 16, 1))
    else {
        panic!()
    };
    let _placed = does(&mut worker, byte_breakpoint(id.into(), pc[0], entry));
    let _released = does(&mut worker, WorkerRequest::Continue(id.into()));
    assert_eq!(until(&mut worker, entry).kind, WorkerEventKind::Breakpoint(pc[0]));
    assert_eq!(std::fs::metadata(&output).unwrap().len(), 0);
    let _unset = does(&mut worker, WorkerRequest::Unset(id.into(), entry));
    let _gone = worker.request(ONE, WorkerRequest::ForgetTool).unwrap();
    let _seen = meanwhile(&mut worker, || std::fs::metadata(&output).unwrap().len() > 0);
    let _killed = does(&mut worker, WorkerRequest::Signal(id.into(), 9));
    let _seen = meanwhile(&mut worker, || !PathBuf::from(format!("/proc/{}", id.pid.0)).exists());
    std::fs::remove_file(output).unwrap();
}

#[test]
fn a_program_that_cannot_be_started_is_an_error_with_the_reason() {
    let mut worker = worker();
    let missing = refuses(&mut worker, WorkerRequest::Start(run("/no/such/program", &[])));
    assert!(missing.to_string().contains("/no/such/program: No such file"), "{missing}");
    let refused = refuses(&mut worker, WorkerRequest::Start(run("/etc/passwd", &[])));
    assert!(matches!(refused, ControlError::Denied { .. }), "{refused:?}");
}
