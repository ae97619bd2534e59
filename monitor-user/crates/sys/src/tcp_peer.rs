//! The user of the other end of a TCP connection on this machine.
//!
//! In: both addresses of the connection. Out: the user of its socket, asked of the kernel with
//! `SOCK_DIAG_BY_FAMILY` for this one socket.

use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP, TCP_LISTEN};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use netlink_sys::{Socket as Netlink, SocketAddr as NetlinkAddr, protocols::NETLINK_SOCK_DIAG};
use std::net::SocketAddr;

/// The kernel's message about one socket, with room to spare.
const MESSAGE: usize = 4096;

/// The user that has the socket at `peer` open, which is connected to `own`; none if that is not of
/// this machine, was closed, or is not reported by the kernel.
pub fn user(own: SocketAddr, peer: SocketAddr) -> Option<u32> {
    let request = InetRequest {
        family: if peer.is_ipv4() { AF_INET } else { AF_INET6 },
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states: StateFlags::all(),
        socket_id: SocketId {
            source_port: peer.port(),
            destination_port: own.port(),
            source_address: peer.ip(),
            destination_address: own.ip(),
            interface_id: 0,
            // Any.
            cookie: [0xff; 8],
        },
    };
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    let mut netlink = Netlink::new(NETLINK_SOCK_DIAG).ok()?;
    let _address = netlink.bind_auto().ok()?;
    netlink.connect(&NetlinkAddr::new(0, 0)).ok()?;
    let _bytes = netlink.send(&bytes, 0).ok()?;
    let mut reply = Vec::with_capacity(MESSAGE);
    let _bytes = netlink.recv(&mut reply, 0).ok()?;
    match NetlinkMessage::<SockDiagMessage>::deserialize(&reply).ok()?.payload {
        NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
            let header = response.header;
            // A socket that no process has open any longer has no inode, and its user counts as 0.
            // Where there is none with both addresses, the kernel names one that listens at `peer`.
            (header.inode != 0 && header.state != TCP_LISTEN).then_some(header.uid)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    const DEADLINE: Duration = Duration::from_secs(30);

    #[test]
    fn a_peer_on_this_machine_has_the_user_of_its_process() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let peer = TcpStream::connect(listener.local_addr().expect("an address"));
            let peer = peer.expect("a connection");
            let (accepted, from) = listener.accept().expect("a connection");
            let own = accepted.local_addr().expect("an address");
            let uid = rustix::process::geteuid().as_raw();
            assert_eq!(user(own, from), Some(uid), "{address}");
            drop(peer);
            // A process that another test starts has the socket open until it executes its program.
            let start = Instant::now();
            while user(own, from).is_some() {
                assert!(start.elapsed() < DEADLINE, "{address}: it was closed");
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn a_listener_is_not_the_other_end() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        // No connection from there to port 1 exists.
        assert_eq!(user("127.0.0.1:1".parse().expect("an address"), address), None);
    }
}
