//! The file format of recordings, and a committed recording that replays to the same text.
//!
//! `tests/golden/recording/tiny.mon` has three samples with every field, a thread, a process that
//! ends, one that starts and ends between two samples, signals, notes and lost records. No test
//! rewrites it: every later version of the program must read it.

use super::{check, golden, printed, printed_with, program};
use crate::deadline::until;
use crate::served::{Folder, Served};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use serde_json::Value;
use std::path::Path;

/// Enables the flight recorder, for every user.
pub const KEEPING: &str =
    "[flight]\nkeep = \"40s\"\nevery = \"100ms\"\n[policy]\nobserve-all = [\"*\"]\n";
/// The magic bytes before the version.
const NAME: &[u8] = b"\x89monitor\r\n\x1a\n";
/// Sizes of the preamble and of a frame header, in bytes.
const PREAMBLE: usize = 16;
const HEAD: usize = 64;

fn tiny() -> String {
    golden("recording/tiny.mon").to_str().unwrap().to_owned()
}

/// The kinds of the frames of a file in order, and its header.
fn frames(bytes: &[u8]) -> (String, Value) {
    let (mut kinds, mut header) = (String::new(), Value::Null);
    let mut rest = &bytes[PREAMBLE..];
    while rest.len() >= HEAD {
        assert_eq!(&rest[..4], b"\x89MR\n", "a frame starts with its mark");
        let length = u32::from_le_bytes(rest[8..12].try_into().unwrap());
        let end = HEAD + usize::try_from(length).unwrap();
        if rest[4] == b'H' {
            header = serde_json::from_slice(&rest[HEAD..end]).unwrap();
        }
        kinds.push(char::from(rest[4]));
        rest = &rest[end..];
    }
    assert!(rest.is_empty(), "a frame was cut");
    (kinds, header)
}

/// A description of a file: version, frames, keys of the header, and tables.
fn described(bytes: &[u8]) -> String {
    assert_eq!(&bytes[..NAME.len()], NAME);
    let number = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap());
    assert_eq!(number(12), !number(14), "the version and its complement");
    let (kinds, header) = frames(bytes);
    let members = header.as_object().unwrap();
    let keys: Vec<_> = members.keys().map(String::as_str).collect();
    let mut out = format!("version {}\nheader {}\n", number(12), keys.join(" "));
    for table in header["sheets"].as_array().unwrap() {
        let key: Vec<_> = table["key"].as_array().unwrap().iter().map(Value::to_string).collect();
        out += &format!("sheet {}, {}\n", table["name"], key.join(" "));
        for it in table["columns"].as_array().unwrap() {
            let unit = it["unit"].as_str().unwrap_or("-");
            out += &format!("  {} {unit} {}\n", it["name"], it["kind"]);
        }
    }
    let out = out.replace('"', "");
    // The number of frames depends on time.
    let mut kinds: Vec<char> = kinds.chars().collect();
    kinds.dedup();
    format!("frames {}\n{out}", kinds.iter().collect::<String>())
}

/// The description of a new recording.
fn written() -> String {
    let folder = Folder::new();
    let file = folder.join("r");
    let words = ["record", file.to_str().unwrap(), "--backend", "test", "--local"];
    let _said = printed(&[&words[..], &["--every", "1ms", "--count", "3"]].concat());
    described(&std::fs::read(&file).unwrap())
}

#[test]
fn a_new_recording_keeps_magic_version_and_tables() {
    check("recording/schema.txt", &written());
}

#[test]
fn the_flight_recorder_saves_a_recording_of_the_same_schema() {
    let served = Served::with(KEEPING);
    let folder = Folder::new();
    let save = |n: u32| {
        let file = folder.join(&format!("r{n}"));
        let _said = printed_with(0, served.command(&format!("save {}", file.display())));
        file
    };
    // The recorder needs time for the first block.
    let mut n = 0;
    let text = until(|| {
        n += 1;
        let text = described(&std::fs::read(save(n)).unwrap());
        text.contains("\nheader").then_some(text)
    });
    let tables = |text: &str| text.split_once('\n').unwrap().1.to_owned();
    assert_eq!(tables(&text), tables(&written()));
}

/// The output of a command for the committed recording.
///
/// The exit code is 4: a note says that something is missing.
fn output(command: &str, words: &[&str]) -> String {
    const PARTIAL: i32 = 4;
    printed_with(PARTIAL, program(&[&[command, &tiny()], words].concat()))
}

fn replayed(words: &[&str]) -> String {
    output("replay", words)
}

#[test]
fn the_committed_recording_replays_as_the_same_json() {
    let mut out = replayed(&["all", "--threads", "--signals", "--format", "json"]);
    out += &replayed(&["--fields", "user,job,pss_bytes", "--format", "json"]);
    check("recording/replay.jsonl", &out);
}

#[test]
fn the_committed_recording_replays_as_the_same_groups() {
    let mut out = String::new();
    for by in ["job", "user", "comm", "cgroup", "container"] {
        out += &replayed(&["--group-by", by, "--keep", "1ms", "--format", "json"]);
    }
    check("recording/groups.jsonl", &out);
}

#[test]
fn the_committed_recording_replays_as_the_same_csv() {
    let mut out = replayed(&["--threads", "--format", "csv"]);
    out += &replayed(&["--fields", "user,job,pss_bytes", "--format", "csv"]);
    for part in ["node", "disk", "net"] {
        out += &replayed(&[part, "--format", "csv"]);
    }
    out += &replayed(&["--group-by", "user", "--keep", "1ms", "--format", "csv"]);
    check("recording/replay.csv", &out);
}

#[test]
fn the_committed_recording_replays_with_the_same_pmix_keys() {
    check("recording/replay.pmix.jsonl", &replayed(&["all", "--threads", "--format", "pmix"]));
}

#[test]
fn an_export_is_the_same_as_a_replay() {
    let csv = output("export", &["--format", "csv"]);
    assert_eq!(csv, replayed(&["--format", "csv"]));
    let json = output("export", &["all", "--format", "json"]);
    assert_eq!(json, replayed(&["all", "--format", "json"]));
}

/// The number of rows of a Parquet file, and its columns with their types.
fn columns(path: &Path) -> String {
    let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let meta = reader.metadata().file_metadata();
    let column = |it: &parquet::schema::types::ColumnDescPtr| {
        let of = it.self_type().get_basic_info();
        let logical = of.logical_type_ref().map_or("-".into(), |it| format!("{it:?}"));
        format!("  {} {:?} {logical} {:?}\n", it.name(), it.physical_type(), of.repetition())
    };
    let columns: String = meta.schema_descr().columns().iter().map(column).collect();
    format!("{} rows\n{columns}", meta.num_rows())
}

#[test]
fn a_parquet_export_keeps_its_columns_and_types() {
    let folder = Folder::new();
    let mut out = String::new();
    for part in [&["proc"][..], &["node"], &["disk"], &["net"], &["proc", "--group-by", "user"]] {
        let to = folder.join("p");
        let words = ["--format", "parquet", "--output", to.to_str().unwrap()];
        let _said = output("export", &[&words[..], part].concat());
        out += &format!("{}: {}", part.join(" "), columns(&to));
    }
    check("recording/parquet.txt", &out);
}
