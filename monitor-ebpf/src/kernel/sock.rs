//! Reader of `sock`, `tcp_sock` and the file of a socket.
//!
//! Traffic is counted by the kernel; nothing is attached to the packet path. SYN and FIN occupy
//! sequence numbers like payload, so each sum documents which of them it subtracts.

use super::{constant, load, probe};
use crate::abi::offset::ABSENT;
use crate::abi::tcp::{Counters, SockOffsets, TcpOffsets};
use aya_ebpf::helpers::generated::{
    bpf_get_socket_cookie, bpf_skc_to_tcp_sock, bpf_sock_from_file,
};

/// Set by the loader.
#[unsafe(no_mangle)]
static SOCK: SockOffsets = SockOffsets::ABSENT;
/// Set by the loader.
#[unsafe(no_mangle)]
static TCP_SOCK: TcpOffsets = TcpOffsets::ABSENT;

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

    /// Unique id of the socket; the kernel assigns it on the first call.
    #[inline(always)]
    pub fn cookie(self) -> u64 {
        // SAFETY: the pointer is the kernel's own.
        unsafe { bpf_get_socket_cookie(self.0.cast_mut().cast()) }
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

    /// The TCP socket that it is, if it is one (and neither a request nor in TIME_WAIT).
    #[inline(always)]
    pub fn tcp(self) -> Option<Tcp> {
        // SAFETY: the pointer is the kernel's own; the helper checks the protocol.
        let tcp: *const u8 = unsafe { bpf_skc_to_tcp_sock(self.0.cast_mut().cast()) }.cast();
        if tcp.is_null() { None } else { Some(Tcp { sock: self, tcp }) }
    }
}

/// Protocol of the traffic of a socket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// UDP over IPv4.
    Udp4,
    /// UDP over IPv6.
    Udp6,
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

/// An unconnected IPv6 socket counts as IPv6, whatever the addresses of its datagrams.
#[inline(always)]
fn traffic(sock: *const u8, family: u16, is_udp: bool) -> Traffic {
    match (family, is_udp) {
        (AF_INET, true) => Traffic::Udp4,
        (AF_INET6, true) if is_v4_mapped(sock) => Traffic::Udp4,
        (AF_INET6, true) => Traffic::Udp6,
        _ => Traffic::Other,
    }
}

/// Whether the remote address is in `::ffff:0:0/96`.
#[inline(always)]
fn is_v4_mapped(sock: *const u8) -> bool {
    if constant!(SOCK.v6_daddr) == ABSENT {
        return true; // Without IPv6 there is only IPv4.
    }
    let [a, b, c, _]: [u32; 4] = probe(sock, constant!(SOCK.v6_daddr));
    a == 0 && b == 0 && c == 0xffff_u32.to_be()
}

/// A `struct tcp_sock`.
#[derive(Clone, Copy)]
pub struct Tcp {
    sock: Sock,
    tcp: *const u8,
}

impl Tcp {
    /// Smoothed round-trip time, in eighths of a microsecond.
    #[inline(always)]
    pub fn srtt_us8(self) -> u32 {
        load(self.tcp, constant!(TCP_SOCK.srtt_us))
    }

    /// Its traffic so far, read without its lock: bytes are read twice and the smaller sum counts,
    /// because a sum read during an update is too large.
    #[inline(always)]
    pub fn counters(self) -> Counters {
        let (sent, received) = (self.written(), self.received());
        Counters {
            sent_segments: u64::from(load::<u32>(self.tcp, constant!(TCP_SOCK.segs_out))),
            received_segments: u64::from(load::<u32>(self.tcp, constant!(TCP_SOCK.segs_in))),
            retransmits: u64::from(load::<u32>(self.tcp, constant!(TCP_SOCK.total_retrans))),
            sent_bytes: sent.min(self.written()),
            received_bytes: received.min(self.received()),
        }
    }

    /// Payload that the process has written: acknowledged (`bytes_acked`, RFC 4898), plus what is
    /// still in the write queue.
    #[inline(always)]
    fn written(self) -> u64 {
        let acked: u64 = load(self.tcp, constant!(TCP_SOCK.bytes_acked));
        let unacked: u32 = load::<u32>(self.tcp, constant!(TCP_SOCK.write_seq))
            .wrapping_sub(load(self.tcp, constant!(TCP_SOCK.snd_una)));
        // An accepted socket copied the listener's backlog, and starts after the SYN.
        let passive = load::<u32>(self.sock.0, constant!(SOCK.max_ack_backlog)) != 0;
        if !passive && acked == 0 {
            return 0; // Never connected, or disconnected: sequence numbers mean nothing.
        }
        let syn = u64::from(!passive);
        let fin = u64::from(self.fin_queued());
        (acked + u64::from(unacked)).saturating_sub(syn + fin)
    }

    #[inline(always)]
    fn fin_queued(self) -> bool {
        use state::{CLOSING, FIN_WAIT1, FIN_WAIT2, LAST_ACK};
        matches!(self.sock.state(), FIN_WAIT1 | FIN_WAIT2 | LAST_ACK | CLOSING)
    }

    /// Payload that arrived in order (`tcp_rcv_nxt_update` of net/ipv4/tcp_input.c).
    #[inline(always)]
    fn received(self) -> u64 {
        let bytes: u64 = load(self.tcp, constant!(TCP_SOCK.bytes_received));
        let flags: u64 = load(self.sock.0, constant!(SOCK.flags));
        bytes.saturating_sub(u64::from(flags & SOCK_DONE != 0))
    }
}
