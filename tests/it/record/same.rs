//! A replay prints exactly the same as the live command.

use super::{Folder, printed, text};
use crate::root::privilege::granted;
use monitor_backend::Backend;
use monitor_backends::procfs::{Procfs, Root};
use monitor_format::{Frame, Layout, OutputFormat, Paint, Viewport};
use monitor_loader::Ebpf;
use monitor_model::field::ProcessField;
use monitor_model::read_spec::{Capability, Devices, ReadSpec};
use monitor_model::sample::Sample;
use monitor_model::scope::Scope;
use monitor_recording::{Existing, Header, Recording, Replay, Writer};
use monitor_sampling::session::Session;
use std::process::Command;

const LIVE: [&str; 7] = ["watch", "--local", "--backend", "test", "--every", "3ms", "all"];

fn everything() -> ReadSpec {
    let (disks, nets) = (Devices::All, Devices::All);
    let mut costly = monitor_sampling::plan::COSTLY.to_vec();
    // It needs a walk of the page tables of every process.
    costly.retain(|field| *field != ProcessField::Pss);
    ReadSpec {
        processes: true,
        threads: true,
        node: true,
        disks,
        nets,
        costly,
        ..ReadSpec::default()
    }
}

#[test]
fn a_watch_and_its_replay_print_the_same() {
    let folder = Folder::new();
    let file = folder.join("r");
    let args = ["record", text(&file), "--backend", "test", "--every", "3ms", "--count", "67"];
    assert_eq!(printed(&args), "");
    for more in [
        &["--format", "json"][..],
        &["--format", "json", "--fields", "pid,cpu_percent,user,job,disk.reads_per_s"],
        &["--format", "prometheus", "--top", "3"],
        &["--format", "pmix", "--fields", "rss_bytes,cpu_ns,state"],
    ] {
        let live = [&LIVE[..], &["--count", "67"], more].concat();
        let replayed = [&["replay", text(&file), "all"], more].concat();
        assert_eq!(in_time(&printed(&replayed)), in_time(&printed(&live)), "{more:?}");
    }
    for more in [&["proc", "--format", "csv"][..], &["--group-by", "comm", "--format", "csv"]] {
        let live = [&LIVE[..6], &["--count", "67"], more].concat();
        let replayed = [&["replay", text(&file)], more].concat();
        assert_eq!(printed(&replayed), printed(&live), "{more:?}");
    }
}

/// Removes the notes about skipped readings, which a busy machine adds.
fn in_time(text: &str) -> String {
    let mut parts = text.split(" readings skipped: the previous one took longer than the interval");
    let mut out = parts.next().unwrap_or_default().trim_end_matches(char::is_numeric).to_owned();
    for part in parts {
        out += part.trim_end_matches(char::is_numeric);
    }
    out.replace("[\"\"]", "[]")
}

#[test]
fn a_time_range_of_a_replay_is_that_part_of_the_whole() {
    let folder = Folder::new();
    let file = folder.join("r");
    let args = ["record", text(&file), "--backend", "test", "--every", "3ms", "--count", "90"];
    assert_eq!(printed(&args), "");
    let whole = printed(&["replay", text(&file), "--format", "json"]);
    let lines: Vec<_> = whole.lines().collect();
    let part = ["--format", "json", "--from", "+70s", "--to", "+72s"];
    let part = printed(&[&["replay", text(&file)], &part[..]].concat());
    assert_eq!(part.lines().collect::<Vec<_>>(), lines[70..=72]);
    let few =
        printed(&["replay", text(&file), "--format", "json", "--from", "-3s", "--count", "2"]);
    assert_eq!(few.lines().collect::<Vec<_>>(), lines[86..88]);
}

/// The lines printed for the samples of a backend.
fn lines(backend: &mut dyn Backend, readings: usize, mut also: impl FnMut(&Sample)) -> Vec<u8> {
    let (mut session, mut out) = (Session::default(), Vec::new());
    let mut writer = OutputFormat::Json.writer(Layout::all(Scope::All), Paint::Plain);
    for _ in 0..readings {
        let mut sample = backend.read(&everything()).unwrap();
        backend.describe(&mut sample.processes, &everything());
        also(&sample);
        let rates = session.advance(sample);
        let (processes, events) = (&rates.sample.processes, &rates.sample.events);
        let viewport = Viewport { columns: 80, lines: None };
        writer.write(&Frame { rates, processes, matched: 0, events, viewport }, &mut out);
        // A process starts, works, and exits.
        let _ = Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 999 ]; do i=$((i+1)); done"])
            .status();
    }
    out
}

#[track_caller]
fn check(mut backend: impl Backend) {
    let folder = Folder::new();
    let file = folder.join("r");
    let mut writer = Writer::create(&file, Existing::Keep, &Header::default()).unwrap();
    let live = lines(&mut backend, 7, |sample| writer.append(sample).unwrap());
    writer.finish().unwrap();
    let mut replay = Replay::new(Recording::open(&file).unwrap());
    let replayed = lines(&mut replay, 7, |_| {});
    assert!(live.len() > 7 * 5_000);
    for (live, replayed) in live.split(|it| *it == b'\n').zip(replayed.split(|it| *it == b'\n')) {
        assert_eq!(String::from_utf8_lossy(replayed), String::from_utf8_lossy(live));
    }
    assert_eq!(replayed.len(), live.len());
}

#[test]
fn proc_is_replayed_exactly() {
    check(Procfs::open(Root::default()).unwrap());
}

#[test]
fn root_ebpf_is_replayed_exactly() {
    if !granted("root_ebpf_is_replayed_exactly") {
        return;
    }
    let all = [
        Capability::Snapshot,
        Capability::Lifetimes,
        Capability::Tcp,
        Capability::Block,
        Capability::RunQueue,
        Capability::Signals,
    ];
    check(Ebpf::open(&all, 0).unwrap());
}
