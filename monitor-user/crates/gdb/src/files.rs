//! The files that gdb has open through the connection.
//!
//! In: paths as the program sees them, if gdb says so. Out: paths and files of this process.

use crate::session::CallError;
use gdbstub::target::ext::host_io::{HostIoErrno, HostIoError};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Most files that gdb has open at once.
pub const MAX_FILES: usize = 64;

/// The files that gdb has open.
#[derive(Debug, Default)]
pub struct Files {
    /// By descriptor.
    pub open: BTreeMap<u32, File>,
    /// The process whose root paths start at; absent, our own.
    pub root: Option<u32>,
}

impl Files {
    /// A path of gdb's as this process sees it.
    pub fn path(&self, name: &[u8]) -> PathBuf {
        let path = Path::new(OsStr::from_bytes(name));
        match self.root {
            Some(pid) => {
                let below = path.strip_prefix("/").unwrap_or(path);
                Path::new("/proc").join(pid.to_string()).join("root").join(below)
            }
            None => path.to_owned(),
        }
    }

    /// The file of a descriptor.
    ///
    /// # Errors
    /// `EBADF`, if gdb has not opened it.
    pub fn file(&self, descriptor: u32) -> Result<&File, HostIoError<CallError>> {
        self.open.get(&descriptor).ok_or(HostIoError::Errno(HostIoErrno::EBADF))
    }
}
