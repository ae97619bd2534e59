//! Reader of BPF iterator programs: one iteration from its first record to its last.
//!
//! In: a loaded `iter/…` program. Out: the bytes that it wrote, aligned for any record. Does not
//! interpret records.

use crate::kernel::Kernel;
use crate::object::{Object, refused_program};
use aya::maps::Map;
use aya::programs::{Iter, Program, ProgramFd};
use monitor_backend::Error;
use monitor_model::Pid;
use monitor_sys::bpf;
use std::io::{ErrorKind, Read};
use std::{fs::File, os::fd::AsFd};
use zerocopy::IntoBytes;

/// One `read(2)` returns at most this much of an iterator (`seq_file` of `bpf_iter.c`).
const CHUNK: usize = 32 << 10;

/// The buffer for iterations; it keeps the size of the largest.
#[derive(Default)]
pub struct IterBuffer {
    /// Words, so that every record is aligned.
    words: Vec<u64>,
}

impl IterBuffer {
    /// A buffer that grows as needed.
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// Runs an iterator to its end.
    pub fn read(&mut self, object: &mut Object, iter: &IterProgram) -> Result<&[u8], Error> {
        let file = open(object, iter)?;
        let filled = self.fill(file, 0).map_err(|source| read_error(iter, source))?;
        Ok(&self.words.as_bytes()[..filled])
    }

    /// Runs an iterator over single processes, one iteration each.
    pub fn read_each(
        &mut self,
        object: &Object,
        iter: &IterProgram,
        processes: &[Pid],
    ) -> Result<&[u8], Error> {
        let program = iter.fd(object)?;
        let mut filled = 0;
        for pid in processes {
            let file = bpf::iterate_process(program.as_fd(), *pid)
                .map_err(|source| Error::kernel("BPF_LINK_CREATE", iter.hook(), source))?;
            filled = self.fill(file, filled).map_err(|source| read_error(iter, source))?;
        }
        Ok(&self.words.as_bytes()[..filled])
    }

    /// Appends the file to the buffer; returns the filled length.
    fn fill(&mut self, mut file: File, mut filled: usize) -> std::io::Result<usize> {
        loop {
            if self.words.as_bytes().len() < filled + CHUNK {
                self.words.resize((self.words.len() * 2).max(CHUNK / 8), 0);
            }
            match file.read(&mut self.words.as_mut_bytes()[filled..]) {
                Ok(0) => return Ok(filled),
                Ok(bytes) => filled += bytes,
                // The kernel gives up after a million steps without a record, and after a signal.
                Err(error) if is_retryable(error.kind()) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn read_error(iter: &IterProgram, source: std::io::Error) -> Error {
    Error::kernel("read", iter.hook(), source)
}

/// An iterator program: its name and target.
pub struct IterProgram {
    /// Name of the program in the object.
    pub name: &'static str,
    /// Target: `task`, `task_file` and so on.
    pub walks: &'static str,
    /// The map it iterates over, if any.
    pub map: Option<&'static str>,
}

impl IterProgram {
    /// Loads it into the kernel.
    pub fn load(&self, object: &mut Object, btf: &aya::Btf) -> Result<(), Error> {
        let iter: &mut Iter = object.program(self.name)?;
        iter.load(self.walks, btf).map_err(|error| refused_program(&self.hook(), error))
    }

    /// Loads it and runs it once, for its side effects; not needed without per-CPU parts.
    pub fn run(&self, object: &mut Object, kernel: &Kernel) -> Result<(), Error> {
        if kernel.facts.rss_cpus > 0 {
            self.load(object, &kernel.btf)?;
            let _nothing = IterBuffer::new().read(object, self)?;
        }
        Ok(())
    }

    fn fd<'o>(&self, object: &'o Object) -> Result<&'o ProgramFd, Error> {
        let Some(Program::Iter(loaded)) = object.ebpf.program(self.name) else {
            return Err(object.no_map(self.name));
        };
        loaded.fd().map_err(|error| refused_program(&self.hook(), error))
    }

    /// Its hook, as `doctor` prints it.
    pub fn hook(&self) -> String {
        format!("iter/{}", self.walks)
    }
}

/// Opens a new iteration: a link allows one, and a new one takes two system calls.
fn open(object: &mut Object, program: &IterProgram) -> Result<File, Error> {
    if let Some(map) = program.map {
        return open_map(object, program, map);
    }
    let iter: &mut Iter = object.program(program.name)?;
    let failed = |error| refused_program(&program.hook(), error);
    let link = iter.attach().and_then(|id| iter.take_link(id)).map_err(failed)?;
    let file = link.into_file().map_err(std::io::Error::other);
    file.map_err(|source| Error::kernel("BPF_ITER_CREATE", program.hook(), source))
}

fn open_map(object: &Object, program: &IterProgram, map: &str) -> Result<File, Error> {
    let Some(Map::SkStorage(data)) = object.ebpf.map(map) else {
        return Err(object.no_map(map));
    };
    let loaded = program.fd(object)?;
    bpf::iterate_map(loaded.as_fd(), data.fd().as_fd())
        .map_err(|source| Error::kernel("BPF_LINK_CREATE", program.hook(), source))
}

fn is_retryable(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Interrupted | ErrorKind::WouldBlock)
}
