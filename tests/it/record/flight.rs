//! The flight recorder of the service.

use super::{Folder, run, text};
use crate::deadline::until;
use crate::served::Served;
use monitor_recording::{Recording, Span};

const KEEPING: &str = "[flight]\nkeep = \"40s\"\nevery = \"100ms\"\n";

/// The span of what was kept, as the service hands it out.
fn saved(served: &Served, more: &[&str]) -> Option<(Span, usize)> {
    let folder = Folder::new();
    let file = folder.join("r");
    let words = ["save", text(&file), "--socket", text(served.socket())];
    let got = run(&[&words[..], more].concat());
    let said = String::from_utf8_lossy(&got.stderr).into_owned();
    assert_eq!(got.status.code(), Some(0), "{said}");
    let mut recording = Recording::open(&file).unwrap();
    let mut found = 0;
    while let Some(sample) = recording.next().unwrap() {
        assert!(sample.processes.iter().all(|it| it.text.cmdline.is_some()), "{sample:?}");
        assert!(!sample.notes.iter().any(|it| it.text.contains("damaged")), "{:?}", sample.notes);
        found += 1;
    }
    assert_eq!(recording.at_end(), []);
    Some((recording.span()?, found))
}

#[test]
fn the_last_time_is_there_and_no_more() {
    let served = Served::with(KEEPING);
    // The clock of the test backend makes a second of each reading.
    let full = |(span, _): &(Span, usize)| span.first.boot.0 > 1_100_000_000_000;
    let (span, found) = until(|| saved(&served, &[]).filter(full));
    let seconds = span.last.boot.since(span.first.boot).seconds();
    // Blocks are a quarter of it long, and go as a whole.
    assert!((35.0..=65.0).contains(&seconds), "{seconds}");
    assert_eq!(found as u64, span.samples);
    let (span, _) = saved(&served, &["--last", "5s"]).unwrap();
    let seconds = span.last.boot.since(span.first.boot).seconds();
    // Processes and the node are two readings, so samples are two seconds apart.
    assert!((4.0..=20.0).contains(&seconds), "{seconds}");
}

#[test]
fn without_it_the_refusal_says_what_to_do_and_leaves_no_file() {
    let served = Served::with("");
    let folder = Folder::new();
    let file = folder.join("r");
    let got = run(&["save", text(&file), "--socket", text(served.socket())]);
    let said = String::from_utf8_lossy(&got.stderr);
    assert!(
        !got.status.success() && said.contains("set flight.keep in the configuration"),
        "{said}"
    );
    assert!(!file.exists());
}
