//! The content of an immutable kernel file: mapped if the kernel allows it, otherwise read.
//!
//! The kernel's BTF is 5 MB, and each read(2) returns 4 KiB; since 6.16 it can be mapped, which
//! takes a twentieth of the time and no anonymous memory.

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io::{self, Read as _};
use std::{fs::File, ops::Deref, path::Path, ptr::NonNull};

/// The bytes of a file, mapped or read.
#[derive(Debug)]
pub struct MmapFile(Bytes);

#[derive(Debug)]
enum Bytes {
    Mapped(NonNull<u8>, usize),
    Read(Vec<u8>),
}

impl MmapFile {
    /// Opens a whole file. Only for files that no process can modify or truncate.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let length = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        if let Some(first) = mapped(&file, length) {
            return Ok(Self(Bytes::Mapped(first, length)));
        }
        let mut bytes = Vec::with_capacity(length);
        let _length = file.read_to_end(&mut bytes)?;
        Ok(Self(Bytes::Read(bytes)))
    }
}

fn mapped(file: &File, length: usize) -> Option<NonNull<u8>> {
    let (no_hint, private) = (std::ptr::null_mut(), MapFlags::PRIVATE);
    // SAFETY: without an address hint the kernel picks a free range.
    let first = unsafe { mmap(no_hint, length, ProtFlags::READ, private, file, 0) }.ok()?;
    NonNull::new(first.cast())
}

impl Deref for MmapFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            // SAFETY: `length` bytes stay mapped as long as `self` exists, and are never written.
            Bytes::Mapped(first, length) => unsafe {
                std::slice::from_raw_parts(first.as_ptr(), *length)
            },
            Bytes::Read(bytes) => bytes,
        }
    }
}

impl Drop for MmapFile {
    fn drop(&mut self) {
        if let Bytes::Mapped(first, length) = self.0 {
            // SAFETY: nothing borrows the mapping, and nothing else knows its address.
            let _ = unsafe { munmap(first.as_ptr().cast(), length) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_length_is_read() {
        let file = MmapFile::open(Path::new("/proc/self/comm")).unwrap();
        assert!(matches!(file.0, Bytes::Read(_)));
        assert_eq!(file.last(), Some(&b'\n'));
    }

    #[test]
    fn a_file_with_a_length_is_mapped() {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        let file = MmapFile::open(path).unwrap();
        assert!(matches!(file.0, Bytes::Mapped(..)));
        assert_eq!(*file, *std::fs::read(path).unwrap());
    }
}
