//! Details of a single process, read while it is displayed: its connections and signal masks.
//!
//! In: its pid. Out: lists, or one sentence why they cannot be read. The kernel decides which users
//! may see the sockets; signal masks are public.

use procfs::ProcError;
use procfs::process::{FDTarget, Process};
use std::{collections::HashSet, net::SocketAddr};

/// Maximum number of connections of a process.
const MAX_CONNECTIONS: usize = 4096;

/// An Internet socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// `tcp` or `udp`.
    pub protocol: &'static str,
    /// Local address.
    pub local: SocketAddr,
    /// Remote address.
    pub remote: SocketAddr,
    /// State as named by `tcp(7)`; empty for UDP.
    pub state: String,
    /// Bytes in the receive queue, and unacknowledged bytes in the send queue.
    pub queues: [u32; 2],
}

/// Signal masks of a process: a bit for each signal, the lowest for signal 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// Pending for the process or its main thread.
    pub pending: u64,
    /// Blocked.
    pub blocked: u64,
    /// Ignored.
    pub ignored: u64,
    /// Handled by a function of the program.
    pub caught: u64,
}

/// The connections of a process.
pub fn connections(pid: u32) -> Result<Vec<Connection>, String> {
    let cannot = |error: ProcError| message("connections", &error);
    let process = open(pid).map_err(cannot)?;
    let mut inodes = HashSet::new();
    for entry in process.fd().map_err(cannot)? {
        // A descriptor closed in the meantime is skipped.
        if let Ok(FDTarget::Socket(inode)) = entry.map(|entry| entry.target) {
            inodes.insert(inode);
        }
    }
    if inodes.is_empty() {
        return Ok(Vec::new());
    }
    // A protocol missing in this kernel has no connections.
    let tcp = [process.tcp(), process.tcp6()].into_iter().flatten().flatten();
    let tcp = tcp.filter(|it| inodes.contains(&it.inode)).map(|it| Connection {
        protocol: "tcp",
        local: it.local_address,
        remote: it.remote_address,
        state: format!("{:?}", it.state),
        queues: [it.rx_queue, it.tx_queue],
    });
    let udp = [process.udp(), process.udp6()].into_iter().flatten().flatten();
    let udp = udp.filter(|it| inodes.contains(&it.inode)).map(|it| Connection {
        protocol: "udp",
        local: it.local_address,
        remote: it.remote_address,
        state: String::new(),
        queues: [it.rx_queue, it.tx_queue],
    });
    Ok(tcp.chain(udp).take(MAX_CONNECTIONS).collect())
}

/// The signal masks of a process.
pub fn signals(pid: u32) -> Result<Signals, String> {
    let status = open(pid).and_then(|process| process.status());
    let it = status.map_err(|error| message("signals", &error))?;
    Ok(Signals {
        pending: it.sigpnd | it.shdpnd,
        blocked: it.sigblk,
        ignored: it.sigign,
        caught: it.sigcgt,
    })
}

fn open(pid: u32) -> Result<Process, ProcError> {
    Process::new(i32::try_from(pid).unwrap_or(i32::MAX))
}

fn message(what: &str, error: &ProcError) -> String {
    match error {
        ProcError::PermissionDenied(_) => {
            format!("no {what}: permission denied; run as the user of the process or as root")
        }
        ProcError::NotFound(_) => "the process has ended".into(),
        other => format!("no {what}: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn our_own_connections_are_found_at_both_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let stream = TcpStream::connect(address).expect("a connection");
        let found = connections(std::process::id()).expect("our own");
        let ours = |it: &&Connection| it.local == address && it.state == "Listen";
        assert_eq!(found.iter().filter(ours).count(), 1);
        let local = stream.local_addr().expect("an address");
        let open = |it: &&Connection| it.local == local && it.remote == address;
        assert_eq!(found.iter().filter(open).count(), 1);
    }

    #[test]
    fn an_ended_process_has_neither() {
        assert_eq!(connections(u32::MAX), Err("the process has ended".into()));
        assert_eq!(signals(u32::MAX), Err("the process has ended".into()));
    }
}
