//! The memory of a process, to read only.
//!
//! In: a process and an address. Out: what is there. Held open, it is the memory of the program
//! that ran when it was opened: after another one was executed there is nothing in it any more.

use super::error::Error;
use monitor_model::id::Pid;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// The memory of one process.
#[derive(Debug)]
pub struct Memory {
    file: File,
    path: PathBuf,
    pid: Pid,
}

impl Memory {
    /// Opens it. It takes the rights that ptrace takes.
    pub fn open(proc: &Path, pid: Pid) -> Result<Self, Error> {
        let path = proc.join(pid.0.to_string()).join("mem");
        match File::open(&path) {
            Ok(file) => Ok(Self { file, path, pid }),
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => {
                Err(Error::Gone { pid: pid.0 })
            }
            Err(source) => Err(Error::File { call: "open", path, source }),
        }
    }

    /// So many bytes.
    pub fn bytes(&self, address: u64, length: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        match self.file.read_exact_at(&mut bytes, address) {
            Ok(()) => Ok(bytes),
            // Nothing is mapped any more: it has ended.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(Error::Gone { pid: self.pid.0 })
            }
            Err(source) => Err(Error::File { call: "read", path: self.path.clone(), source }),
        }
    }

    /// Eight bytes: an address or a large number.
    pub fn word(&self, address: u64) -> Result<u64, Error> {
        self.array(address).map(u64::from_le_bytes)
    }

    /// Four bytes: an `int`.
    pub fn int(&self, address: u64) -> Result<i32, Error> {
        self.array(address).map(i32::from_le_bytes)
    }

    fn array<const N: usize>(&self, address: u64) -> Result<[u8; N], Error> {
        let bytes = self.bytes(address, N as u64)?;
        Ok(bytes.try_into().unwrap_or([0; N]))
    }
}
