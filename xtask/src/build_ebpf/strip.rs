//! Takes DWARF out of a BPF object, and leaves BTF.
//!
//! In: the object that `bpf-linker` wrote. Out: the same programs, maps, `.BTF` and `.BTF.ext`.
//! The kernel and aya read no DWARF, and it is four fifths of the object.
//! Not by `llvm-strip`: a nightly has none, and each version writes other bytes.

use object::build::elf::{Builder, SectionData};
use object::elf::SHT_STRTAB;

/// The sections that only a debugger of user space reads.
const DWARF: &[u8] = b".debug_";

/// The object without DWARF.
pub fn without_dwarf(object: &[u8]) -> Result<Vec<u8>, String> {
    let malformed = |error| format!("the linker wrote an object that cannot be read: {error}");
    let mut builder = Builder::read(object).map_err(malformed)?;
    for section in &mut builder.sections {
        let name = section.name.strip_prefix(b".rel").unwrap_or(&section.name);
        section.delete = name.starts_with(DWARF);
    }
    builder.delete_orphans();
    // LLVM keeps the names of sections and of symbols in one table; this writer wants two.
    let names = builder.sections.add();
    names.name = b".shstrtab".as_slice().into();
    names.sh_type = SHT_STRTAB;
    names.sh_addralign = 1;
    names.data = SectionData::SectionString;
    let mut stripped = Vec::new();
    builder.write(&mut stripped).map_err(malformed)?;
    Ok(stripped)
}

#[cfg(test)]
mod tests {
    use super::super::manifest;
    use super::*;
    use crate::workspace;

    #[test]
    fn every_committed_object_has_btf_and_no_dwarf() {
        let root = workspace::root();
        for name in manifest::programs(&root).expect("the programs can be listed") {
            let file = root.join(manifest::OBJECTS).join(&name).with_extension("o");
            let bytes = std::fs::read(file).expect("each program has an object");
            let builder = Builder::read(bytes.as_slice()).expect("the object can be read");
            let names: Vec<&[u8]> = builder.sections.iter().map(|it| it.name.as_slice()).collect();
            assert!(names.contains(&b".BTF".as_slice()), "{name} has types");
            assert!(names.contains(&b".BTF.ext".as_slice()), "{name} has lines");
            assert!(!names.iter().any(|it| it.starts_with(DWARF)), "{name} has no DWARF");
        }
    }
}
