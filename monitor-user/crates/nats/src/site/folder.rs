//! The folder of a site: files that are written once.
//!
//! In: paths relative to the folder, and texts. Out: files with their permissions. A file that
//! exists is kept as it is; `replace` is for the one file that is made of others.

use super::error::SiteError;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Permissions of a file with a secret: only its owner.
pub const SECRET: u32 = 0o600;
/// Permissions of other files.
pub const PUBLIC: u32 = 0o644;
/// Permissions of folders, because of the secrets in them.
const FOLDER: u32 = 0o700;

/// The folder.
pub struct SiteFolder {
    root: PathBuf,
    written: Vec<PathBuf>,
}

impl SiteFolder {
    /// Opens the folder, or makes it.
    pub fn open(path: &Path) -> Result<Self, SiteError> {
        make_folder(path)?;
        let root = path.canonicalize().map_err(failed("find", path))?;
        Ok(Self { root, written: Vec::new() })
    }

    /// The whole path of a file.
    pub fn path(&self, name: &Path) -> PathBuf {
        self.root.join(name)
    }

    /// The files that were written.
    pub fn into_written(self) -> Vec<PathBuf> {
        self.written
    }

    /// The text of a file; `None` if it does not exist.
    pub fn read(&self, name: &Path) -> Result<Option<String>, SiteError> {
        let path = self.path(name);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(SiteError::File { act: "read", path, source }),
        }
    }

    /// Whether a file exists.
    pub fn has(&self, name: &Path) -> bool {
        self.path(name).exists()
    }

    /// The names in a folder of it; none if it does not exist.
    pub fn names(&self, name: &Path) -> Result<Vec<String>, SiteError> {
        let path = self.path(name);
        let entries = match std::fs::read_dir(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed("list", &path))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed("list", &path))?.file_name();
            names.extend(name.into_string());
        }
        names.sort();
        Ok(names)
    }

    /// Writes a file, unless it exists.
    pub fn write_new(&mut self, name: &Path, mode: u32, text: &str) -> Result<(), SiteError> {
        let path = self.path(name);
        path.parent().map_or(Ok(()), make_folder)?;
        match create(&path, mode) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
            file => {
                let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
                // What is not whole would be kept by the next attempt.
                written.map_err(|source| {
                    let _ = std::fs::remove_file(&path);
                    SiteError::File { act: "write", path, source }
                })?;
            }
        }
        self.written.push(name.to_owned());
        Ok(())
    }

    /// Replaces a file as a whole, if its text changes.
    pub fn replace(&mut self, name: &Path, text: &str) -> Result<(), SiteError> {
        if self.read(name)?.as_deref() == Some(text) {
            return Ok(());
        }
        let path = self.path(name);
        path.parent().map_or(Ok(()), make_folder)?;
        let new = path.with_extension("new");
        // One that an earlier attempt left.
        let _ = std::fs::remove_file(&new);
        let written = create(&new, PUBLIC).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            std::fs::rename(&new, &path)
        });
        written.map_err(failed("write", &path))?;
        self.written.push(name.to_owned());
        Ok(())
    }
}

fn create(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

fn make_folder(path: &Path) -> Result<(), SiteError> {
    let made = DirBuilder::new().recursive(true).mode(FOLDER).create(path);
    made.map_err(failed("make the folder", path))
}

fn failed(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SiteError {
    let path = path.to_owned();
    move |source| SiteError::File { act, path, source }
}
