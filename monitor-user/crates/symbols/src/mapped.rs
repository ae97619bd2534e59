//! The files whose code a process can run: its program, its libraries, also those loaded later.
//!
//! In: a process. Out: the files, open, each with the distance from its own addresses to those of
//! the process. They are found as they are now; who wants to know of a library that is loaded
//! later asks again. Nothing is read of them but what maps code to addresses.

use super::elf::Image;
use super::error::Error;
use super::opened::Opened;
use monitor_model::id::Pid;
use monitor_proc::maps::{Mapping, mappings};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const REPLACED: &str = "the file was replaced since it was mapped; CAP_CHECKPOINT_RESTORE lets the \
                        mapped one be opened";

/// A file that is mapped.
#[derive(Debug)]
pub struct Mapped {
    /// What is in it.
    pub image: Image,
    /// What to add to an address of the file.
    pub bias: u64,
}

/// The files with code, in the order of addresses. Those that cannot be read are told beside.
pub fn files(proc: &Path, pid: Pid) -> Result<(Vec<Mapped>, Vec<Error>), Error> {
    let all = mappings(proc, pid).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => Error::Gone { pid: pid.0 },
        // ESRCH: it ended while it was asked.
        _ if source.raw_os_error() == Some(3) => Error::Gone { pid: pid.0 },
        _ => {
            let path = proc.join(pid.0.to_string()).join("maps");
            Error::File { call: "read", path, source }
        }
    })?;
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    let has_code = |it: &&Mapping| it.is_executable && it.inode != 0;
    for mapping in all.iter().filter(has_code) {
        if !seen.insert((mapping.inode, mapping.path.clone())) {
            continue;
        }
        match mapped(proc, pid, mapping) {
            Ok(Some(file)) => found.push(file),
            Ok(None) => {}
            Err(error) => failed.push(error),
        }
    }
    Ok((found, failed))
}

/// The file of a mapping; none where it is no file with code of ours, such as a device.
fn mapped(proc: &Path, pid: Pid, mapping: &Mapping) -> Result<Option<Mapped>, Error> {
    let image = match open(proc, pid, mapping).map(Arc::new).and_then(Image::read) {
        Ok(image) => image,
        Err(Error::Unsupported { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let bias = image.bias(mapping.start, mapping.offset);
    Ok(bias.map(|bias| Mapped { image, bias }))
}

/// The very file that is mapped: by the mapping itself, which also leads to a deleted one but needs
/// a privilege, or by its path, which is that of the process's root or, without one, of ours.
fn open(proc: &Path, pid: Pid, mapping: &Mapping) -> Result<Opened, Error> {
    let process = proc.join(pid.0.to_string());
    let name = mapping.path.clone().unwrap_or_else(|| PathBuf::from("?"));
    let link = process.join(format!("map_files/{:x}-{:x}", mapping.start, mapping.end));
    if let Ok(file) = Opened::open(&link, &name) {
        return Ok(file);
    }
    let inside = process.join("root").join(name.strip_prefix("/").unwrap_or(&name));
    let first = Opened::open(&inside, &name);
    let is_it = |file: &Opened| file.identity.1 == mapping.inode;
    match first {
        Ok(file) if is_it(&file) => Ok(file),
        Err(error @ Error::Unsupported { .. }) => Err(error),
        first => match Opened::open(&name, &name) {
            Ok(file) if is_it(&file) => Ok(file),
            _ => Err(first.err().unwrap_or(Error::Unsupported { path: name, why: REPLACED })),
        },
    }
}
