//! A BTF blob in place (Documentation/bpf/btf.rst): the positions and the names of its types.

use monitor_backend::Error;
use monitor_sys::mmap_file::MmapFile;
use std::path::Path;

/// The kernel's BTF.
pub const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

// enum btf_kind of include/uapi/linux/btf.h, as far as used.
pub const STRUCT: u32 = 4;
pub const UNION: u32 = 5;
pub const FORWARD: u32 = 7;
pub const TYPEDEF: u32 = 8;
pub const FUNCTION: u32 = 12;

/// Bytes of a type, without those of its kind.
pub const TYPE_BYTES: usize = 12;

/// The types and names of a blob.
#[derive(Clone, Copy)]
pub struct BtfBlob<'d> {
    data: &'d [u8],
    header: usize,
    /// Where the types begin and end, and where the names begin.
    types: (usize, usize),
    strings: usize,
}

impl<'d> BtfBlob<'d> {
    /// A blob of version 1 in native byte order, as from [`read`].
    ///
    /// # Errors
    ///
    /// If it is none.
    pub fn new(data: &'d [u8]) -> Result<Self, Error> {
        Self::parse(data)
            .ok_or_else(|| Error::malformed(VMLINUX, "BTF of version 1 in native byte order"))
    }

    fn parse(data: &'d [u8]) -> Option<Self> {
        let size = |at| usize::try_from(word_at(data, at)?).ok();
        let header = size(4)?;
        let begin = header + size(8)?;
        let end = begin + size(12)?;
        let strings = header + size(16)?;
        (end <= data.len()).then_some(Self { data, header, types: (begin, end), strings })
    }

    /// The positions of all types, in the order of their ids, from 1; they end where one is cut.
    pub fn types(self) -> impl Iterator<Item = usize> {
        let (begin, end) = self.types;
        let first = (begin < end).then_some(begin);
        let next = move |at: &usize| Some(at + self.type_bytes(*at)?).filter(|next| *next < end);
        std::iter::successors(first, next)
    }

    /// The header.
    pub fn header(self) -> Option<&'d [u8]> {
        self.data.get(..self.header)
    }

    /// A word of a type.
    pub fn word(self, at: usize) -> Option<u32> {
        word_at(self.data, at)
    }

    /// The kind of the type at a position, and its number of members.
    pub fn kind(self, at: usize) -> Option<(u32, usize)> {
        let info = self.word(at + 4)?;
        Some(((info >> 24) & 0x1f, usize::try_from(info & 0xffff).ok()?))
    }

    /// Size of a type in bytes: three words plus the size of its kind.
    fn type_bytes(self, at: usize) -> Option<usize> {
        let (kind, n) = self.kind(at)?;
        Some(
            TYPE_BYTES
                + match kind {
                    1 | 14 | 17 => 4,
                    3 => 12,
                    STRUCT | UNION | 15 | 19 => 12 * n,
                    6 | 13 => 8 * n,
                    _ => 0,
                },
        )
    }

    /// The name at an offset among the names.
    pub fn name(self, offset: u32) -> Option<&'d str> {
        let from = self.strings + usize::try_from(offset).ok()?;
        let rest = self.data.get(from..)?;
        std::str::from_utf8(&rest[..rest.iter().position(|&byte| byte == 0)?]).ok()
    }
}

fn word_at(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(data.get(at..at + 4)?.try_into().ok()?))
}

/// Maps the running kernel's BTF.
///
/// # Errors
///
/// If it cannot be opened or mapped.
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
    fn a_cut_blob_is_refused() {
        assert!(BtfBlob::new(&[0x9f, 0xeb, 1, 0, 24]).is_err());
    }

    #[test]
    fn a_kernel_without_btf_is_reported() {
        let error = unreadable(std::io::ErrorKind::NotFound.into()).to_string();
        assert!(error.contains("no BTF") && error.contains("CONFIG_DEBUG_INFO_BTF"), "{error}");
    }
}
