//! What a crash, a full disk and a stranger can do to a file.

use super::block::Limits;
use super::frame::{self, HEAD_BYTES, Kind, Stretch};
use super::header::{Header, PREAMBLE_BYTES};
use super::*;
use monitor_backend::Backend;
use monitor_backends::canned::Canned;
use monitor_model::id::Ns;
use monitor_model::sample::Sample;
use monitor_model::want::Want;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Blocks of five samples.
const FIVE: Limits = Limits { least: 5, most: 5, span: Ns(0), bytes: 1 << 20 };

/// From one sample of the example to the next.
const STEP: u64 = 500_000_000;

/// A file of a test, taken away when it is over.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("monitor-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(name))
    }

    fn with(bytes: &[u8]) -> Self {
        let it = Self::new();
        std::fs::write(&it.0, bytes).expect("the folder can be written");
        it
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _it_may_be_gone = std::fs::remove_file(&self.0);
    }
}

fn samples(count: usize) -> Vec<Sample> {
    let world = include_str!("../../../../docs/examples/world.txt");
    let mut canned = Canned::scripted(world).expect("an example");
    let want = Want::whole();
    (0..count).map(|_| canned.read(&want).expect("it never fails")).collect()
}

fn written(path: &Path, samples: &[Sample], limits: Limits) -> Writer {
    let header = Header { node: "n1".into(), ..Header::default() };
    let mut writer =
        Writer::create(path, Existing::Keep, &header).expect("a new file").with_limits(limits);
    for sample in samples {
        writer.append(sample).expect("there is room");
    }
    writer
}

/// The bytes of a recording of so many samples in blocks of five; ended, or killed.
fn bytes(count: usize, ended: bool) -> Vec<u8> {
    let scratch = Scratch::new();
    let writer = written(&scratch.0, &samples(count), FIVE);
    if ended {
        writer.finish().expect("there is room");
    }
    std::fs::read(&scratch.0).expect("it was written")
}

/// The times of all samples that can be read, and everything that was said of others.
fn read(recording: &mut Recording) -> (Vec<u64>, Vec<String>) {
    let (mut times, mut said) = (Vec::new(), Vec::new());
    while let Some(sample) = recording.next().expect("the file can be read") {
        times.push((sample.at.boot.0 - 1_000_000_000_000) / STEP);
        said.extend(sample.notes.into_iter().map(|note| note.text));
    }
    said.extend(recording.at_end().into_iter().map(|note| note.text));
    (times, said)
}

fn open(bytes: &[u8]) -> Result<Recording, Error> {
    Recording::open(&Scratch::with(bytes).0)
}

fn upto(count: u64) -> Vec<u64> {
    (0..count).collect()
}

#[test]
fn what_was_written_is_read_to_the_digit() {
    for (count, limits) in [(1, FIVE), (5, FIVE), (23, FIVE), (700, Limits::default())] {
        let (scratch, samples) = (Scratch::new(), samples(count));
        written(&scratch.0, &samples, limits).finish().expect("there is room");
        let mut recording = Recording::open(&scratch.0).expect("a recording");
        for sample in &samples {
            let got = recording.next().expect("it can be read").expect("there is one more");
            assert_eq!(format!("{got:?}"), format!("{sample:?}"));
        }
        assert!(recording.next().expect("it can be read").is_none());
        assert_eq!(recording.at_end(), []);
        assert_eq!(recording.span().map(|it| it.samples), Some(count as u64));
    }
}

#[test]
fn one_that_was_not_ended_has_all_that_was_appended() {
    for count in [1, 4, 5, 6, 23] {
        let mut recording = open(&bytes(count, false)).expect("a recording");
        assert_eq!(read(&mut recording), (upto(count as u64), vec![]));
    }
}

#[test]
fn a_file_cut_anywhere_gives_all_before_the_cut() {
    let whole = bytes(13, false);
    let mut last = 0;
    let header = Header { node: "n1".into(), ..Header::default() }.bytes().len();
    // Within the header every cut is the same.
    for length in (0..header).step_by(997).chain(header..whole.len()) {
        match open(&whole[..length]) {
            Ok(mut recording) => {
                let (times, said) = read(&mut recording);
                assert_eq!(times, upto(times.len() as u64), "cut at {length}");
                assert!(times.len() >= last, "cut at {length}");
                let clean = said.is_empty();
                assert!(clean || said[0].contains("is cut or damaged from byte"), "{said:?}");
                last = times.len();
            }
            Err(error) => {
                assert_eq!(last, 0);
                assert!(!error.to_string().contains('\n'));
            }
        }
    }
    assert_eq!(last, 12);
}

#[test]
fn a_flipped_bit_costs_its_own_frame_and_is_told() {
    let whole = bytes(23, true);
    let mut lost_any = 0;
    for at in (0..whole.len()).step_by(11) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        let mut recording = open(&flipped).unwrap_or_else(|error| panic!("byte {at}: {error}"));
        let (times, said) = read(&mut recording);
        let lost = 23 - times.len();
        assert!(lost <= 5, "byte {at} cost {lost} samples");
        assert!(times.is_sorted() && (lost == 0 || said.len() == 1), "byte {at}: {said:?}");
        lost_any += usize::from(lost > 0);
    }
    assert!(lost_any > 10, "many bytes are of blocks");
}

#[test]
fn wherever_compaction_is_stopped_every_sample_is_there() {
    let (before, after) = (bytes(4, false), bytes(5, false));
    // The fifth sample, then the block behind, then the block and its list over the samples.
    let fifth = {
        let scratch = Scratch::new();
        let endless = Limits { most: 99, least: 99, ..FIVE };
        let _open = written(&scratch.0, &samples(5), endless);
        std::fs::read(&scratch.0).expect("it was written")
    };
    let begins = before.iter().zip(&after).position(|(a, b)| a != b).expect("they differ") - 4;
    let compact = &after[begins..];
    let block = HEAD_BYTES + frame::head(compact).expect("the block").length;
    for length in 0..=block {
        let state = [&fifth, &compact[..length]].concat();
        assert_eq!(read(&mut open(&state).expect("a recording")).0, upto(5), "behind, {length}");
    }
    let behind = [&fifth, &compact[..block]].concat();
    for length in 0..=compact.len() {
        let mut state = behind.clone();
        state[begins..begins + length].copy_from_slice(&compact[..length]);
        assert_eq!(read(&mut open(&state).expect("a recording")).0, upto(5), "over, {length}");
    }
}

#[test]
fn seeking_finds_the_sample_at_or_before() {
    for ended in [true, false] {
        let mut recording = open(&bytes(23, ended)).expect("a recording");
        let start = recording.span().expect("samples").first.unix.0;
        for (step, wanted) in [(0, 0), (7, 7), (4, 4), (5, 5), (22, 22), (99, 22), (12, 12)] {
            for half in [0, STEP / 2] {
                recording.seek(Ns(start + step * STEP + half)).expect("it can be read");
                let (times, said) = read(&mut recording);
                assert_eq!((times.first(), times.last()), (Some(&wanted), Some(&22)), "{step}");
                assert_eq!(said, [""; 0]);
            }
        }
        recording.seek(Ns(0)).expect("it can be read");
        assert_eq!(read(&mut recording).0, upto(23));
    }
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let header = Header { version: VERSION + 1, ..Header::default() };
    let error = open(&header.bytes()).err().expect("it is newer").to_string();
    assert!(error.contains(&format!("has version {}", VERSION + 1)), "{error}");
    assert!(error.ends_with("read it with the program that wrote it"), "{error}");
}

#[test]
fn what_is_no_recording_is_said_to_be_none() {
    for bytes in [&b""[..], b"x", b"#!/bin/sh\necho a recording\n", &[0x89; 4096]] {
        let error = open(bytes).err().expect("it is none").to_string();
        assert!(error.contains("is not a recording"), "{error}");
    }
    let folder = Recording::open(&std::env::temp_dir()).err().expect("a folder").to_string();
    assert!(folder.ends_with("it is not a regular file"), "{folder}");
}

#[test]
fn a_hostile_file_takes_no_more_memory_than_a_frame_may() {
    let header = Header::default().bytes();
    let head = |payload: &[u8], claimed: u32| {
        let mut out = Vec::new();
        frame::write(
            Kind::Block,
            &Stretch { count: u32::MAX, ..Stretch::default() },
            payload,
            &mut out,
        );
        out[8..12].copy_from_slice(&claimed.to_le_bytes());
        let checksum = crc32c::crc32c(&out[..60]);
        out[60..64].copy_from_slice(&checksum.to_le_bytes());
        out
    };
    let bomb = zstd::bulk::compress(&vec![3; 64 << 20], 3).expect("it compresses");
    for (payload, claimed) in [
        (&b"zz"[..], u32::MAX),
        (b"zz", 64 << 20),
        (b"zz", 2),
        (&bomb, u32::try_from(bomb.len()).expect("it is short")),
    ] {
        let file = [&header[..], &head(payload, claimed)].concat();
        let scratch = Scratch::with(&file);
        let told = allocation_counter::measure(|| {
            let mut recording = Recording::open(&scratch.0).expect("its header is whole");
            assert!(read(&mut recording).0.is_empty());
        });
        assert!(told.bytes_max < 200 << 20, "{} bytes for {claimed}", told.bytes_max);
    }
    assert!(header.len() > PREAMBLE_BYTES);
}

#[test]
fn a_file_that_is_there_stays_unless_it_is_to_be_replaced() {
    let scratch = Scratch::with(b"mine");
    let header = Header::default();
    let kept = Writer::create(&scratch.0, Existing::Keep, &header).err().expect("it is there");
    assert!(kept.to_string().ends_with("choose another name, or --force"));
    assert_eq!(std::fs::read(&scratch.0).expect("it is there"), b"mine");
    let link = Scratch::new();
    std::os::unix::fs::symlink(&scratch.0, &link.0).expect("a link");
    assert!(Writer::create(&link.0, Existing::Keep, &header).is_err());
    Writer::create(&link.0, Existing::Replace, &header).expect("the link was replaced");
    assert_eq!(std::fs::read(&scratch.0).expect("it is there"), b"mine");
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::symlink_metadata(&link.0).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_file_that_becomes_shorter_while_it_is_opened_is_looked_through_anew() {
    let (short, long) = (bytes(7, false), bytes(9, false));
    let scratch = Scratch::with(&long);
    let file = std::fs::OpenOptions::new().write(true).open(&scratch.0).expect("it is there");
    let opened = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let _blinking = scope.spawn(|| {
            while opened.load(Ordering::Relaxed) < 2000 {
                file.set_len(short.len() as u64).expect("there is room");
                std::os::unix::fs::FileExt::write_all_at(&file, &long, 0).expect("there is room");
            }
        });
        for _ in 0..2000 {
            let outcome = Recording::open(&scratch.0);
            let _before = opened.fetch_add(1, Ordering::Relaxed);
            if let Err(error) = outcome {
                opened.store(2000, Ordering::Relaxed);
                panic!("{error}");
            }
        }
    });
}
