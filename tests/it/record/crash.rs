//! Recordings whose writer is killed, or finds the disk full.

use super::{Folder, text};
use crate::deadline::until;
use crate::root::privilege::granted;
use monitor_backend::Backend;
use monitor_backends::canned::Canned;
use monitor_model::id::Ns;
use monitor_model::want::Want;
use monitor_recording::{Existing, Header, Limits, Recording, Writer};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Where the writer that is to be killed writes.
const FILE: &str = "MONITOR_TEST_RECORD";
const KILLS: usize = 100;

fn canned() -> (Canned, Want) {
    let world = include_str!("../../../docs/examples/world.txt");
    (Canned::scripted(world).unwrap(), Want::whole())
}

/// Writes samples until it is killed, and says after each how many there are. It is a test so
/// that the test below can run it in a process of its own; without its variable it is nothing.
#[test]
fn a_writer_that_is_to_be_killed() {
    let Some(file) = std::env::var_os(FILE) else { return };
    let limits = Limits { least: 7, most: 7, span: Ns(0), bytes: 1 << 20 };
    let header = Header::default();
    let writer = Writer::create(Path::new(&file), Existing::Keep, &header).unwrap();
    let mut writer = writer.with_limits(limits);
    let (mut canned, want) = canned();
    for written in 1.. {
        writer.append(&canned.read(&want).unwrap()).unwrap();
        // The line ends what the test harness has begun.
        println!("\nwritten {written}");
        std::io::stdout().flush().unwrap();
    }
}

/// Kills a writer once it has said this number; how many it had said when it was dead.
fn killed_after(file: &Path, samples: usize) -> usize {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "record::crash::a_writer_that_is_to_be_killed", "--nocapture"])
        .env(FILE, file)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = 0;
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while said < samples {
        let line = lines.next().unwrap().unwrap();
        said = line.strip_prefix("written ").map_or(said, |number| number.parse().unwrap());
    }
    child.kill().unwrap();
    let _ = child.wait().unwrap();
    for line in lines.map_while(Result::ok) {
        said = line.strip_prefix("written ").and_then(|it| it.parse().ok()).unwrap_or(said);
    }
    said
}

#[test]
fn killed_a_hundred_times_it_never_loses_what_was_written() {
    let folder = Folder::new();
    for kill in 0..KILLS {
        let file = folder.join(&kill.to_string());
        let said = killed_after(&file, 1 + kill % 31);
        let mut recording = Recording::open(&file).unwrap();
        let (mut canned, want) = canned();
        let mut found = 0;
        while let Some(sample) = recording.next().unwrap() {
            let wanted = canned.read(&want).unwrap();
            assert_eq!(format!("{sample:?}"), format!("{wanted:?}"), "kill {kill}");
            found += 1;
        }
        // It may have written one more than it came to say.
        assert!(found == said || found == said + 1, "kill {kill}: {found} of {said}");
    }
}

#[test]
fn root_a_full_disk_ends_it_with_a_word_and_keeps_the_rest() {
    if !granted("root_a_full_disk_ends_it_with_a_word_and_keeps_the_rest") {
        return;
    }
    let folder = Folder::new();
    let script = r#"
        mount -t tmpfs -o size=512k none "$1" || exit 77
        "$2" record "$1/r" --local --every 1ms >&2
        echo "code $?"
        "$2" replay "$1/r" --format csv --fields pid | sort -u -t, -k1,1 | wc -l
    "#;
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh", text(folder.path())])
        .arg(env!("CARGO_BIN_EXE_monitor"))
        .output()
        .unwrap();
    let (said, out) =
        (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert!(out.starts_with("code 1\n"), "{out} {said}");
    let line = said.lines().find(|line| line.contains("No space left on device")).unwrap();
    let kept = line.split("; the ").nth(1).unwrap().split(' ').next().unwrap();
    let kept: usize = kept.parse().unwrap();
    let times: usize = out.lines().nth(1).unwrap().trim().parse().unwrap();
    assert!(kept > 0);
    assert_eq!(times, kept + 1, "a line of names, and each sample at its time: {said}");
}

#[test]
fn one_that_is_written_can_be_read_meanwhile() {
    let folder = Folder::new();
    let file = folder.join("r");
    let mut child = Command::new(env!("CARGO_BIN_EXE_monitor"))
        .args(["record", text(&file), "--backend", "test", "--every", "2ms"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let samples = || Recording::open(&file).ok()?.span().map(|span| span.samples);
    until(|| samples().filter(|it| *it > 99));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(child.wait().unwrap().success(), "an interrupt is how a recording ends");
    let mut recording = Recording::open(&file).unwrap();
    let count = recording.span().unwrap().samples;
    let mut found = 0;
    while recording.next().unwrap().is_some() {
        found += 1;
    }
    assert_eq!((found, recording.at_end()), (count, vec![]));
}
