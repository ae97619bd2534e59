//! Reader of `sock`, and of the file of a socket.

use super::{constant, load, probe};
use crate::abi::offset::ABSENT;
use crate::abi::tcp::SockOffsets;
use aya_ebpf::helpers::generated::bpf_sock_from_file;

/// Set by the loader.
#[unsafe(no_mangle)]
static SOCK: SockOffsets = SockOffsets::ABSENT;

const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
const SOCK_DGRAM: u16 = 2;
const IPPROTO_UDP: u16 = 17;
/// Bit of `sk_flags`: a FIN was received (`tcp_fin` of net/ipv4/tcp_input.c).
const SOCK_DONE: u64 = 1 << 1;

/// States of include/net/tcp_states.h, as far as they are used.
pub mod state {
    /// Both ends may write.
    pub const ESTABLISHED: u8 = 1;
    /// Connecting.
    pub const SYN_SENT: u8 = 2;
    /// Being connected to.
    pub const SYN_RECV: u8 = 3;
    /// This end has closed.
    pub const FIN_WAIT1: u8 = 4;
    /// The other end has acknowledged that.
    pub const FIN_WAIT2: u8 = 5;
    /// No connection.
    pub const CLOSE: u8 = 7;
    /// The other end has closed.
    pub const CLOSE_WAIT: u8 = 8;
    /// So has this end.
    pub const LAST_ACK: u8 = 9;
    /// Waiting for connections.
    pub const LISTEN: u8 = 10;
    /// Both closed at once.
    pub const CLOSING: u8 = 11;
}

/// A `struct sock`, as the verifier's typed pointer.
#[derive(Clone, Copy)]
pub struct Sock(*const u8);

impl Sock {
    /// Wraps a pointer passed to the program by the kernel.
    #[inline(always)]
    pub fn from_kernel(pointer: *const u8) -> Option<Self> {
        if pointer.is_null() { None } else { Some(Self(pointer)) }
    }

    /// The socket behind an open file, if it is one.
    #[inline(always)]
    pub fn from_file(file: *const u8) -> Option<Self> {
        // SAFETY: the caller's file is valid; the helper returns null for one that is no socket.
        let socket: *const u8 = unsafe { bpf_sock_from_file(file.cast_mut().cast()) }.cast();
        if socket.is_null() {
            return None;
        }
        Self::from_kernel(load(socket, constant!(SOCK.socket_sk)))
    }

    /// The pointer, for helpers that take a socket.
    #[inline(always)]
    pub fn as_ptr(self) -> *const u8 {
        self.0
    }

    /// Its state.
    #[inline(always)]
    pub fn state(self) -> u8 {
        load(self.0, constant!(SOCK.state))
    }

    /// The error that ended it, if one did.
    #[inline(always)]
    pub fn error(self) -> u32 {
        load(self.0, constant!(SOCK.error))
    }

    /// Whether it uses IPv6 on the wire: a v4-mapped address is IPv4.
    #[inline(always)]
    pub fn is_v6(self) -> bool {
        load::<u16>(self.0, constant!(SOCK.family)) == AF_INET6 && !is_v4_mapped(self.0)
    }

    /// Its protocol.
    #[inline(always)]
    pub fn protocol(self) -> u16 {
        load(self.0, constant!(SOCK.protocol))
    }

    /// Whether it has a peer: not a listener, and neither never connected nor disconnected.
    #[inline(always)]
    pub fn has_peer(self) -> bool {
        load::<u16>(self.0, constant!(SOCK.peer_port)) != 0
    }

    /// Whether it was accepted from a listener, whose backlog it copied.
    #[inline(always)]
    pub fn was_accepted(self) -> bool {
        load::<u32>(self.0, constant!(SOCK.max_ack_backlog)) != 0
    }

    /// Whether a protocol above it, or the kernel itself, takes what arrives.
    #[inline(always)]
    pub fn has_kernel_user(self) -> bool {
        load::<u64>(self.0, constant!(SOCK.user_data)) != 0
    }

    /// Whether a FIN was received.
    #[inline(always)]
    pub fn fin_received(self) -> bool {
        load::<u64>(self.0, constant!(SOCK.flags)) & SOCK_DONE != 0
    }

    /// Protocol of its traffic.
    #[inline(always)]
    pub fn traffic(self) -> Traffic {
        let [family, kind, protocol] = [
            load(self.0, constant!(SOCK.family)),
            load(self.0, constant!(SOCK.kind)),
            load(self.0, constant!(SOCK.protocol)),
        ];
        traffic(self.0, family, kind == SOCK_DGRAM && protocol == IPPROTO_UDP)
    }

    /// Whether a process holds its lock, and is therefore the current one. Packets are handled
    /// without that lock, in the context of any interrupted task.
    #[inline(always)]
    pub fn locked_by_process(self) -> bool {
        load::<u32>(self.0, constant!(SOCK.lock_owned)) != 0
    }

    /// Whether no file refers to it: the last descriptor is being closed.
    #[inline(always)]
    pub fn released(self) -> bool {
        let socket: *const u8 = load(self.0, constant!(SOCK.socket));
        if socket.is_null() {
            return true;
        }
        let file: *const u8 = load(socket, constant!(SOCK.socket_file));
        if file.is_null() {
            return true; // The kernel's own.
        }
        if constant!(SOCK.file_ref) != ABSENT {
            return load::<i64>(file, constant!(SOCK.file_ref)) < 0;
        }
        load::<i64>(file, constant!(SOCK.file_count)) == 0
    }
}

/// Protocol of the traffic of a socket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// UDP over IPv4.
    Udp4,
    /// UDP over IPv6.
    Udp6,
    /// UDP of an IPv6 socket that also uses IPv4, and does not show which at a call.
    UdpDual,
    /// Anything else.
    Other,
}

/// Protocol of a `struct socket`, where the verifier knows no types.
#[inline(always)]
pub fn traffic_of(socket: *const u8) -> Traffic {
    let sock: *const u8 = probe(socket, constant!(SOCK.socket_sk));
    let [family, kind, protocol] = [
        probe(sock, constant!(SOCK.family)),
        probe(sock, constant!(SOCK.kind)),
        probe(sock, constant!(SOCK.protocol)),
    ];
    traffic(sock, family, kind == SOCK_DGRAM && protocol == IPPROTO_UDP)
}

#[inline(always)]
fn traffic(sock: *const u8, family: u16, is_udp: bool) -> Traffic {
    match (family, is_udp) {
        (AF_INET, true) => Traffic::Udp4,
        (AF_INET6, true) => traffic_of_v6(sock),
        _ => Traffic::Other,
    }
}

/// A connected socket uses the protocol of its peer, a bound one that of its address. Without
/// either it uses both, unless it is for IPv6 only (ipv6(7), `IPV6_V6ONLY`).
#[inline(always)]
fn traffic_of_v6(sock: *const u8) -> Traffic {
    /// The bit of `skc_ipv6only` in its byte (include/net/sock.h): after four bits and one.
    const V6_ONLY: u8 = if cfg!(target_endian = "little") { 1 << 5 } else { 1 << 2 };
    if constant!(SOCK.v6_daddr) == ABSENT {
        return Traffic::Udp4; // Without IPv6 there is only IPv4.
    }
    let peer = Address::from_sock(sock, constant!(SOCK.v6_daddr));
    let local = Address::from_sock(sock, constant!(SOCK.v6_rcv_saddr));
    let v6_only = probe::<u8>(sock, constant!(SOCK.v6_only)) & V6_ONLY != 0;
    match (peer, local) {
        (Address::V4Mapped, _) | (Address::Any, Address::V4Mapped) => Traffic::Udp4,
        (Address::Any, Address::Any) if !v6_only => Traffic::UdpDual,
        _ => Traffic::Udp6,
    }
}

/// What an IPv6 address says of the protocol.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Address {
    /// None, or any.
    Any,
    /// In `::ffff:0:0/96`.
    V4Mapped,
    /// Another.
    V6,
}

impl Address {
    #[inline(always)]
    fn from_sock(sock: *const u8, offset: u32) -> Self {
        let [a, b, c, d]: [u32; 4] = probe(sock, offset);
        match (a | b, c) {
            (0, 0) if d == 0 => Self::Any,
            (0, c) if c == 0xffff_u32.to_be() => Self::V4Mapped,
            _ => Self::V6,
        }
    }
}

/// Whether the remote address is in `::ffff:0:0/96`.
#[inline(always)]
fn is_v4_mapped(sock: *const u8) -> bool {
    if constant!(SOCK.v6_daddr) == ABSENT {
        return true; // Without IPv6 there is only IPv4.
    }
    Address::from_sock(sock, constant!(SOCK.v6_daddr)) == Address::V4Mapped
}
