//! Generated inputs for every border at which bytes of users, files and the kernel arrive:
//! `cargo xtask fuzz`.
//!
//! Each border is a file: its valid samples, and what reads them. `input` changes the samples,
//! `trial` runs the inputs and limits time and memory of each.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test panics where it fails")]

mod calls;
mod elf;
mod http;
mod input;
mod line;
mod proc_texts;
mod recordings;
mod requests;
mod trial;
mod worker_messages;

use std::path::{Path, PathBuf};

/// A file or folder below `tests`.
fn tests(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// The files of a folder below `tests`, with their contents.
fn files(folder: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(tests(folder)).unwrap().map(|it| it.unwrap().path());
    let mut paths: Vec<PathBuf> = entries.filter(|it| it.is_file()).collect();
    paths.sort();
    let read = |path: PathBuf| (path.clone(), std::fs::read(path).unwrap());
    paths.into_iter().map(read).collect()
}

/// The lines of the files of a folder that begin with a text, without it.
fn lines(folder: &str, begin: &str) -> Vec<Vec<u8>> {
    let texts = files(folder).into_iter().map(|(_, bytes)| bytes);
    let of = |bytes: Vec<u8>| {
        let lines = bytes.split(|it| *it == b'\n').map(<[u8]>::to_vec);
        lines.filter_map(|it| Some(it.strip_prefix(begin.as_bytes())?.to_vec())).collect::<Vec<_>>()
    };
    texts.flat_map(of).collect()
}
