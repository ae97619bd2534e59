//! Replaces the content of a file as a whole, or keeps the old one.
//!
//! In: a path and the bytes. Out: the file, replaced through a new file in the same folder that is
//! renamed. Devices, pipes, files with several links, and files in folders where no file can be
//! created, are written in place.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

/// Replaces the content of the file.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A symbolic link stays one: its target is replaced. A new file has no target yet.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let before = std::fs::metadata(&path).ok();
    let in_place = before.as_ref().is_some_and(|it| !it.is_file() || it.nlink() > 1);
    let new_file = if in_place { None } else { NewFile::create_beside(&path).ok() };
    match new_file {
        Some((new_file, file)) => new_file.rename_to(file, bytes, before.as_ref(), &path),
        None => File::create(&path)?.write_all(bytes),
    }
}

/// Checks whether the file can be replaced, without touching its content.
pub fn possible(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            NewFile::create_beside(path).map(drop)
        }
        opened => opened.map(drop),
    }
}

/// A new file in the folder of the target; removed on drop unless it was renamed.
struct NewFile(PathBuf);

impl NewFile {
    fn create_beside(path: &Path) -> io::Result<(Self, File)> {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}.new", std::process::id()));
        let file = File::create_new(&name)?;
        Ok((Self(name.into()), file))
    }

    fn rename_to(
        self,
        mut file: File,
        bytes: &[u8],
        before: Option<&Metadata>,
        path: &Path,
    ) -> io::Result<()> {
        if let Some(before) = before {
            // Only root may change the owner; the permissions follow.
            let _ = fchown(&file, Some(before.uid()), Some(before.gid()));
            file.set_permissions(before.permissions())?;
        }
        file.write_all(bytes)?;
        std::fs::rename(&self.0, path)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // Fails if it was renamed.
        let _ = std::fs::remove_file(&self.0);
    }
}
