//! Loader information: addresses of code, data and bss of each object file of a process.
//!
//! In: the loaded ELF images. Out: `LoadedImage`s in order of address, with their build ids.

use super::loaded_elf::{LoadedElf, Segment, loaded_elfs};
use super::{ControlError, LoadedImage, memory, process_ref::ProcessRef};
use object::{Endianness, elf, read::elf::NoteIterator};

/// All object files of a process, ordered by address.
pub fn images(process: &ProcessRef) -> Result<Vec<LoadedImage>, ControlError> {
    Ok(loaded_elfs(process)?.into_iter().map(|it| image(process, it)).collect())
}

fn image(process: &ProcessRef, loaded: LoadedElf) -> LoadedImage {
    let build_id = build_id(process, &loaded).unwrap_or_default();
    let parts = || loaded.segments.iter().filter(|it| it.kind == elf::PT_LOAD);
    let code = span(parts().filter(|it| it.flags & elf::PF_X != 0).map(whole));
    let data = span(parts().filter(|it| it.flags & elf::PF_W != 0).map(in_file));
    // Only the last segment of an image is larger in memory than in the file.
    let bss = parts().rfind(|it| it.in_memory > it.in_file);
    let bss = bss.map_or((0, 0), |it| (it.address + it.in_file, it.in_memory - it.in_file));
    LoadedImage { path: loaded.path, code, data, bss, build_id }
}

fn whole(it: &Segment) -> (u64, u64) {
    (it.address, it.address + it.in_memory)
}

fn in_file(it: &Segment) -> (u64, u64) {
    (it.address, it.address + it.in_file)
}

/// The span of all parts, as address and length.
fn span(parts: impl Iterator<Item = (u64, u64)>) -> (u64, u64) {
    let all = parts.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    all.map_or((0, 0), |(from, to)| (from, to - from))
}

fn build_id(process: &ProcessRef, loaded: &LoadedElf) -> Option<Vec<u8>> {
    let notes = loaded.segments.iter().filter(|it| it.kind == elf::PT_NOTE);
    notes.into_iter().find_map(|segment| {
        let bytes = memory::read(process, segment.address, segment.in_file).ok()?;
        let mut notes =
            NoteIterator::<elf::FileHeader64<Endianness>>::new(Endianness::Little, 4, &bytes)
                .ok()?;
        while let Ok(Some(note)) = notes.next() {
            if note.name() == elf::ELF_NOTE_GNU
                && note.n_type(Endianness::Little) == elf::NT_GNU_BUILD_ID
            {
                return Some(note.desc().to_vec());
            }
        }
        None
    })
}
