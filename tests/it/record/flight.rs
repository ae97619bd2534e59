//! The flight recorder of the daemon.

use super::{Folder, run, text};
use crate::deadline::until;
use crate::served::Served;
use monitor_recording::{Recording, Span};

const KEEPING: &str = "[flight]\nkeep = \"40s\"\nevery = \"100ms\"\n";

/// Saves the flight recorder; returns its span and the number of samples read.
fn saved(daemon: &Served, more: &[&str]) -> Option<(Span, usize)> {
    let folder = Folder::new();
    let file = folder.join("r");
    let args = ["save", text(&file), "--socket", text(daemon.socket())];
    let got = run(&[&args[..], more].concat());
    let stderr = String::from_utf8_lossy(&got.stderr).into_owned();
    assert_eq!(got.status.code(), Some(0), "{stderr}");
    let mut recording = Recording::open(&file).unwrap();
    let mut found = 0;
    while let Some(sample) = recording.next().unwrap() {
        assert!(sample.processes.iter().all(|it| it.text.cmdline.is_some()), "{sample:?}");
        assert!(!sample.notes.iter().any(|it| it.text.contains("damaged")), "{:?}", sample.notes);
        found += 1;
    }
    assert_eq!(recording.end_notes(), []);
    Some((recording.span()?, found))
}

#[test]
fn the_flight_recorder_keeps_the_configured_time() {
    let daemon = Served::with(KEEPING);
    // The clock of the test backend advances one second per reading.
    let full = |(span, _): &(Span, usize)| span.first.boot.0 > 1_100_000_000_000;
    let (span, found) = until(|| saved(&daemon, &[]).filter(full));
    let seconds = span.last.boot.since(span.first.boot).seconds();
    // Blocks cover a quarter of the kept time, and are dropped as a whole.
    assert!((35.0..=65.0).contains(&seconds), "{seconds}");
    assert_eq!(found as u64, span.samples);
    let (span, _) = saved(&daemon, &["--last", "5s"]).unwrap();
    let seconds = span.last.boot.since(span.first.boot).seconds();
    // Processes and node are two readings, so samples are two seconds apart.
    assert!((3.0..=5.0).contains(&seconds), "{seconds}");
}

#[test]
fn without_flight_recorder_save_is_refused_and_leaves_no_file() {
    let daemon = Served::with("");
    let folder = Folder::new();
    let file = folder.join("r");
    let got = run(&["save", text(&file), "--socket", text(daemon.socket())]);
    let stderr = String::from_utf8_lossy(&got.stderr);
    assert!(
        !got.status.success() && stderr.contains("set flight.keep in the configuration"),
        "{stderr}"
    );
    assert!(!file.exists());
}
