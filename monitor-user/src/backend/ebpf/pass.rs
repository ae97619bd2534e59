//! A pass of a task iterator: every task once, as a stream of records.
//!
//! In: a loaded `iter/task` program. Out: the bytes that it wrote, in a buffer of words so that
//! every record is aligned. aya's iterator links give one pass each, so each pass makes a new one.

use super::kernel::Kernel;
use super::object::{Object, refused_program};
use crate::backend::Error;
use aya::programs::Iter;
use std::fs::File;
use std::io::Read;
use zerocopy::IntoBytes;

/// One `read(2)` returns at most this much of an iterator, and whole records if there is room for
/// it (`bpf_seq_read` of kernel/bpf/bpf_iter.c).
const CHUNK: usize = 32 << 10;

/// Loads iterators; nothing runs yet.
pub fn load(object: &mut Object, programs: &[&str], kernel: &Kernel) -> Result<(), Error> {
    for program in programs {
        let iter: &mut Iter = object.program(program)?;
        iter.load("task", &kernel.btf).map_err(|error| refused_program("iter/task", error))?;
    }
    object.hooked("iter/task");
    Ok(())
}

/// Runs an iterator over every task; returns how many bytes of the buffer it filled.
pub fn run(object: &mut Object, program: &str, buffer: &mut Vec<u64>) -> Result<usize, Error> {
    let mut file = open(object, program)?;
    let mut filled = 0;
    loop {
        if buffer.as_bytes().len() < filled + CHUNK {
            buffer.resize((buffer.len() * 2).max(CHUNK / 8), 0);
        }
        match file.read(&mut buffer.as_mut_bytes()[filled..]) {
            Ok(0) => return Ok(filled),
            Ok(bytes) => filled += bytes,
            // The kernel gives up after a million tasks without a record, and after a signal.
            Err(error) if again(&error) => {}
            Err(source) => {
                return Err(Error::Kernel { call: "read", what: "iter/task".into(), source });
            }
        }
    }
}

/// A link gives one pass, and two system calls make a new one.
fn open(object: &mut Object, program: &str) -> Result<File, Error> {
    let iter: &mut Iter = object.program(program)?;
    let failed = |error| refused_program("iter/task", error);
    let link = iter.attach().and_then(|id| iter.take_link(id)).map_err(failed)?;
    link.into_file().map_err(|error| Error::Kernel {
        call: "BPF_ITER_CREATE",
        what: "iter/task".into(),
        source: std::io::Error::other(error),
    })
}

fn again(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::Interrupted | std::io::ErrorKind::WouldBlock)
}
