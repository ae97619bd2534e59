//! Bytes that uprobes of ours replace in the memory of a process.
//!
//! In: the probes, by inode and offset, and an address range of a process. Out: the original bytes,
//! from the file. The kernel replaces one byte, or on new kernels five (`nopl` becomes `call`).

use super::process_ref::ProcessRef;
use super::{ControlError, Patch, ProbeLocation};
use monitor_symbols::held_file::FileRef;
use procfs::process::{MMapPath, MemoryMap};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::{fs::File, io::ErrorKind, ops::Range};

/// Most bytes that a probe replaces.
const MAX_PROBE_BYTES: u64 = 5;

/// The original bytes at all probes within an address range.
pub fn patches(
    process: &ProcessRef,
    probes: &[ProbeLocation],
    range: &Range<u64>,
) -> Result<Vec<Patch>, ControlError> {
    if probes.is_empty() {
        return Ok(Vec::new());
    }
    let maps = process.maps()?;
    let mut patches = Vec::new();
    for map in maps.into_iter().filter(|it| it.address.0 < range.end && range.start < it.address.1)
    {
        for probe in probes.iter().filter(|probe| probe.inode == map.inode) {
            let Some(address) = address(&map, probe.offset) else { continue };
            if address < range.end && range.start < address + MAX_PROBE_BYTES {
                patches.extend(originals(process, &map, (probe.offset, address))?);
            }
        }
    }
    Ok(patches)
}

/// The address of a file offset, if this mapping contains it.
fn address(map: &MemoryMap, offset: u64) -> Option<u64> {
    let within = offset.checked_sub(map.offset)?;
    let address = map.address.0.checked_add(within)?;
    (address < map.address.1).then_some(address)
}

/// The file of a mapping, and the offset in it of an address at which it has these bytes; none, if
/// it has others, cannot be read, or was replaced.
pub fn file_with(
    process: &ProcessRef,
    map: &MemoryMap,
    (address, bytes): (u64, &[u8]),
) -> Option<(FileRef, u64)> {
    let offset = map.offset + address.checked_sub(map.address.0)?;
    let MMapPath::Path(path) = &map.pathname else { return None };
    let file = mapped_file(process, map, path).ok()?;
    let mut own = vec![0; bytes.len()];
    file.read_exact_at(&mut own, offset).ok()?;
    let facts = file.metadata().ok()?;
    let identity = (facts.dev(), facts.ino());
    let named = FileRef { path: path.clone(), range: map.address, identity };
    (own == bytes).then_some((named, offset))
}

fn originals(
    process: &ProcessRef,
    map: &MemoryMap,
    (offset, address): (u64, u64),
) -> Result<Vec<Patch>, ControlError> {
    let MMapPath::Path(path) = &map.pathname else { return Ok(Vec::new()) };
    let file = mapped_file(process, map, path)?;
    let mut bytes = [0; 5];
    let read = file.read_at(&mut bytes, offset);
    let read = read.map_err(|error| ControlError::from_io("reading the mapped file", &error))?;
    let patch =
        |(place, original): (u64, &u8)| Patch { address: address + place, original: *original };
    Ok((0..).zip(&bytes[..read]).map(patch).collect())
}

/// The path of a file of a process as this program sees it.
pub fn path_of(process: &ProcessRef, path: &Path) -> PathBuf {
    let inside = path.strip_prefix("/").unwrap_or(path);
    Path::new("/proc").join(process.id.pid.0.to_string()).join("root").join(inside)
}

/// Opens a mapped file through the root of the process, which may be in a container.
pub fn mapped_file(
    process: &ProcessRef,
    map: &MemoryMap,
    path: &Path,
) -> Result<File, ControlError> {
    let path = path_of(process, path);
    match File::open(&path) {
        Ok(file) if file.metadata().is_ok_and(|it| it.ino() == map.inode) => return Ok(file),
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(ControlError::from_io("opening the mapped file", &error));
        }
        Ok(_) | Err(_) => {}
    }
    let why = format!("{} was replaced on disk, so its original bytes are unknown", path.display());
    Err(ControlError::Unsupported(why))
}
