//! Offsets of structure members in the running kernel, from its BTF.
//!
//! In: `/sys/kernel/btf/vmlinux` (Documentation/bpf/btf.rst). Out: offsets of members by path.
//! aya's member tables are private and a general BTF crate copies every name; this reads the six
//! kinds of type that a path can cross, in place, and is dropped after loading.

use monitor_backend::Error;
use monitor_ebpf::abi::offset::{ABSENT, MemberPath};
use monitor_sys::mmap_file::MmapFile;
use std::{collections::HashMap, path::Path};

/// The kernel's BTF.
pub const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

// enum btf_kind of include/uapi/linux/btf.h, as far as used.
const STRUCT: u32 = 4;
const UNION: u32 = 5;
/// typedef, volatile, const, restrict, type tag: aliases of the type they refer to.
const ALIASES: [u32; 5] = [8, 9, 10, 11, 18];

/// The types of a kernel.
pub struct BtfTypes<'d> {
    data: &'d [u8],
    /// Offset of each type; type 0 is void.
    types: Vec<usize>,
    strings: usize,
    structs: HashMap<String, usize>,
}

impl<'d> BtfTypes<'d> {
    /// The running kernel's types, from [`read`].
    pub fn of_running_kernel(data: &'d [u8]) -> Result<Self, Error> {
        Self::parse(data)
            .ok_or_else(|| Error::malformed(VMLINUX, "BTF of version 1 in native byte order"))
    }

    /// Indexes the types of a BTF blob.
    pub fn parse(data: &'d [u8]) -> Option<Self> {
        let word = |at| word_at(data, at);
        let header = usize::try_from(word(4)?).ok()?;
        let begin = header + usize::try_from(word(8)?).ok()?;
        let end = begin + usize::try_from(word(12)?).ok()?;
        let strings = header + usize::try_from(word(16)?).ok()?;
        let mut layout = Self { data, types: vec![0], strings, structs: HashMap::new() };
        let mut at = begin;
        while at < end {
            layout.index_struct(at)?;
            layout.types.push(at);
            at += layout.type_bytes(at)?;
        }
        Some(layout)
    }

    fn index_struct(&mut self, at: usize) -> Option<()> {
        let (kind, members) = self.kind(at)?;
        if kind == STRUCT && members > 0 {
            let name = self.name(word_at(self.data, at)?)?;
            if !name.is_empty() {
                let name = name.to_owned();
                self.structs.entry(name).or_insert(self.types.len());
            }
        }
        Some(())
    }

    /// Offset of the first path that this kernel has, else [`ABSENT`].
    pub fn resolve(&self, member: &MemberPath) -> u32 {
        member.paths.iter().find_map(|path| self.lookup(path)).unwrap_or(ABSENT)
    }

    fn lookup(&self, path: &str) -> Option<u32> {
        if let Some(name) = path.strip_prefix("sizeof ") {
            let at = self.types[*self.structs.get(name)?];
            return word_at(self.data, at + 8);
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
        let (kind, members) = self.kind(at)?;
        if kind != STRUCT && kind != UNION {
            return None;
        }
        // With the flag set, the upper byte of an offset is the width of a bit field.
        let mask = if word_at(self.data, at + 4)? >> 31 == 1 { 0xff_ffff } else { u32::MAX };
        (0..members).find_map(|index| {
            let entry = at + 12 + 12 * index;
            let name = self.name(word_at(self.data, entry)?)?;
            let of = usize::try_from(word_at(self.data, entry + 4)?).ok()?;
            let bits = word_at(self.data, entry + 8)? & mask;
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
            if id == 0 || !ALIASES.contains(&self.kind(at)?.0) {
                return Some(id);
            }
            id = usize::try_from(word_at(self.data, at + 8)?).ok()?;
        }
    }

    fn kind(&self, at: usize) -> Option<(u32, usize)> {
        let info = word_at(self.data, at + 4)?;
        Some(((info >> 24) & 0x1f, usize::try_from(info & 0xffff).ok()?))
    }

    /// Size of a type in bytes: three words plus the size of its kind.
    fn type_bytes(&self, at: usize) -> Option<usize> {
        let (kind, n) = self.kind(at)?;
        Some(
            12 + match kind {
                1 | 14 | 17 => 4,
                3 => 12,
                STRUCT | UNION | 15 | 19 => 12 * n,
                6 | 13 => 8 * n,
                _ => 0,
            },
        )
    }

    fn name(&self, offset: u32) -> Option<&str> {
        let from = self.strings + usize::try_from(offset).ok()?;
        let rest = self.data.get(from..)?;
        std::str::from_utf8(&rest[..rest.iter().position(|&byte| byte == 0)?]).ok()
    }
}

fn word_at(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(data.get(at..at + 4)?.try_into().ok()?))
}

/// Maps the running kernel's BTF.
pub fn read() -> Result<MmapFile, Error> {
    MmapFile::open(Path::new(VMLINUX)).map_err(unreadable)
}

fn unreadable(source: std::io::Error) -> Error {
    if source.kind() == std::io::ErrorKind::NotFound {
        return Error::unsupported(
            "eBPF",
            format!("this kernel has no BTF ({VMLINUX} is missing)"),
            "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y",
        );
    }
    Error::kernel("read", VMLINUX, source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_blob_is_refused() {
        assert!(BtfTypes::parse(&[0x9f, 0xeb, 1, 0, 24]).is_none());
    }

    #[test]
    fn a_kernel_without_btf_is_reported() {
        let error = unreadable(std::io::ErrorKind::NotFound.into()).to_string();
        assert!(error.contains("no BTF") && error.contains("CONFIG_DEBUG_INFO_BTF"), "{error}");
    }

    #[test]
    fn members_of_the_running_kernel_are_found() {
        let Ok(data) = read() else { return };
        let Ok(layout) = BtfTypes::of_running_kernel(&data) else { return };
        let at = |paths| layout.resolve(&MemberPath { paths });
        assert_eq!(at(&["list_head.prev"]), 8);
        assert_eq!(at(&["no_such_struct.x", "list_head.prev"]), 8);
        assert_eq!(at(&["list_head.sideways"]), ABSENT);
        assert_eq!(at(&["sizeof list_head"]), 16);
        assert!(at(&["task_struct.se.sum_exec_runtime"]) > at(&["task_struct.se"]));
    }
}
