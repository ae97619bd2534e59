//! Programs that are started for a tool.

use super::target::{ONE, does, hand, meanwhile, program, refuses, until};
use crate::deadline;
use monitor_control::{Act, Done, Hand as _, Mark, Program, Trouble, What};
use std::path::PathBuf;

fn run(path: &str, arguments: &[&str]) -> Program {
    Program {
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
    let mut hand = hand();
    let output = folder().join("told");
    let mut wanted = run("/bin/sh", &["-c", "echo $1 $COLOUR $(pwd) $#; cat", "sh", "one", "two"]);
    wanted.folder = Some("/usr".into());
    wanted.streams = [Some("/dev/null".into()), Some(output.clone()), None];
    let Done::Started(id) = does(&mut hand, Act::Start(wanted)) else { panic!() };
    let _seen = meanwhile(&mut hand, || !PathBuf::from(format!("/proc/{}", id.pid.0)).exists());
    assert_eq!(std::fs::read_to_string(&output).unwrap(), "one green /usr 2\n");
    std::fs::remove_file(output).unwrap();
}

#[test]
fn one_that_is_started_stopped_has_done_nothing_yet() {
    let mut hand = hand();
    let output = folder().join("nothing");
    let mut wanted = run(program().to_str().unwrap(), &["slow"]);
    wanted.streams[1] = Some(output.clone());
    wanted.stopped = true;
    let Done::Started(id) = does(&mut hand, Act::Start(wanted)) else { panic!() };
    let state = || {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", id.pid.0)).unwrap();
        text.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    };
    deadline::until(|| (state() == 'T').then_some(()));
    let Done::Images(images) = does(&mut hand, Act::Loader(id.into())) else { panic!() };
    let names: Vec<_> = images.iter().map(|it| String::from_utf8_lossy(&it.path)).collect();
    assert!(!names.iter().any(|it| it.contains("libc")), "no library is loaded yet: {names:?}");
    // A breakpoint at the entry is reached, since nothing has run.
    let entry = Mark(4);
    let Done::Integers(pc) = does(&mut hand, Act::Integers(id.into(), 16, 1)) else { panic!() };
    let _placed = does(&mut hand, Act::Break(id.into(), pc[0], entry));
    let _released = does(&mut hand, Act::Continue(id.into()));
    assert_eq!(until(&mut hand, entry).what, What::Breakpoint(pc[0]));
    assert_eq!(std::fs::metadata(&output).unwrap().len(), 0);
    let _unset = does(&mut hand, Act::Unset(id.into(), entry));
    let _gone = hand.act(ONE, Act::Forget).unwrap();
    let _seen = meanwhile(&mut hand, || std::fs::metadata(&output).unwrap().len() > 0);
    let _killed = does(&mut hand, Act::Kill(id.into(), 9));
    let _seen = meanwhile(&mut hand, || !PathBuf::from(format!("/proc/{}", id.pid.0)).exists());
    std::fs::remove_file(output).unwrap();
}

#[test]
fn what_cannot_be_started_says_why() {
    let mut hand = hand();
    let missing = refuses(&mut hand, Act::Start(run("/no/such/program", &[])));
    assert!(missing.to_string().contains("/no/such/program: No such file"), "{missing}");
    let refused = refuses(&mut hand, Act::Start(run("/etc/passwd", &[])));
    assert!(matches!(refused, Trouble::Denied { .. }), "{refused:?}");
}
