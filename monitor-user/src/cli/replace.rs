//! A file that gets new content as a whole, or keeps what it had.
//!
//! In: a path and the bytes. Out: the file with them, by way of a new file beside it that takes
//! its name. What has no content to keep (a device, a pipe), has further names, or stands where no
//! file can be made beside it, is written in place.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

/// Gives the file new content.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // The name of a link shall stay one; a new file has no other name yet.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let before = std::fs::metadata(&path).ok();
    let in_place = before.as_ref().is_some_and(|it| !it.is_file() || it.nlink() > 1);
    let beside = if in_place { None } else { Beside::of(&path).ok() };
    match beside {
        Some((beside, file)) => beside.take_over(file, bytes, before.as_ref(), &path),
        None => File::create(&path)?.write_all(bytes),
    }
}

/// Whether the file can be given content; what it has is not touched.
pub fn possible(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Beside::of(path).map(drop),
        opened => opened.map(drop),
    }
}

/// A file beside the one that is meant. It goes, unless it takes over.
struct Beside(PathBuf);

impl Beside {
    fn of(path: &Path) -> io::Result<(Self, File)> {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}.new", std::process::id()));
        let file = File::create_new(&name)?;
        Ok((Self(name.into()), file))
    }

    fn take_over(
        self,
        mut file: File,
        bytes: &[u8],
        before: Option<&Metadata>,
        path: &Path,
    ) -> io::Result<()> {
        if let Some(before) = before {
            // Only root may give a file away; then the rights follow.
            let _ = fchown(&file, Some(before.uid()), Some(before.gid()));
            file.set_permissions(before.permissions())?;
        }
        file.write_all(bytes)?;
        std::fs::rename(&self.0, path)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Gone already, if it took over.
        let _ = std::fs::remove_file(&self.0);
    }
}
