//! Tests of crashes, damage, full disks and hostile files.

use super::frame::{self, FrameKind, HEAD_BYTES, SampleRange};
use super::{BlockLimits, Header, header::PREAMBLE_BYTES, *};
use monitor_backend::Backend;
use monitor_backends::canned::Canned;
use monitor_model::{Ns, ReadSpec, Sample};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Blocks of five samples.
const FIVE: BlockLimits =
    BlockLimits { min_samples: 5, max_samples: 5, span: Ns(0), bytes: 1 << 20 };

/// Interval between the samples of the example.
const STEP: u64 = 500_000_000;

/// A temporary file, removed on drop.
pub(super) struct TestFile(pub PathBuf);

impl TestFile {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("monitor-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(name))
    }

    /// A file with these bytes.
    pub fn with(bytes: &[u8]) -> Self {
        let it = Self::new();
        std::fs::write(&it.0, bytes).expect("a writable folder");
        it
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _may_not_exist = std::fs::remove_file(&self.0);
    }
}

fn samples(count: usize) -> Vec<Sample> {
    let world = include_str!("../../../../docs/examples/world.txt");
    let mut canned = Canned::scripted(world).expect("an example");
    let want = ReadSpec::everything();
    (0..count).map(|_| canned.read(&want).expect("the canned backend never fails")).collect()
}

fn written(path: &Path, samples: &[Sample], limits: BlockLimits) -> Writer {
    let header = Header { node: "n1".into(), ..Header::default() };
    let mut writer =
        Writer::create(path, Existing::Keep, &header).expect("a new file").with_limits(limits);
    for sample in samples {
        writer.append(sample).expect("space on disk");
    }
    writer
}

/// The bytes of a recording of `count` samples in blocks of five, finished or not.
fn bytes(count: usize, ended: bool) -> Vec<u8> {
    let file = TestFile::new();
    let writer = written(&file.0, &samples(count), FIVE);
    if ended {
        writer.finish().expect("space on disk");
    }
    std::fs::read(&file.0).expect("a written file")
}

/// The times of all readable samples, and all notes.
fn read(recording: &mut Recording) -> (Vec<u64>, Vec<String>) {
    let (mut times, mut notes) = (Vec::new(), Vec::new());
    while let Some(sample) = recording.next().expect("a readable file") {
        times.push((sample.at.boot.0 - 1_000_000_000_000) / STEP);
        notes.extend(sample.notes.into_iter().map(|note| note.text));
    }
    notes.extend(recording.end_notes().into_iter().map(|note| note.text));
    (times, notes)
}

fn open(bytes: &[u8]) -> Result<Recording, Error> {
    Recording::open(&TestFile::with(bytes).0)
}

fn upto(count: u64) -> Vec<u64> {
    (0..count).collect()
}

#[test]
fn samples_are_read_exactly_as_written() {
    for (count, limits) in [(1, FIVE), (5, FIVE), (23, FIVE), (700, BlockLimits::default())] {
        let (file, samples) = (TestFile::new(), samples(count));
        written(&file.0, &samples, limits).finish().expect("space on disk");
        let mut recording = Recording::open(&file.0).expect("a recording");
        for sample in &samples {
            let got = recording.next().expect("a readable file").expect("one more sample");
            assert_eq!(format!("{got:?}"), format!("{sample:?}"));
        }
        assert!(recording.next().expect("a readable file").is_none());
        assert_eq!(recording.end_notes(), []);
        assert_eq!(recording.span().map(|it| it.samples), Some(count as u64));
    }
}

#[test]
fn an_unfinished_recording_has_all_appended_samples() {
    for count in [1, 4, 5, 6, 23] {
        let mut recording = open(&bytes(count, false)).expect("a recording");
        assert_eq!(read(&mut recording), (upto(count as u64), vec![]));
    }
}

#[test]
fn a_file_truncated_anywhere_has_all_samples_before_the_cut() {
    let whole = bytes(13, false);
    let mut last = 0;
    let header = Header { node: "n1".into(), ..Header::default() }.bytes().len();
    // All cuts within the header have the same effect.
    for length in (0..header).step_by(997).chain(header..whole.len()) {
        match open(&whole[..length]) {
            Ok(mut recording) => {
                let (times, notes) = read(&mut recording);
                assert_eq!(times, upto(times.len() as u64), "cut at {length}");
                assert!(times.len() >= last, "cut at {length}");
                let clean = notes.is_empty();
                assert!(
                    clean || notes[0].contains("is truncated or damaged from byte"),
                    "{notes:?}"
                );
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
fn a_flipped_bit_costs_at_most_a_block_and_is_reported() {
    for ended in [true, false] {
        let whole = bytes(23, ended);
        let header = Header { node: "n1".into(), ..Header::default() }.bytes().len();
        let mut lost_any = 0;
        for at in (0..header).step_by(97).chain((header..whole.len()).step_by(3)) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            let mut recording = open(&flipped).unwrap_or_else(|error| panic!("byte {at}: {error}"));
            let (times, notes) = read(&mut recording);
            let lost = 23 - times.len();
            assert!(lost <= 5, "byte {at} cost {lost} samples");
            assert!(times.is_sorted() && (lost == 0 || !notes.is_empty()), "byte {at}: {notes:?}");
            lost_any += usize::from(lost > 0);
        }
        assert!(lost_any > 10, "most bytes belong to blocks");
    }
}

#[test]
fn a_flipped_bit_costs_at_most_sixty_samples_however_short_the_period() {
    let file = TestFile::new();
    let mut samples = samples(326);
    for (index, sample) in (0..).zip(&mut samples) {
        sample.at.boot = Ns(1_000_000_000_000 + index * 200_000_000);
    }
    written(&file.0, &samples, BlockLimits::default()).finish().expect("space on disk");
    let whole = std::fs::read(&file.0).expect("a written file");
    let mut most = 0;
    for at in (0..whole.len()).step_by(101) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        most = most.max(326 - read(&mut open(&flipped).expect("a recording")).0.len());
    }
    assert_eq!(most, 60);
}

#[test]
fn a_damaged_page_costs_at_most_one_copy_of_the_header() {
    let whole = bytes(5, true);
    let header = Header { node: "n1".into(), ..Header::default() }.bytes().len();
    for at in (0..header - 4096).step_by(997) {
        let mut damaged = whole.clone();
        damaged[at..at + 4096].fill(0);
        let mut recording = open(&damaged).unwrap_or_else(|error| panic!("byte {at}: {error}"));
        assert_eq!(recording.header().node, "n1");
        assert_eq!(read(&mut recording).0, upto(5), "byte {at}");
    }
}

#[test]
fn no_sample_is_lost_wherever_compaction_is_interrupted() {
    let (before, after) = (bytes(4, false), bytes(5, false));
    // The fifth sample, then the block after it, then block and list written over the samples.
    let fifth = {
        let file = TestFile::new();
        let endless = BlockLimits { max_samples: 99, min_samples: 99, ..FIVE };
        let _open = written(&file.0, &samples(5), endless);
        std::fs::read(&file.0).expect("a written file")
    };
    let begins = before.iter().zip(&after).position(|(a, b)| a != b).expect("they differ") - 4;
    let compact = &after[begins..];
    let block = HEAD_BYTES + frame::parse_head(compact).expect("the block").length;
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
fn the_last_time_is_saved_to_the_sample_though_its_block_began_earlier() {
    let samples = samples(23);
    let mut flight = FlightBuffer::new(Ns(100 * STEP), Header::default());
    samples.iter().for_each(|it| flight.push(it).expect("a small sample"));
    for (last, first) in [(7, 15), (0, 22), (22, 0), (99, 0)] {
        let file = TestFile::new();
        flight.save(&file.0, Some(Ns(last * STEP))).expect("a new file");
        let mut saved = Recording::open(&file.0).expect("a recording");
        let span = saved.span().expect("samples");
        assert_eq!((span.first, span.last), (samples[first].at, samples[22].at), "{last}");
        let (times, notes) = read(&mut saved);
        assert_eq!((times.len(), notes), (23 - first, Vec::new()));
        assert_eq!(saved.end_notes(), []);
    }
}

#[test]
fn seeking_finds_the_sample_at_or_before() {
    for ended in [true, false] {
        let mut recording = open(&bytes(23, ended)).expect("a recording");
        let start = recording.span().expect("samples").first.unix.0;
        for (step, wanted) in [(0, 0), (7, 7), (4, 4), (5, 5), (22, 22), (99, 22), (12, 12)] {
            for half in [0, STEP / 2] {
                recording.seek(Ns(start + step * STEP + half)).expect("a readable file");
                let (times, notes) = read(&mut recording);
                assert_eq!((times.first(), times.last()), (Some(&wanted), Some(&22)), "{step}");
                assert_eq!(notes, [""; 0]);
            }
        }
        recording.seek(Ns(0)).expect("a readable file");
        assert_eq!(read(&mut recording).0, upto(23));
    }
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let header = Header { version: VERSION + 1, ..Header::default() };
    let error = open(&header.bytes()).err().expect("a newer version").to_string();
    assert!(error.contains(&format!("has format version {}", VERSION + 1)), "{error}");
    assert!(error.ends_with("read it with the program that wrote it"), "{error}");
}

#[test]
fn a_file_that_is_no_recording_is_refused() {
    for bytes in [&b""[..], b"x", b"#!/bin/sh\necho a recording\n", &[0x89; 4096]] {
        let error = open(bytes).err().expect("not a recording").to_string();
        assert!(error.contains("is not a recording"), "{error}");
    }
    let folder = Recording::open(&std::env::temp_dir()).err().expect("a folder").to_string();
    assert!(folder.ends_with("it is not a regular file"), "{folder}");
}

#[test]
fn a_hostile_file_takes_at_most_the_memory_of_a_frame() {
    let header = Header::default().bytes();
    let head = |payload: &[u8], claimed: u32| {
        let mut out = Vec::new();
        frame::write(
            FrameKind::Block,
            &SampleRange { count: u32::MAX, ..SampleRange::default() },
            payload,
            &mut out,
        );
        out[8..12].copy_from_slice(&claimed.to_le_bytes());
        let checksum = crc32c::crc32c(&out[..60]);
        out[60..64].copy_from_slice(&checksum.to_le_bytes());
        out
    };
    let bomb = zstd::bulk::compress(&vec![3; 64 << 20], 3).expect("compressed");
    for (payload, claimed) in [
        (&b"zz"[..], u32::MAX),
        (b"zz", 64 << 20),
        (b"zz", 2),
        (&bomb, u32::try_from(bomb.len()).expect("less than 4 GiB")),
    ] {
        let file = [&header[..], &head(payload, claimed)].concat();
        let file = TestFile::with(&file);
        let allocations = allocation_counter::measure(|| {
            let mut recording = Recording::open(&file.0).expect("an intact header");
            assert!(read(&mut recording).0.is_empty());
        });
        assert!(allocations.bytes_max < 200 << 20, "{} bytes for {claimed}", allocations.bytes_max);
    }
    assert!(header.len() > PREAMBLE_BYTES);
}

#[test]
fn an_existing_file_is_kept_unless_replacement_is_requested() {
    let file = TestFile::with(b"mine");
    let header = Header::default();
    let refused = Writer::create(&file.0, Existing::Keep, &header).err().expect("an existing file");
    assert!(refused.to_string().ends_with("choose another name or use --force"));
    assert_eq!(std::fs::read(&file.0).expect("an existing file"), b"mine");
    let link = TestFile::new();
    std::os::unix::fs::symlink(&file.0, &link.0).expect("a link");
    assert!(Writer::create(&link.0, Existing::Keep, &header).is_err());
    let _open = Writer::create(&link.0, Existing::Replace, &header).expect("the link was replaced");
    assert_eq!(std::fs::read(&file.0).expect("an existing file"), b"mine");
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::symlink_metadata(&link.0).expect("an existing file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_recording_that_ends_before_its_first_sample_leaves_no_file() {
    let file = TestFile::new();
    drop(written(&file.0, &[], FIVE));
    assert!(!file.0.exists());
    drop(written(&file.0, &samples(1), FIVE));
    assert!(file.0.exists(), "a sample is never removed");
    std::fs::remove_file(&file.0).expect("an existing file");
    let writer = written(&file.0, &[], FIVE);
    std::fs::remove_file(&file.0).expect("an existing file");
    std::fs::write(&file.0, b"mine").expect("a writable folder");
    drop(writer);
    assert_eq!(std::fs::read(&file.0).expect("an existing file"), b"mine");
}

#[test]
fn a_file_that_shrinks_while_it_is_opened_is_scanned_again() {
    let (short, long) = (bytes(7, false), bytes(9, false));
    let path = TestFile::with(&long);
    let file = std::fs::OpenOptions::new().write(true).open(&path.0).expect("an existing file");
    let opened = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let _blinking = scope.spawn(|| {
            while opened.load(Ordering::Relaxed) < 2000 {
                file.set_len(short.len() as u64).expect("space on disk");
                std::os::unix::fs::FileExt::write_all_at(&file, &long, 0).expect("space on disk");
            }
        });
        for _ in 0..2000 {
            let outcome = Recording::open(&path.0);
            let _before = opened.fetch_add(1, Ordering::Relaxed);
            if let Err(error) = outcome {
                opened.store(2000, Ordering::Relaxed);
                panic!("{error}");
            }
        }
    });
}
