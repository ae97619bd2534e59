//! Loader information: where each object file of a process has its code, data and bss.

use super::act::Image;
use super::image::{Loaded, Segment, loaded};
use super::memory;
use super::subject::Subject;
use super::trouble::Trouble;
use object::read::elf::NoteIterator;
use object::{Endianness, elf};

/// All of them, in the order of addresses.
pub fn images(subject: &Subject) -> Result<Vec<Image>, Trouble> {
    Ok(loaded(subject)?.into_iter().map(|it| told(subject, it)).collect())
}

fn told(subject: &Subject, loaded: Loaded) -> Image {
    let build_id = build_id(subject, &loaded).unwrap_or_default();
    let parts = || loaded.segments.iter().filter(|it| it.kind == elf::PT_LOAD);
    let code = span(parts().filter(|it| it.flags & elf::PF_X != 0).map(whole));
    let data = span(parts().filter(|it| it.flags & elf::PF_W != 0).map(in_file));
    // Only the last part of an image has more in memory than in its file.
    let bss = parts().rfind(|it| it.in_memory > it.in_file);
    let bss = bss.map_or((0, 0), |it| (it.address + it.in_file, it.in_memory - it.in_file));
    Image { path: loaded.path, code, data, bss, build_id }
}

fn whole(it: &Segment) -> (u64, u64) {
    (it.address, it.address + it.in_memory)
}

fn in_file(it: &Segment) -> (u64, u64) {
    (it.address, it.address + it.in_file)
}

/// From the first to the last, as address and length.
fn span(parts: impl Iterator<Item = (u64, u64)>) -> (u64, u64) {
    let all = parts.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    all.map_or((0, 0), |(from, to)| (from, to - from))
}

fn build_id(subject: &Subject, loaded: &Loaded) -> Option<Vec<u8>> {
    let notes = loaded.segments.iter().filter(|it| it.kind == elf::PT_NOTE);
    notes.into_iter().find_map(|segment| {
        let bytes = memory::read(subject, segment.address, segment.in_file).ok()?;
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
