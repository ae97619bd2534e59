//! Recordings made to exhaust their reader: each takes bounded memory, and is read or refused.

use super::frame::{self, FrameKind, SampleRange};
use super::schema::{ColumnSchema, TableKind, TableSchema, current_schema};
use super::stream::Streams;
use super::{Header, Recording, tests::TestFile, varint};
use monitor_model::Note;

/// Memory that a reader may take, in bytes.
const MAX_MEMORY: u64 = 256 << 20;

/// The outcome of reading a file.
struct ReadOutcome {
    samples: usize,
    rows: usize,
    /// Notes, or the error.
    said: Vec<String>,
}

/// Reads a file to its end, with the last sample in memory beside the next, as rates need it.
#[track_caller]
fn read(bytes: &[u8]) -> ReadOutcome {
    let file = TestFile::with(bytes);
    let mut outcome = ReadOutcome { samples: 0, rows: 0, said: Vec::new() };
    let allocations = allocation_counter::measure(|| {
        let mut recording = match Recording::open(&file.0) {
            Ok(recording) => recording,
            Err(error) => return outcome.said.push(error.to_string()),
        };
        let mut before = None;
        let texts = |notes: Vec<Note>| notes.into_iter().rev().map(|it| it.text).take(9);
        while let Some(sample) = recording.next().expect("a readable file") {
            outcome.samples += 1;
            outcome.rows += sample.processes.len();
            outcome.said.extend(texts(sample.notes.clone()).filter(|it| it.len() < 200));
            before = Some(sample);
        }
        drop(before);
        outcome.said.extend(texts(recording.end_notes()));
    });
    assert!(allocations.bytes_max < MAX_MEMORY, "{} bytes", allocations.bytes_max);
    outcome
}

/// The first stream of a table of the current schema.
fn base(kind: TableKind) -> usize {
    let before = current_schema().into_iter().take(kind as usize);
    2 + before.map(|it| 3 + it.columns.len()).sum::<usize>()
}

fn all_streams() -> Streams {
    Streams::new(2 + current_schema().iter().map(|it| 3 + it.columns.len()).sum::<usize>())
}

fn put(streams: &mut Streams, stream: usize, bytes: &[u8]) {
    streams.part(stream..stream + 1)[0].extend_from_slice(bytes);
}

/// Rows that no other table refers to; each has the mask `mask`, which needs `width` bytes.
fn put_rows(streams: &mut Streams, kind: TableKind, rows: usize, (mask, width): (u8, usize)) {
    let at = base(kind);
    put(streams, at, &vec![3; rows]);
    put(streams, at, &[0]);
    put(streams, at + 1, &[2, 0, 0, 0].repeat(rows));
    let masks = |mask: u8, known: u8| {
        let mut masks = vec![0; 1 + width];
        masks[1] = mask;
        (masks, known)
    };
    // Present and changed: the same mask, written once.
    let (first, known) = masks(mask, 1);
    put(streams, at + 2, &first);
    put(streams, at + 2, &vec![known; 2 * rows - 1]);
}

/// A recording of one block with these streams.
fn recording(streams: &Streams, samples: u32) -> Vec<u8> {
    let mut raw = Vec::new();
    streams.write(&mut raw);
    let payload = zstd::bulk::compress(&raw, 6).expect("compressed");
    let range = SampleRange { count: samples, ..SampleRange::default() };
    let mut out = Header::default().bytes();
    frame::write(FrameKind::Block, &range, &payload, &mut out);
    out
}

/// The steps of tables that do not change, for all samples.
fn unchanged(streams: &mut Streams, samples: usize, except: &[TableKind]) {
    put(streams, 0, &vec![0; samples]);
    for (index, _) in current_schema().iter().enumerate() {
        let kind = except.iter().find(|it| **it as usize == index);
        let at = 2 + current_schema()[..index].iter().map(|it| 3 + it.columns.len()).sum::<usize>();
        put(streams, at, &vec![0; samples - usize::from(kind.is_some())]);
    }
}

#[test]
fn sixty_million_empty_strings_are_refused() {
    let mut streams = all_streams();
    let mut count = Vec::new();
    varint::put(&mut count, 60_000_000);
    put(&mut streams, 0, &count);
    put(&mut streams, 1, &vec![0; 60_000_000]);
    let file = recording(&streams, 1);
    assert!(file.len() < 100 << 10);
    let outcome = read(&file);
    assert_eq!(outcome.samples, 0);
    assert!(outcome.said[0].contains("damaged"), "{:?}", outcome.said);
}

#[test]
fn millions_of_rows_in_a_small_block_are_refused() {
    for kind in [TableKind::Process, TableKind::Thread, TableKind::Latency, TableKind::Note] {
        let mut streams = all_streams();
        let width = current_schema()[kind as usize].columns.len().div_ceil(8);
        put_rows(&mut streams, kind, 5_000_000, (0, width));
        unchanged(&mut streams, 1, &[kind]);
        let outcome = read(&recording(&streams, 1));
        assert_eq!((outcome.samples, outcome.said.len()), (0, 1), "{kind:?}");
    }
}

#[test]
fn as_many_rows_as_fit_repeated_in_a_block_are_bounded() {
    let samples = 600;
    let mut streams = all_streams();
    put_rows(&mut streams, TableKind::Process, 25_000, (0, 13));
    unchanged(&mut streams, samples, &[TableKind::Process]);
    let outcome = read(&recording(&streams, 600));
    assert!((100..600).contains(&outcome.samples), "{}", outcome.samples);
    assert_eq!(outcome.rows, outcome.samples * 25_000);
    assert!(outcome.said.last().is_some_and(|it| it.contains("damaged")), "{:?}", outcome.said);
}

#[test]
fn a_block_that_claims_more_samples_than_a_writer_puts_there_is_refused() {
    let mut streams = all_streams();
    unchanged(&mut streams, 1_000_000, &[]);
    assert_eq!(read(&recording(&streams, 1_000_000)).samples, 0);
}

#[test]
fn a_long_text_in_every_row_is_left_out() {
    let mut streams = all_streams();
    let mut string = Vec::new();
    varint::put(&mut string, 1 << 20);
    string.resize(string.len() + (1 << 20), b'x');
    put(&mut streams, 1, &string);
    // The first column of a note is the number of its text.
    put_rows(&mut streams, TableKind::Note, 100_000, (1, 1));
    put(&mut streams, base(TableKind::Note) + 3, &vec![2; 100_000]);
    unchanged(&mut streams, 1, &[TableKind::Note]);
    streams.part(0..1)[0][0] = 1;
    let outcome = read(&recording(&streams, 1));
    assert_eq!(outcome.samples, 1);
    assert!(outcome.said[0].contains("left out"), "{:?}", outcome.said);
}

#[test]
fn a_header_beyond_its_limits_is_refused() {
    let column = ColumnSchema { name: "c".into(), unit: String::new(), kind: "number".into() };
    let table = |columns: usize| TableSchema {
        name: "t".into(),
        key: Vec::new(),
        columns: vec![column.clone(); columns],
    };
    for tables in [vec![table(129)], vec![table(1); 65], vec![table(1); 1_000_000]] {
        let header = Header { tables, ..Header::default() }.bytes();
        let outcome = read(&header);
        assert!(outcome.said[0].contains("no sample can be read"), "{:?}", outcome.said);
    }
    // Tables of no known name are not decoded, whatever they hold.
    let outcome = read(&Header { tables: vec![table(128); 64], ..Header::default() }.bytes());
    assert_eq!(outcome.said, [""; 0]);
}

#[test]
fn a_list_of_a_million_blocks_is_not_believed() {
    let mut file = Header::default().bytes();
    let mut payload = 0_u64.to_le_bytes().to_vec();
    for block in 0..1_000_000_u64 {
        payload.extend_from_slice(&block.to_le_bytes());
        payload.extend_from_slice(&SampleRange::default().bytes());
    }
    let length = u32::try_from(frame::HEAD_BYTES + payload.len() + 12).expect("a short list");
    payload.extend_from_slice(&length.to_le_bytes());
    payload.extend_from_slice(b"MRindex\n");
    frame::write(FrameKind::Index, &SampleRange::default(), &payload, &mut file);
    assert_eq!(read(&file).samples, 0);
}

#[test]
fn more_empty_frames_than_a_writer_puts_in_a_file_are_refused() {
    let mut file = Header::default().bytes();
    for seq in 0..1_100_000 {
        let range = SampleRange { seq, count: 1, ..SampleRange::default() };
        frame::write(FrameKind::Full, &range, b"", &mut file);
    }
    let outcome = read(&file);
    assert!(outcome.said[0].contains("more than 1048576 blocks"), "{:?}", outcome.said);
}

#[test]
fn a_file_of_marks_is_read_once() {
    let mut file = Header::default().bytes();
    file.extend(frame::MARK.repeat(4 << 20));
    assert!(read(&file).said[0].contains("truncated or damaged"));
}

#[test]
fn the_last_possible_numbers_of_samples_are_refused() {
    for (seq, count) in [(u64::MAX, 1), (u64::MAX - 1, 1), (u64::MAX - 1, u32::MAX), (0, 0)] {
        let mut streams = all_streams();
        unchanged(&mut streams, 1, &[]);
        let mut payload = Vec::new();
        streams.write(&mut payload);
        let mut file = Header::default().bytes();
        let range = SampleRange { seq, count, ..SampleRange::default() };
        frame::write(FrameKind::Full, &range, &payload, &mut file);
        assert_eq!(read(&file).samples, 0);
    }
}
