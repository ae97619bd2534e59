//! Reads and writes the memory of a process without stopping it.
//!
//! In: an address. Out: bytes. Breakpoint and probe bytes are removed by `unpatch`. A long access
//! is not atomic towards running threads; callers that need that stop them first.

use super::{ControlError, Patch, process_ref::ProcessRef};
use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;
use std::io::{IoSlice, IoSliceMut};
use std::{fs::File, os::unix::fs::FileExt as _};

/// Most bytes of one read or write.
pub const MAX_BYTES: u64 = 4 << 20;

/// Reads `bytes` bytes. `Fault` holds what was read before the first unmapped address.
pub fn read(process: &ProcessRef, address: u64, bytes: u64) -> Result<Vec<u8>, ControlError> {
    let length = length(address, bytes)?;
    let mut room = vec![0; length];
    let mut done = 0;
    while done < length {
        let at = address + done as u64;
        match read_part(process, at, &mut room[done..]) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(ControlError::Fault { .. }) => break,
            Err(other) => return Err(other),
        }
    }
    room.truncate(done);
    if done == length {
        return Ok(room);
    }
    Err(ControlError::Fault { address: address + done as u64, done: room })
}

/// Reads a 64-bit word.
pub fn word(process: &ProcessRef, address: u64) -> Result<u64, ControlError> {
    let bytes = read(process, address, 8)?;
    Ok(bytes.as_slice().try_into().map_or(0, u64::from_le_bytes))
}

/// Writes all bytes. On read-only pages the kernel gives the process its own copy.
pub fn write(process: &ProcessRef, address: u64, bytes: &[u8]) -> Result<(), ControlError> {
    let length = length(address, bytes.len() as u64)?;
    let mut done = 0;
    while done < length {
        let at = address + done as u64;
        let written = match write_part(process, at, &bytes[done..]) {
            Err(ControlError::Fault { .. }) => force(process, at, &bytes[done..]),
            other => other,
        };
        match written {
            Ok(0) | Err(ControlError::Fault { .. }) => {
                return Err(ControlError::Fault { address: at, done: bytes[..done].to_vec() });
            }
            Ok(written) => done += written,
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

/// Replaces breakpoint bytes by the original ones in what was read at `address`.
pub fn unpatch(address: u64, bytes: &mut [u8], patches: &[Patch]) {
    for patch in patches {
        let place = patch.address.checked_sub(address).and_then(|it| usize::try_from(it).ok());
        if let Some(byte) = place.and_then(|place| bytes.get_mut(place)) {
            *byte = patch.original;
        }
    }
}

fn length(address: u64, bytes: u64) -> Result<usize, ControlError> {
    if bytes > MAX_BYTES || address.checked_add(bytes).is_none() {
        return Err(ControlError::InvalidArgument(format!(
            "{bytes} bytes at {address:#x}: at most {MAX_BYTES} bytes at once"
        )));
    }
    Ok(usize::try_from(bytes).unwrap_or(0))
}

fn read_part(process: &ProcessRef, at: u64, room: &mut [u8]) -> Result<usize, ControlError> {
    let remote = [RemoteIoVec { base: usize::try_from(at).unwrap_or(0), len: room.len() }];
    let read = by_any_thread(process, |tid| {
        process_vm_readv(Pid::from_raw(tid), &mut [IoSliceMut::new(room)], &remote)
    });
    read.map_err(|errno| memory_error("reading memory", at, errno.into()))
}

fn write_part(process: &ProcessRef, at: u64, bytes: &[u8]) -> Result<usize, ControlError> {
    let remote = [RemoteIoVec { base: usize::try_from(at).unwrap_or(0), len: bytes.len() }];
    let written = by_any_thread(process, |tid| {
        process_vm_writev(Pid::from_raw(tid), &[IoSlice::new(bytes)], &remote)
    });
    written.map_err(|errno| memory_error("writing memory", at, errno.into()))
}

/// Accesses the memory by the first thread; if that has ended, by another.
fn by_any_thread(
    process: &ProcessRef,
    mut access: impl FnMut(i32) -> nix::Result<usize>,
) -> nix::Result<usize> {
    match access(process.pid()) {
        Err(Errno::ESRCH) => access(process.memory_thread()),
        other => other,
    }
}

/// Writes through `/proc/<pid>/task/<tid>/mem`, which ignores page protection (proc(5)).
fn force(process: &ProcessRef, at: u64, bytes: &[u8]) -> Result<usize, ControlError> {
    let path = format!("/proc/{}/task/{}/mem", process.pid(), process.memory_thread());
    let file = File::options().write(true).open(path);
    let file = file.map_err(|error| memory_error("opening /proc/<pid>/mem", at, error))?;
    file.write_at(bytes, at).map_err(|error| memory_error("writing memory", at, error))
}

fn memory_error(call: &str, address: u64, error: std::io::Error) -> ControlError {
    let fault = [Errno::EFAULT as i32, Errno::EIO as i32];
    match error.raw_os_error() {
        Some(number) if fault.contains(&number) => {
            ControlError::Fault { address, done: Vec::new() }
        }
        _ => ControlError::from_io(call, &error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breakpoint_bytes_are_replaced_by_the_original_ones() {
        let patch = |address, original| Patch { address, original };
        let mut bytes = [0xcc; 4];
        unpatch(10, &mut bytes, &[patch(9, 1), patch(10, 2), patch(13, 3), patch(14, 4)]);
        assert_eq!(bytes, [2, 0xcc, 0xcc, 3]);
    }
}
