//! Read access to the memory of a process.
//!
//! In: a process and an address. Out: bytes. The open file refers to the address space at the time
//! of opening: after an exec it is empty, which is reported as `Gone`.

use super::SymbolError;
use monitor_model::Pid;
use std::path::{Path, PathBuf};
use std::{fs::File, os::unix::fs::FileExt as _};

/// The memory of one process.
#[derive(Debug)]
pub struct ProcessMemory {
    file: File,
    path: PathBuf,
    pid: Pid,
}

impl ProcessMemory {
    /// Opens the memory; needs the same permissions as ptrace.
    pub fn open(proc: &Path, pid: Pid) -> Result<Self, SymbolError> {
        let path = proc.join(pid.0.to_string()).join("mem");
        match File::open(&path) {
            Ok(file) => Ok(Self { file, path, pid }),
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => {
                Err(SymbolError::Gone { pid: pid.0 })
            }
            Err(source) => Err(SymbolError::File { call: "open", path, source }),
        }
    }

    /// Reads a number of bytes.
    pub fn bytes(&self, address: u64, length: u64) -> Result<Vec<u8>, SymbolError> {
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        match self.file.read_exact_at(&mut bytes, address) {
            Ok(()) => Ok(bytes),
            // The address space is gone: the process has ended.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(SymbolError::Gone { pid: self.pid.0 })
            }
            Err(source) => Err(SymbolError::File { call: "read", path: self.path.clone(), source }),
        }
    }

    /// Reads a 64-bit word.
    pub fn word(&self, address: u64) -> Result<u64, SymbolError> {
        self.array(address).map(u64::from_le_bytes)
    }

    /// Reads a C `int`.
    pub fn int(&self, address: u64) -> Result<i32, SymbolError> {
        self.array(address).map(i32::from_le_bytes)
    }

    fn array<const N: usize>(&self, address: u64) -> Result<[u8; N], SymbolError> {
        let bytes = self.bytes(address, N as u64)?;
        Ok(bytes.try_into().unwrap_or([0; N]))
    }
}
