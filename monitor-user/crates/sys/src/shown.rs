//! A file of the kernel that stays as it is: mapped where the kernel lets it be, else read.
//!
//! The kernel's types are 5 MB, and a read of them gives 4 KiB at a time; since 6.16 they can be
//! mapped, which takes a twentieth of the time, and no memory of ours.

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Deref;
use std::path::Path;
use std::ptr::NonNull;

/// What is in it.
#[derive(Debug)]
pub struct Shown(Bytes);

#[derive(Debug)]
enum Bytes {
    Mapped(NonNull<u8>, usize),
    Read(Vec<u8>),
}

impl Shown {
    /// All of a file. Only for one that nobody can write to or cut while it is there.
    pub fn of(path: &Path) -> io::Result<Self> {
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
    let (nowhere, own) = (std::ptr::null_mut(), MapFlags::PRIVATE);
    // SAFETY: without an address the kernel takes one that nothing has.
    let first = unsafe { mmap(nowhere, length, ProtFlags::READ, own, file, 0) }.ok()?;
    NonNull::new(first.cast())
}

impl Deref for Shown {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            // SAFETY: so much is mapped as long as this is there, and nobody writes to it.
            Bytes::Mapped(first, length) => unsafe {
                std::slice::from_raw_parts(first.as_ptr(), *length)
            },
            Bytes::Read(bytes) => bytes,
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Bytes::Mapped(first, length) = self.0 {
            // SAFETY: nothing borrows it any more, and nobody else knows the place.
            let _ = unsafe { munmap(first.as_ptr().cast(), length) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_length_is_read() {
        let shown = Shown::of(Path::new("/proc/self/comm")).unwrap();
        assert!(matches!(shown.0, Bytes::Read(_)));
        assert_eq!(shown.last(), Some(&b'\n'));
    }

    #[test]
    fn a_file_with_a_length_is_the_same_mapped() {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        let shown = Shown::of(path).unwrap();
        assert!(matches!(shown.0, Bytes::Mapped(..)));
        assert_eq!(*shown, *std::fs::read(path).unwrap());
    }
}
