//! Offsets of structure members in the running kernel, from its BTF.
//!
//! In: a blob of BTF. Out: offsets of members by path.
//! aya's member tables are private and a general BTF crate copies every name; this reads the six
//! kinds of type that a path can cross, in place, and is dropped after loading.

use crate::btf_blob::{BtfBlob, STRUCT, TYPE_BYTES, UNION};
use monitor_ebpf::abi::offset::{ABSENT, MemberPath};
use std::collections::HashMap;

/// typedef, volatile, const, restrict, type tag: aliases of the type they refer to.
const ALIASES: [u32; 5] = [8, 9, 10, 11, 18];

/// The types of a kernel.
pub struct BtfTypes<'d> {
    blob: BtfBlob<'d>,
    /// Position of each type; type 0 is void.
    types: Vec<usize>,
    structs: HashMap<&'d str, usize>,
}

impl<'d> BtfTypes<'d> {
    /// Indexes the types of a blob.
    pub fn new(blob: BtfBlob<'d>) -> Self {
        let mut layout = Self { blob, types: vec![0], structs: HashMap::new() };
        for at in blob.types() {
            if let Some(name) = layout.struct_name(at).filter(|name| !name.is_empty()) {
                let _ = layout.structs.entry(name).or_insert(layout.types.len());
            }
            layout.types.push(at);
        }
        layout
    }

    fn struct_name(&self, at: usize) -> Option<&'d str> {
        let (kind, members) = self.blob.kind(at)?;
        if kind == STRUCT && members > 0 { self.blob.name(self.blob.word(at)?) } else { None }
    }

    /// Offset of the first path that this kernel has, else [`ABSENT`].
    pub fn resolve(&self, member: &MemberPath) -> u32 {
        member.paths.iter().find_map(|path| self.lookup(path)).unwrap_or(ABSENT)
    }

    fn lookup(&self, path: &str) -> Option<u32> {
        if let Some(name) = path.strip_prefix("sizeof ") {
            let at = self.types[*self.structs.get(name)?];
            return self.blob.word(at + 8);
        }
        let mut parts = path.split('.');
        let mut id = *self.structs.get(parts.next()?)?;
        let mut bits = 0;
        for part in parts {
            let (offset, next) = self.member(id, part)?;
            bits += offset;
            id = next;
        }
        Some(bits / 8)
    }

    /// Bit offset and type of a member, also inside unnamed structures and unions.
    fn member(&self, id: usize, wanted: &str) -> Option<(u32, usize)> {
        let at = *self.types.get(self.resolve_alias(id)?)?;
        let (kind, members) = self.blob.kind(at)?;
        if kind != STRUCT && kind != UNION {
            return None;
        }
        // With the flag set, the upper byte of an offset is the width of a bit field.
        let mask = if self.blob.word(at + 4)? >> 31 == 1 { 0xff_ffff } else { u32::MAX };
        (0..members).find_map(|index| {
            let entry = at + TYPE_BYTES + 12 * index;
            let name = self.blob.name(self.blob.word(entry)?)?;
            let of = usize::try_from(self.blob.word(entry + 4)?).ok()?;
            let bits = self.blob.word(entry + 8)? & mask;
            if name == wanted {
                return Some((bits, of));
            }
            let (inner, of) = name.is_empty().then(|| self.member(of, wanted))??;
            Some((bits + inner, of))
        })
    }

    /// The type behind aliases.
    fn resolve_alias(&self, mut id: usize) -> Option<usize> {
        loop {
            let at = *self.types.get(id)?;
            if id == 0 || !ALIASES.contains(&self.blob.kind(at)?.0) {
                return Some(id);
            }
            id = usize::try_from(self.blob.word(at + 8)?).ok()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf_blob::read;

    #[test]
    fn members_of_the_running_kernel_are_found() {
        let Ok(data) = read() else { return };
        let Ok(blob) = BtfBlob::new(&data) else { return };
        let layout = BtfTypes::new(blob);
        let at = |paths| layout.resolve(&MemberPath { paths });
        assert_eq!(at(&["list_head.prev"]), 8);
        assert_eq!(at(&["no_such_struct.x", "list_head.prev"]), 8);
        assert_eq!(at(&["list_head.sideways"]), ABSENT);
        assert_eq!(at(&["sizeof list_head"]), 16);
        assert!(at(&["task_struct.se.sum_exec_runtime"]) > at(&["task_struct.se"]));
    }
}
