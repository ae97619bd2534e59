//! The object files that a process has mapped: its program and its libraries.
//!
//! In: a process. Out: the files, open, each with its load bias. The result is a snapshot:
//! libraries loaded later need another call. Only the ELF headers are read.

use super::{SymbolError, elf::ElfImage, error::REPLACED, object_file::ObjectFile};
use monitor_model::Pid;
use monitor_proc::maps::{Mapping, mappings};
use std::path::{Path, PathBuf};
use std::{collections::HashSet, sync::Arc};

/// Most files of a process that are opened; a quarter of the descriptors, if that is less.
const MOST_FILES: usize = 1024;
const TOO_MANY: &str = "the process has mapped more files than are searched; name the file by its \
                        path";

/// A mapped object file.
#[derive(Debug)]
pub struct MappedFile {
    /// Its ELF image.
    pub image: ElfImage,
    /// Load bias: memory address minus address in the file.
    pub bias: u64,
    /// The addresses of the mapping.
    pub range: (u64, u64),
}

/// All files with executable mappings, ordered by address, and the errors of unreadable ones.
pub fn files(proc: &Path, pid: Pid) -> Result<(Vec<MappedFile>, Vec<SymbolError>), SymbolError> {
    let all = mappings(proc, pid).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => SymbolError::Gone { pid: pid.0 },
        // ESRCH: it has ended meanwhile.
        _ if source.raw_os_error() == Some(3) => SymbolError::Gone { pid: pid.0 },
        _ => {
            let path = proc.join(pid.0.to_string()).join("maps");
            SymbolError::File { call: "read", path, source }
        }
    })?;
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    let has_code = |it: &&Mapping| it.is_executable && it.inode != 0;
    let most = most_files();
    for mapping in all.iter().filter(has_code) {
        if !seen.insert((mapping.inode, mapping.path.clone())) {
            continue;
        }
        if seen.len() > most {
            let path = mapping.path.clone().unwrap_or_default();
            failed.push(SymbolError::Unsupported { path, why: TOO_MANY });
            break;
        }
        match mapped(proc, pid, mapping) {
            Ok(Some(file)) => found.push(file),
            Ok(None) => {}
            Err(error) => failed.push(error),
        }
    }
    Ok((found, failed))
}

fn most_files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.and_then(|it| usize::try_from(it).ok()).unwrap_or(usize::MAX);
    MOST_FILES.min(limit / 4)
}

/// The image of a mapped file.
///
/// # Errors
/// If the file cannot be opened, or is no object file.
pub fn image(proc: &Path, pid: Pid, mapping: &Mapping) -> Result<ElfImage, SymbolError> {
    open(proc, pid, mapping).map(Arc::new).and_then(ElfImage::read)
}

/// The file of a mapping; `None` if it is not a supported object file, for example a device.
fn mapped(proc: &Path, pid: Pid, mapping: &Mapping) -> Result<Option<MappedFile>, SymbolError> {
    let image = match image(proc, pid, mapping) {
        Ok(image) => image,
        Err(SymbolError::Unsupported { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let bias = image.bias(mapping.start, mapping.offset);
    Ok(bias.map(|bias| MappedFile { image, bias, range: (mapping.start, mapping.end) }))
}

/// Opens exactly the mapped file: through `map_files`, which also reaches deleted files but needs a
/// privilege, or by its path below the root of the process, or by its path in our root.
fn open(proc: &Path, pid: Pid, mapping: &Mapping) -> Result<ObjectFile, SymbolError> {
    let process = proc.join(pid.0.to_string());
    let name = mapping.path.clone().unwrap_or_else(|| PathBuf::from("?"));
    let link = process.join(format!("map_files/{:x}-{:x}", mapping.start, mapping.end));
    if let Ok(file) = ObjectFile::open(&link, &name) {
        return Ok(file);
    }
    let inside = process.join("root").join(name.strip_prefix("/").unwrap_or(&name));
    let first = ObjectFile::open(&inside, &name);
    let is_it = |file: &ObjectFile| file.identity.1 == mapping.inode;
    match first {
        Ok(file) if is_it(&file) => Ok(file),
        Err(error @ SymbolError::Unsupported { .. }) => Err(error),
        first => match ObjectFile::open(&name, &name) {
            Ok(file) if is_it(&file) => Ok(file),
            _ => Err(first.err().unwrap_or(SymbolError::Unsupported { path: name, why: REPLACED })),
        },
    }
}
