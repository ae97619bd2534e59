//! The memory of a process: read and written without stopping it.
//!
//! In: an address. Out: what the program has there, without the bytes of ours and of the kernel's
//! probes. Not one act towards threads that run: who wants that stops them first.

use super::act::Patch;
use super::subject::Subject;
use super::trouble::Trouble;
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::os::unix::fs::FileExt as _;

/// Most that is read or written at once.
pub const MOST: u64 = 4 << 20;

/// Reads so many bytes, or as many as there are before a hole.
pub fn read(subject: &Subject, address: u64, bytes: u64) -> Result<Vec<u8>, Trouble> {
    let length = length(address, bytes)?;
    let mut room = vec![0; length];
    let mut done = 0;
    while done < length {
        let at = address + done as u64;
        match read_part(subject, at, &mut room[done..]) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(Trouble::Fault { .. }) => break,
            Err(other) => return Err(other),
        }
    }
    room.truncate(done);
    if done == length {
        return Ok(room);
    }
    Err(Trouble::Fault { address: address + done as u64, done: room })
}

/// A word of eight bytes.
pub fn word(subject: &Subject, address: u64) -> Result<u64, Trouble> {
    let bytes = read(subject, address, 8)?;
    Ok(bytes.as_slice().try_into().map_or(0, u64::from_le_bytes))
}

/// Writes all the bytes. Where the program itself may not write, the kernel gives it a copy.
pub fn write(subject: &Subject, address: u64, bytes: &[u8]) -> Result<(), Trouble> {
    let length = length(address, bytes.len() as u64)?;
    let mut done = 0;
    while done < length {
        let at = address + done as u64;
        let written = match write_part(subject, at, &bytes[done..]) {
            Err(Trouble::Fault { .. }) => force(subject, at, &bytes[done..]),
            other => other,
        };
        match written {
            Ok(0) | Err(Trouble::Fault { .. }) => {
                return Err(Trouble::Fault { address: at, done: bytes[..done].to_vec() });
            }
            Ok(written) => done += written,
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

/// Takes our bytes out of what was read.
pub fn unpatched(address: u64, bytes: &mut [u8], patches: &[Patch]) {
    for patch in patches {
        let place = patch.address.checked_sub(address).and_then(|it| usize::try_from(it).ok());
        if let Some(byte) = place.and_then(|place| bytes.get_mut(place)) {
            *byte = patch.original;
        }
    }
}

fn length(address: u64, bytes: u64) -> Result<usize, Trouble> {
    if bytes > MOST || address.checked_add(bytes).is_none() {
        return Err(Trouble::Range(format!("{bytes} bytes at {address:#x} are more than {MOST}")));
    }
    Ok(usize::try_from(bytes).unwrap_or(0))
}

fn read_part(subject: &Subject, at: u64, room: &mut [u8]) -> Result<usize, Trouble> {
    let remote = [RemoteIoVec { base: usize::try_from(at).unwrap_or(0), len: room.len() }];
    let read =
        process_vm_readv(Pid::from_raw(subject.pid()), &mut [IoSliceMut::new(room)], &remote);
    read.map_err(|errno| told("reading memory", at, errno.into()))
}

fn write_part(subject: &Subject, at: u64, bytes: &[u8]) -> Result<usize, Trouble> {
    let remote = [RemoteIoVec { base: usize::try_from(at).unwrap_or(0), len: bytes.len() }];
    let written = process_vm_writev(Pid::from_raw(subject.pid()), &[IoSlice::new(bytes)], &remote);
    written.map_err(|errno| told("writing memory", at, errno.into()))
}

/// `/proc/<pid>/mem` also writes where the program may only read and execute (proc(5)).
fn force(subject: &Subject, at: u64, bytes: &[u8]) -> Result<usize, Trouble> {
    let path = format!("/proc/{}/mem", subject.pid());
    let file = File::options().write(true).open(path);
    let file = file.map_err(|error| told("opening its memory", at, error))?;
    file.write_at(bytes, at).map_err(|error| told("writing memory", at, error))
}

fn told(call: &str, address: u64, error: std::io::Error) -> Trouble {
    use rustix::io::Errno;
    let fault = [Errno::FAULT, Errno::IO].map(|errno| errno.raw_os_error());
    match error.raw_os_error() {
        Some(number) if fault.contains(&number) => Trouble::Fault { address, done: Vec::new() },
        _ => Trouble::of(call, &error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_bytes_are_no_part_of_what_is_read() {
        let patch = |address, original| Patch { address, original };
        let mut bytes = [0xcc; 4];
        unpatched(10, &mut bytes, &[patch(9, 1), patch(10, 2), patch(13, 3), patch(14, 4)]);
        assert_eq!(bytes, [2, 0xcc, 0xcc, 3]);
    }
}
