//! Bytes that the kernel has put into a program for us: its uprobes.
//!
//! In: the places, by file and offset, and a part of a process's memory. Out: what the file has
//! there. The kernel writes one byte, or on new kernels a call of five (`nopl` made into `call`).

use super::act::{Patch, Site};
use super::subject::{Subject, tell};
use super::trouble::Trouble;
use procfs::process::{MMapPath, MemoryMap};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

/// The longest that a probe replaces.
const LONGEST: u64 = 5;

/// The program's own bytes where probes are, within a range of addresses.
pub fn patches(
    subject: &Subject,
    sites: &[Site],
    range: &Range<u64>,
) -> Result<Vec<Patch>, Trouble> {
    if sites.is_empty() {
        return Ok(Vec::new());
    }
    let maps = tell("reading its memory map", subject.proc()?.maps())?;
    let mut patches = Vec::new();
    for map in maps.into_iter().filter(|it| it.address.0 < range.end && range.start < it.address.1)
    {
        for site in sites.iter().filter(|site| site.inode == map.inode) {
            let Some(address) = address(&map, site.offset) else { continue };
            if address < range.end && range.start < address + LONGEST {
                patches.extend(originals(subject, &map, (site.offset, address))?);
            }
        }
    }
    Ok(patches)
}

/// Where a place of the file is in memory, if this mapping has it.
fn address(map: &MemoryMap, offset: u64) -> Option<u64> {
    let within = offset.checked_sub(map.offset)?;
    let address = map.address.0.checked_add(within)?;
    (address < map.address.1).then_some(address)
}

fn originals(
    subject: &Subject,
    map: &MemoryMap,
    (offset, address): (u64, u64),
) -> Result<Vec<Patch>, Trouble> {
    let MMapPath::Path(path) = &map.pathname else { return Ok(Vec::new()) };
    // As the process itself sees its files: it may be in a container.
    let inside = path.strip_prefix("/").unwrap_or(path);
    let path = Path::new("/proc").join(subject.id.pid.0.to_string()).join("root").join(inside);
    let file = File::open(&path).map_err(|error| Trouble::of("opening the file", &error))?;
    let is_it = file.metadata().is_ok_and(|it| it.ino() == map.inode);
    if !is_it {
        let why =
            format!("{} was replaced, so what it had at a probe is not known", path.display());
        return Err(Trouble::Unsupported(why));
    }
    let mut bytes = [0; 5];
    let read = file.read_at(&mut bytes, offset);
    let read = read.map_err(|error| Trouble::of("reading the file", &error))?;
    let patch =
        |(place, original): (u64, &u8)| Patch { address: address + place, original: *original };
    Ok((0..).zip(&bytes[..read]).map(patch).collect())
}
