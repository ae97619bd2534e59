//! The flight recorder is saved when a rule fires, by whoever asked for the rule.

use crate::deadline::until;
use crate::root::privilege::granted;
use crate::root::workload::Guarded;
use crate::served::{Folder, Served};
use crate::talk::Talk;
use monitor_recording::Recording;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const KEEPING: &str = "[flight]\nkeep = \"40s\"\nevery = \"100ms\"\n";

/// A tool of a user who may not look where the program lies.
const ASK: &str = "import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(sys.argv[2].encode() + b'\\n'); print(s.makefile().readline(), end='')";

/// The recordings of a folder.
fn saved(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let files = entries.map(|it| it.unwrap().path());
    files.filter(|it| it.extension().is_some_and(|it| it == "mon")).collect()
}

/// Whether a process lives in a recording.
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
fn answers(tool: &mut Talk, line: &str, want: &str) {
    let got = tool.ask(line);
    assert!(got.contains(want), "{got}");
}

#[test]
fn what_was_kept_is_written_on_demand_and_never_over_a_file() {
    let served = Served::with(KEEPING);
    let folder = Folder::new();
    let file = folder.join("r.mon");
    let mut tool = served.connect();
    let ask = format!("1 [0] save_recording({:?},0)", file.to_str().unwrap());
    let got = tool.ask(&ask);
    assert_eq!(got, format!("1 [0] save_recording(0,{:?})", file.to_str().unwrap()));
    assert!(Recording::open(&file).unwrap().span().is_some());
    answers(&mut tool, &ask, "save_recording(305");
    let nowhere = "2 [0] save_recording(\"/nonexistent/r.mon\",0)";
    let got = until(|| Some(tool.ask(nowhere)).filter(|it| !it.contains("(307")));
    assert!(got.contains("save_recording(404") && got.contains("was not written"), "{got}");
}

#[test]
fn without_a_recorder_it_is_refused() {
    let served = Served::with("");
    let mut tool = served.connect();
    answers(&mut tool, "1 [0] save_recording(\"/r.mon\",0)", "set flight.keep");
}

#[test]
fn root_a_rule_that_fires_keeps_what_led_to_it() {
    const TEST: &str = "root_a_rule_that_fires_keeps_what_led_to_it";
    if !granted(TEST) {
        return;
    }
    let served = Served::started(KEEPING, crate::served::monitor(), "auto");
    let folder = Folder::new();
    let victim = Guarded::sh("exec sleep 1000");
    let (pid, mut tool) = (victim.pid().0, served.connect());
    answers(&mut tool, &format!("1 [0] attach([{pid}])"), "attach(0)");
    let rule = format!(
        "11 [0] process_terminated([{pid}]): 12 [0] save_recording(\"{}/\",30)",
        folder.path().display()
    );
    answers(&mut tool, &rule, "process_terminated(0)");
    answers(&mut tool, "2 [0] enable(11)", "enable(0)");
    // It was looked at while it lived: by then there is a file of the past, whoever asks for it.
    let looked = |tool: &mut Talk| {
        let file = folder.join("before.mon");
        let got = tool.ask(&format!("3 [0] save_recording({:?},0)", file.to_str().unwrap()));
        let has = got.contains("(0,") && lived_in(&file, pid);
        let _ = std::fs::remove_file(file);
        has.then_some(())
    };
    until(|| looked(&mut tool));
    // An occurrence within a second of that would be left out.
    until(|| {
        let there = tool.ask("4 [0] save_recording(\"/nonexistent/x\",0)");
        there.contains("(404").then_some(())
    });
    let begun = std::time::Instant::now();
    until(|| (begun.elapsed().as_secs() >= 1).then_some(()));
    drop(victim);
    let told = tool.line().unwrap();
    assert!(told.starts_with("12 [0] save_recording(0,"), "{told}");
    let [file] = &saved(folder.path())[..] else { panic!("one file") };
    assert!(told.contains(file.to_str().unwrap()), "{told}");
    assert!(lived_in(file, pid));
}

#[test]
fn root_the_file_is_of_the_user_who_asks_and_takes_his_rights() {
    const TEST: &str = "root_the_file_is_of_the_user_who_asks_and_takes_his_rights";
    if !granted(TEST) {
        return;
    }
    let grants = "[policy]\nobserve-all = [\"65534\"]\n";
    let served = Served::with(&format!("{KEEPING}{grants}"));
    let folder = Folder::new();
    let (his, ours) = (folder.join("his"), folder.join("ours"));
    for path in [&his, &ours] {
        std::fs::create_dir(path).unwrap();
    }
    std::os::unix::fs::chown(&his, Some(65534), Some(65534)).unwrap();
    let asks = |file: &Path| {
        let line = format!("1 [0] save_recording({:?},0)", file.to_str().unwrap());
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", ASK]).arg(served.socket()).arg(line).current_dir("/");
        let got = command.uid(65534).gid(65534).output().unwrap();
        assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
        String::from_utf8(got.stdout).unwrap()
    };
    let file = his.join("r.mon");
    let got = asks(&file);
    assert!(got.contains("save_recording(0,"), "{got}");
    assert_eq!(std::fs::metadata(&file).unwrap().uid(), 65534);
    let got = until(|| Some(asks(&ours.join("r.mon"))).filter(|it| !it.contains("(307")));
    assert!(got.contains("save_recording(404"), "{got}");
}
