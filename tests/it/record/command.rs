//! The commands around recordings: refusals, limits, rotation, speed.

use super::{Folder, printed, run, text};
use monitor_recording::Recording;

#[track_caller]
fn refused(args: &[&str], code: i32, part: &str) {
    let got = run(args);
    let stderr = String::from_utf8_lossy(&got.stderr).into_owned();
    assert_eq!(got.status.code(), Some(code), "{stderr}");
    assert!(stderr.contains(part) && stderr.lines().count() == 1, "{stderr}");
}

#[test]
fn an_existing_file_is_kept_and_other_files_are_refused() {
    let folder = Folder::new();
    let file = folder.join("r");
    std::fs::write(&file, "mine").unwrap();
    let record = ["record", text(&file), "--backend", "test", "--count", "2", "--every", "1ms"];
    refused(&record, 2, "exists: choose another name or use --force");
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
    refused(&["replay", text(&file)], 1, "is not a recording");
    assert_eq!(printed(&[&record[..], &["--force"]].concat()), "");
    assert_eq!(Recording::open(&file).unwrap().span().unwrap().samples, 2);
    refused(&["replay", "/no/such/file"], 1, "cannot read /no/such/file: No such file");
    refused(&["record", "/no/such/file", "--backend", "test"], 1, "cannot create /no/such/file");
}

#[test]
fn options_about_output_are_refused_and_hidden() {
    for option in [&["--sort", "rss_bytes"][..], &["--top", "3"], &["--group-by", "job"]] {
        let args = [&["record", "/no/such/file", "--backend", "test"], option].concat();
        refused(&args, 2, "applies to monitor replay");
    }
    let help = String::from_utf8(run(&["record", "--help"]).stdout).unwrap();
    assert!(help.contains("--rotate") && !help.contains("--format"), "{help}");
}

#[test]
fn a_limit_ends_the_recording_or_rotates_it() {
    let folder = Folder::new();
    let file = folder.join("r");
    let record = |more: &[&str]| {
        let args = ["record", text(&file), "--backend", "test", "--every", "1ms", "--force"];
        assert_eq!(printed(&[&args[..], more].concat()), "");
    };
    let samples = |name: &str| {
        let mut recording = Recording::open(&folder.join(name)).ok()?;
        let first = recording.next().unwrap().unwrap().at.boot.0 / 1_000_000_000;
        Some((first, recording.span().unwrap().samples))
    };
    // The clock of the test backend advances one second per reading.
    record(&["--max-time", "10s", "--count", "99"]);
    assert_eq!(samples("r"), Some((1_000, 10)));
    record(&["--max-time", "10s", "--rotate", "2", "--count", "45"]);
    assert_eq!(samples("r"), Some((1_040, 5)));
    assert_eq!((samples("r.1"), samples("r.2")), (Some((1_030, 10)), Some((1_020, 10))));
    assert_eq!(samples("r.3"), None);
    record(&["--max-size", "128k", "--count", "9999"]);
    let length = std::fs::metadata(&file).unwrap().len();
    assert!((64 << 10..=128 << 10).contains(&length), "{length}");
}

#[test]
fn a_replay_takes_as_long_as_the_recording() {
    let folder = Folder::new();
    let file = folder.join("r");
    let args = ["record", text(&file), "--backend", "test", "--every", "1ms", "--count", "4"];
    assert_eq!(printed(&args), "");
    let start = std::time::Instant::now();
    let lines = printed(&["replay", text(&file), "--speed", "10", "--format", "json"]);
    assert_eq!(lines.lines().count(), 4);
    // Three seconds of the test backend's clock, at ten times the speed.
    assert!(start.elapsed() >= std::time::Duration::from_millis(300));
}
