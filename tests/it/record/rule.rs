//! Rules that save the flight recorder, with the rights of the user who defined the rule.

use crate::deadline::until;
use crate::root::privilege::granted;
use crate::root::workload::Guarded;
use crate::served::{Folder, Served};
use crate::socket_session::SocketSession;
use monitor_recording::Recording;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const KEEPING: &str = "[flight]\nkeep = \"40s\"\nevery = \"100ms\"\n";

/// A tool for a user who has no access to the folder of the program.
const ASK: &str = "import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(sys.argv[2].encode() + b'\\n'); print(s.makefile().readline(), end='')";

/// The recordings of a folder.
fn saved(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let files = entries.map(|it| it.unwrap().path());
    files.filter(|it| it.extension().is_some_and(|it| it == "mon")).collect()
}

/// Whether a recording contains a process while it runs.
fn lived_in(file: &Path, pid: u32) -> bool {
    let mut recording = Recording::open(file).unwrap();
    while let Some(sample) = recording.next().unwrap() {
        if sample.processes.iter().any(|it| it.id.pid.0 == pid && !it.ended()) {
            return true;
        }
    }
    false
}

#[track_caller]
fn answers(tool: &mut SocketSession, line: &str, want: &str) {
    let got = tool.request(line);
    assert!(got.contains(want), "{got}");
}

#[test]
fn the_flight_recorder_is_saved_on_demand_and_never_overwrites_a_file() {
    let daemon = Served::with(KEEPING);
    let folder = Folder::new();
    let file = folder.join("r.mon");
    let mut tool = daemon.connect();
    let ask = format!("1 [0] save_recording({:?},0)", file.to_str().unwrap());
    let got = tool.request(&ask);
    assert_eq!(got, format!("1 [0] save_recording(0,{:?})", file.to_str().unwrap()));
    assert!(Recording::open(&file).unwrap().span().is_some());
    answers(&mut tool, &ask, "save_recording(305");
    let nowhere = "2 [0] save_recording(\"/nonexistent/r.mon\",0)";
    let got = until(|| Some(tool.request(nowhere)).filter(|it| !it.contains("(307")));
    assert!(got.contains("save_recording(404") && got.contains("was not written"), "{got}");
}

#[test]
fn without_flight_recorder_saving_is_refused() {
    let daemon = Served::with("");
    let mut tool = daemon.connect();
    answers(&mut tool, "1 [0] save_recording(\"/r.mon\",0)", "set flight.keep");
}

#[test]
fn root_a_rule_that_fires_saves_the_samples_before_it() {
    const TEST: &str = "root_a_rule_that_fires_saves_the_samples_before_it";
    if !granted(TEST) {
        return;
    }
    let daemon = Served::started(KEEPING, crate::served::monitor(), "auto");
    let folder = Folder::new();
    let victim = Guarded::sh("exec sleep 1000");
    let (pid, mut tool) = (victim.pid().0, daemon.connect());
    answers(&mut tool, &format!("1 [0] attach([{pid}])"), "attach(0)");
    let rule = format!(
        "11 [0] process_terminated([{pid}]): 12 [0] save_recording(\"{}/\",30)",
        folder.path().display()
    );
    answers(&mut tool, &rule, "process_terminated(0)");
    answers(&mut tool, "2 [0] enable(11)", "enable(0)");
    // The recorder has read the process while it ran: a saved file contains it.
    let recorded = |tool: &mut SocketSession| {
        let file = folder.join("before.mon");
        let got = tool.request(&format!("3 [0] save_recording({:?},0)", file.to_str().unwrap()));
        let has = got.contains("(0,") && lived_in(&file, pid);
        let _ = std::fs::remove_file(file);
        has.then_some(())
    };
    until(|| recorded(&mut tool));
    // An occurrence within a second of that would be skipped.
    until(|| {
        let there = tool.request("4 [0] save_recording(\"/nonexistent/x\",0)");
        there.contains("(404").then_some(())
    });
    let begun = std::time::Instant::now();
    until(|| (begun.elapsed().as_secs() >= 1).then_some(()));
    drop(victim);
    let reply = tool.line().unwrap();
    assert!(reply.starts_with("12 [0] save_recording(0,"), "{reply}");
    let [file] = &saved(folder.path())[..] else { panic!("one file") };
    assert!(reply.contains(file.to_str().unwrap()), "{reply}");
    assert!(lived_in(file, pid));
}

#[test]
fn root_the_file_is_written_with_the_rights_of_the_requesting_user() {
    const TEST: &str = "root_the_file_is_written_with_the_rights_of_the_requesting_user";
    if !granted(TEST) {
        return;
    }
    let grants = "[policy]\nobserve-all = [\"65534\"]\n";
    let daemon = Served::with(&format!("{KEEPING}{grants}"));
    let folder = Folder::new();
    let (theirs, ours) = (folder.join("theirs"), folder.join("ours"));
    for path in [&theirs, &ours] {
        std::fs::create_dir(path).unwrap();
    }
    std::os::unix::fs::chown(&theirs, Some(65534), Some(65534)).unwrap();
    let asks = |file: &Path| {
        let line = format!("1 [0] save_recording({:?},0)", file.to_str().unwrap());
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", ASK]).arg(daemon.socket()).arg(line).current_dir("/");
        let got = command.uid(65534).gid(65534).output().unwrap();
        assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
        String::from_utf8(got.stdout).unwrap()
    };
    let file = theirs.join("r.mon");
    let got = asks(&file);
    assert!(got.contains("save_recording(0,"), "{got}");
    assert_eq!(std::fs::metadata(&file).unwrap().uid(), 65534);
    let got = until(|| Some(asks(&ours.join("r.mon"))).filter(|it| !it.contains("(307")));
    assert!(got.contains("save_recording(404"), "{got}");
}
