//! What is asked of one process only while somebody looks at it: its connections, and what it
//! does with signals.
//!
//! In: its id. Out: lists, or one sentence why there is none. The kernel decides who may see the
//! sockets of whom; the state of signals is open to everybody.

use procfs::ProcError;
use procfs::process::{FDTarget, Process};
use std::collections::HashSet;
use std::net::SocketAddr;

/// Most connections that are told of one process.
const MOST: usize = 4096;

/// A socket of the internet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// `tcp` or `udp`.
    pub protocol: &'static str,
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Where it is in its life, as `tcp(7)` calls it; empty for UDP.
    pub state: String,
    /// Bytes that wait to be read, and bytes that wait to be acknowledged.
    pub queues: [u32; 2],
}

/// What a process does with signals: a bit for each, the lowest for signal 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// Wait to be taken, by the process or its first thread.
    pub pending: u64,
    /// Held back.
    pub blocked: u64,
    /// Thrown away.
    pub ignored: u64,
    /// Taken by a function of its own.
    pub caught: u64,
}

/// The connections of a process.
pub fn connections(pid: u32) -> Result<Vec<Connection>, String> {
    let cannot = |error: ProcError| told("connections", &error);
    let process = open(pid).map_err(cannot)?;
    let mut inodes = HashSet::new();
    for entry in process.fd().map_err(cannot)? {
        // A descriptor that was closed meanwhile is none of its descriptors.
        if let Ok(FDTarget::Socket(inode)) = entry.map(|entry| entry.target) {
            inodes.insert(inode);
        }
    }
    if inodes.is_empty() {
        return Ok(Vec::new());
    }
    // A protocol that this kernel lacks has no connections.
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
    Ok(tcp.chain(udp).take(MOST).collect())
}

/// What a process does with signals.
pub fn signals(pid: u32) -> Result<Signals, String> {
    let status = open(pid).and_then(|process| process.status());
    let it = status.map_err(|error| told("signals", &error))?;
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

fn told(what: &str, error: &ProcError) -> String {
    match error {
        ProcError::PermissionDenied(_) => {
            format!("no {what}: the process is not yours; run this as its user or as root")
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
    fn who_has_ended_has_neither() {
        assert_eq!(connections(u32::MAX), Err("the process has ended".into()));
        assert_eq!(signals(u32::MAX), Err("the process has ended".into()));
    }
}
