//! Recordings whose writer is killed, or runs out of disk space.

use super::{Folder, text};
use crate::deadline::until;
use crate::guardian;
use crate::root::privilege::granted;
use monitor_backend::Backend;
use monitor_backends::canned::Canned;
use monitor_model::id::Ns;
use monitor_model::read_spec::ReadSpec;
use monitor_recording::{BlockLimits, Existing, Header, Recording, Writer};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Environment variable with the file of the writer to kill.
const FILE: &str = "MONITOR_TEST_RECORD";
const KILLS: usize = 100;

fn canned() -> (Canned, ReadSpec) {
    let world = include_str!("../../../docs/examples/world.txt");
    (Canned::scripted(world).unwrap(), ReadSpec::everything())
}

/// Writes samples until it is killed, and prints their number after each. It is a test so that the
/// test below can run it in its own process; without the variable it does nothing.
#[test]
fn writer_process() {
    let Some(file) = std::env::var_os(FILE) else { return };
    let limits = BlockLimits { min_samples: 7, max_samples: 7, span: Ns(0), bytes: 1 << 20 };
    let header = Header::default();
    let writer = Writer::create(Path::new(&file), Existing::Keep, &header).unwrap();
    let mut writer = writer.with_limits(limits);
    let (mut canned, want) = canned();
    for written in 1.. {
        writer.append(&canned.read(&want).unwrap()).unwrap();
        // The line break ends the line that the test harness has started.
        println!("\nwritten {written}");
        std::io::stdout().flush().unwrap();
    }
}

/// Kills a writer once it has printed this number; returns the last number it printed.
fn killed_after(file: &Path, samples: usize) -> usize {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg0(guardian::TESTS)
        .args(["--exact", "record::crash::writer_process", "--nocapture"])
        .env(FILE, file)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut printed = 0;
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while printed < samples {
        let line = lines.next().unwrap().unwrap();
        printed = line.strip_prefix("written ").map_or(printed, |number| number.parse().unwrap());
    }
    child.kill().unwrap();
    let _ = child.wait().unwrap();
    for line in lines.map_while(Result::ok) {
        printed = line.strip_prefix("written ").and_then(|it| it.parse().ok()).unwrap_or(printed);
    }
    printed
}

#[test]
fn a_writer_killed_a_hundred_times_never_loses_a_written_sample() {
    let folder = Folder::new();
    for kill in 0..KILLS {
        let file = folder.join(&kill.to_string());
        let printed = killed_after(&file, 1 + kill % 31);
        let mut recording = Recording::open(&file).unwrap();
        let (mut canned, want) = canned();
        let mut found = 0;
        while let Some(sample) = recording.next().unwrap() {
            let wanted = canned.read(&want).unwrap();
            assert_eq!(format!("{sample:?}"), format!("{wanted:?}"), "kill {kill}");
            found += 1;
        }
        // It may have written one more than it printed.
        assert!(found == printed || found == printed + 1, "kill {kill}: {found} of {printed}");
    }
}

/// Runs a script with mounts of its own, with the folder and the program as `$1` and `$2`; returns
/// its standard output and standard error.
fn in_own_mounts(script: &str, folder: &Folder) -> (String, String) {
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh", text(folder.path())])
        .arg(env!("CARGO_BIN_EXE_monitor"))
        .output()
        .unwrap();
    [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned()).into()
}

#[test]
fn root_a_full_disk_ends_a_recording_with_a_message_and_keeps_the_samples() {
    if !granted("root_a_full_disk_ends_a_recording_with_a_message_and_keeps_the_samples") {
        return;
    }
    let folder = Folder::new();
    let script = r#"
        mount -t tmpfs -o size=128k none "$1" || exit 77
        "$2" record "$1/r" --local --every 1ms >&2
        echo "code $?"
        "$2" replay "$1/r" --format csv --fields pid | sort -u -t, -k1,1 | wc -l
    "#;
    let (out, printed) = in_own_mounts(script, &folder);
    assert!(out.starts_with("code 1\n"), "{out} {printed}");
    let line = printed.lines().find(|line| line.contains("No space left on device")).unwrap();
    let kept = line.split("; the ").nth(1).unwrap().split(' ').next().unwrap();
    let kept: usize = kept.parse().unwrap();
    let times: usize = out.lines().nth(1).unwrap().trim().parse().unwrap();
    assert!(kept > 0);
    assert_eq!(times, kept + 1, "a header line, and each sample at its time: {printed}");
}

#[test]
fn root_a_disk_without_room_for_a_sample_is_left_without_a_file() {
    if !granted("root_a_disk_without_room_for_a_sample_is_left_without_a_file") {
        return;
    }
    let folder = Folder::new();
    // One page more each time, until there is room for the header and a sample.
    let script = r#"
        mount -t tmpfs -o size=4k none "$1" || exit 77
        for pages in $(seq 64); do
            mount -o remount,size=$((4 * pages))k "$1"
            "$2" record "$1/r" --backend procfs --count 1
            code=$?
            # The only sample may be written and not yet compressed.
            rows=$("$2" replay "$1/r" --format csv --fields pid 2>/dev/null | wc -l)
            [ "$rows" -gt 1 ] && left=samples || left=$(ls "$1")
            echo "code $code, left: $left"
            [ $code != 0 ] || break
            [ "$left" != samples ] || rm "$1/r"
        done
    "#;
    let (out, printed) = in_own_mounts(script, &folder);
    let (last, full) =
        out.lines().collect::<Vec<_>>().split_last().map(|(a, b)| (*a, b.to_vec())).unwrap();
    let is_full = |line: &&str| ["code 1, left: ", "code 1, left: samples"].contains(line);
    assert_eq!(last, "code 0, left: samples", "{printed}");
    assert!(!full.is_empty() && full.iter().all(is_full), "{full:?}");
    assert!(printed.contains("; nothing was recorded, and no file is left"), "{printed}");
}

#[test]
fn a_recording_of_a_process_that_does_not_exist_leaves_no_file() {
    let folder = Folder::new();
    let file = folder.join("r");
    let args = ["--pid", "4194304", "--local", "--backend", "procfs"];
    let output = Command::new(env!("CARGO_BIN_EXE_monitor"))
        .args(["record", text(&file)])
        .args(args)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    assert!(!file.exists());
}

#[test]
fn a_recording_can_be_read_while_it_is_written() {
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
    assert!(child.wait().unwrap().success(), "an interrupt ends a recording normally");
    let mut recording = Recording::open(&file).unwrap();
    let count = recording.span().unwrap().samples;
    let mut found = 0;
    while recording.next().unwrap().is_some() {
        found += 1;
    }
    assert_eq!((found, recording.end_notes()), (count, vec![]));
}
