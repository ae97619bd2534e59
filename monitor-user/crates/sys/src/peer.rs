//! Supplementary groups of the peer of a Unix socket: `SO_PEERGROUPS` of unix(7), since Linux 4.13.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Most supplementary groups of a process (`NGROUPS_MAX`).
const MAX_GROUPS: usize = 1 << 16;

/// The supplementary groups that the peer had when it connected.
pub fn groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups = vec![0_u32; 32];
    loop {
        let room = groups.len() * size_of::<u32>();
        let mut bytes = libc::socklen_t::try_from(room).unwrap_or(libc::socklen_t::MAX);
        // SAFETY: the kernel writes at most `bytes` bytes into a vector of that size.
        let rc = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        if rc == 0 {
            groups.truncate(bytes as usize / size_of::<u32>());
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ERANGE) || groups.len() >= MAX_GROUPS {
            return Err(error);
        }
        groups.resize(groups.len() * 8, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_peer_of_this_process_has_the_groups_of_this_process() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        let mut got = groups(one.as_fd()).expect("groups");
        let mut own: Vec<u32> =
            nix::unistd::getgroups().expect("groups").iter().map(|it| it.as_raw()).collect();
        got.sort_unstable();
        own.sort_unstable();
        assert_eq!(got, own);
    }
}
