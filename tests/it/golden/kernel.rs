//! The maps of the BPF objects: the type of each map and the sizes of its key and value.
//!
//! A record that both halves share is one of these keys or values, or a ring buffer record whose
//! size is asserted in `monitor-ebpf`. Map names are not frozen.

use super::{check, repository};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use std::collections::BTreeMap;

/// Bytes of a map definition: type, sizes, entries, flags, id, pinning.
const DEFINITION: usize = 28;

/// The number of maps of each type, key size and value size.
fn maps(bytes: &[u8]) -> BTreeMap<[u32; 3], usize> {
    let file = object::File::parse(bytes).unwrap();
    let section = file.section_by_name("maps").expect("an object has maps");
    let data = section.data().unwrap();
    let mut found = BTreeMap::new();
    for symbol in file.symbols().filter(|it| it.section_index() == Some(section.index())) {
        let at = usize::try_from(symbol.address()).unwrap();
        if symbol.size() == DEFINITION as u64 {
            let word = |n: usize| data[at + 4 * n..][..4].try_into().map(u32::from_le_bytes);
            *found.entry([0, 1, 2].map(|n| word(n).unwrap())).or_default() += 1;
        }
    }
    found
}

#[test]
fn the_maps_of_every_object_keep_their_types_and_sizes() {
    let folder = repository().join("monitor-ebpf/objects");
    let entries = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    let mut paths: Vec<_> =
        entries.filter(|it| it.extension().is_some_and(|it| it == "o")).collect();
    paths.sort();
    let mut out = String::from("object  type key value  (bytes)\n");
    for path in paths {
        let name = path.file_stem().unwrap().to_str().unwrap();
        for ([kind, key, value], count) in maps(&std::fs::read(&path).unwrap()) {
            out += &format!("{name}  {kind} {key} {value}  x{count}\n");
        }
    }
    check("kernel/maps.txt", &out);
}
