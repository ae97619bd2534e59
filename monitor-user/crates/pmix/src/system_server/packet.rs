//! What the front sends its workers, a packet each: connections of tools, and the jobs that they
//! may know; and what a worker says, its port.

use crate::registration::RegisteredJob;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Longest packet, bytes.
const LONGEST: usize = 8192;

/// How long an end may read nothing while there is no room for more.
const STALLED: Duration = Duration::from_secs(1);

/// A packet.
#[derive(Debug)]
pub enum Packet {
    /// A connection of a tool.
    Connection(OwnedFd),
    /// The list of jobs begins again.
    Begin,
    /// A job of it.
    Job(RegisteredJob),
    /// The list is complete.
    Complete,
    /// The worker listens at this port.
    Port(u16),
}

/// Two ends of a socket for packets.
///
/// # Errors
/// If no descriptor is free.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = (AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let (one, other) = socketpair(kind.0, kind.1, kind.2, None)?;
    for end in [&one, &other] {
        set_socket_timeout(end, Timeout::Send, Some(STALLED))?;
    }
    Ok((one, other))
}

/// Sends a packet. While the other end has no room for it, it waits, but not longer than `STALLED`.
///
/// # Errors
/// If the other end has gone, or reads nothing.
pub fn send(socket: impl AsFd, packet: &Packet) -> io::Result<()> {
    let text = match packet {
        Packet::Connection(_) => b"C".to_vec(),
        Packet::Begin => b"B".to_vec(),
        Packet::Job(job) => [b"J".as_slice(), &serde_json::to_vec(job)?].concat(),
        Packet::Complete => b"D".to_vec(),
        Packet::Port(port) => [b"P".as_slice(), &port.to_be_bytes()].concat(),
    };
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut room);
    let fds = match packet {
        Packet::Connection(fd) => vec![fd.as_fd()],
        _ => Vec::new(),
    };
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    }
    sendmsg(socket, &[IoSlice::new(&text)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The next packet; none if the other end has gone.
///
/// # Errors
/// If it is malformed.
pub fn receive(socket: impl AsFd) -> io::Result<Option<Packet>> {
    let mut bytes = vec![0; LONGEST];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut room);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let got = recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let fds = ancillary.drain().filter_map(|it| match it {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fd = fds.flatten().next();
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    let Some((kind, rest)) = bytes[..got.bytes].split_first() else { return Ok(None) };
    Ok(Some(match kind {
        b'C' => Packet::Connection(fd.ok_or_else(malformed)?),
        b'B' => Packet::Begin,
        b'J' => Packet::Job(serde_json::from_slice(rest)?),
        b'D' => Packet::Complete,
        b'P' => Packet::Port(u16::from_be_bytes(rest.try_into().map_err(|_| malformed())?)),
        _ => return Err(malformed()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_the_same_at_the_other_end() {
        let (here, there) = pair().unwrap();
        let job = RegisteredJob {
            uid: 7,
            namespace: "monitor-7".to_owned(),
            uri: "a.0;tcp4://127.0.0.1:9".to_owned(),
            command: "./a".to_owned(),
            pid: 9,
        };
        let other = pair().unwrap();
        for packet in [Packet::Port(258), Packet::Job(job.clone()), Packet::Connection(other.0)] {
            send(&here, &packet).unwrap();
        }
        assert!(matches!(receive(&there).unwrap(), Some(Packet::Port(258))));
        assert!(matches!(receive(&there).unwrap(), Some(Packet::Job(got)) if got == job));
        assert!(matches!(receive(&there).unwrap(), Some(Packet::Connection(_))));
        // A list that is longer than the socket has room for waits for its reader.
        let reader = std::thread::spawn(move || {
            std::iter::from_fn(|| receive(&there).unwrap())
                .map(|it| matches!(it, Packet::Job(_)))
                .collect::<Vec<_>>()
        });
        (0..2000).for_each(|_| send(&here, &Packet::Job(job.clone())).unwrap());
        drop(here);
        assert_eq!(reader.join().unwrap(), [true; 2000]);
        let (here, there) = pair().unwrap();
        let full = (0..2000).find_map(|_| send(&here, &Packet::Begin).err()).unwrap();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        drop(here);
        while receive(&there).unwrap().is_some() {}
        assert!(receive(&there).unwrap().is_none());
    }
}
