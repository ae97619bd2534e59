//! Traffic of a TCP or MPTCP socket, from the counters that the kernel keeps in it.
//!
//! Nothing is attached to the packet path. SYN and FIN occupy sequence numbers like payload, so
//! each sum documents which of them it subtracts. The connections that an MPTCP socket is made of
//! are TCP sockets without a file; their payload is in the MPTCP socket, so they are no stream of
//! their own.

use super::sock::{Sock, state};
use super::{constant, load, probe};
use crate::abi::offset::ABSENT;
use crate::abi::tcp::{Counters, MptcpOffsets, TcpOffsets};
use aya_ebpf::helpers::generated::bpf_skc_to_tcp_sock;
use core::ptr::null;

/// Set by the loader.
#[unsafe(no_mangle)]
static TCP_SOCK: TcpOffsets = TcpOffsets::ABSENT;
/// Set by the loader.
#[unsafe(no_mangle)]
static MPTCP_SOCK: MptcpOffsets = MptcpOffsets::ABSENT;

const IPPROTO_MPTCP: u16 = 262;

/// A TCP socket (neither a request nor in TIME_WAIT), or an MPTCP socket.
#[derive(Clone, Copy)]
pub struct Stream {
    sock: Sock,
    /// `struct tcp_sock`, null for MPTCP.
    tcp: *const u8,
}

impl Stream {
    /// The stream of a socket, if it is one that a process holds.
    #[inline(always)]
    pub fn from_sock(sock: Sock) -> Option<Self> {
        // SAFETY: the pointer is the kernel's own; the helper checks the protocol.
        let tcp: *const u8 = unsafe { bpf_skc_to_tcp_sock(sock.as_ptr().cast_mut().cast()) }.cast();
        if !tcp.is_null() {
            return if is_part_of_mptcp(tcp) { None } else { Some(Self { sock, tcp }) };
        }
        if sock.protocol() == IPPROTO_MPTCP { Some(Self { sock, tcp: null() }) } else { None }
    }

    /// Whether this kernel counts its traffic.
    #[inline(always)]
    pub fn is_counted(self) -> bool {
        !self.tcp.is_null() || constant!(MPTCP_SOCK.bytes_sent) != ABSENT
    }

    /// Smoothed round-trip time, in eighths of a microsecond; MPTCP has one for each connection.
    #[inline(always)]
    pub fn srtt_us8(self) -> u32 {
        if self.tcp.is_null() { 0 } else { load(self.tcp, constant!(TCP_SOCK.srtt_us)) }
    }

    /// Its traffic so far, read without its lock: bytes are read twice and the smaller sum counts,
    /// because a sum read during an update is too large. MPTCP has no segments of its own.
    #[inline(always)]
    pub fn counters(self) -> Counters {
        if self.tcp.is_null() {
            // The verifier refuses an address with the offset of a member that is absent.
            if constant!(MPTCP_SOCK.bytes_sent) == ABSENT {
                return Counters::ZERO;
            }
            let sent = mptcp_written(self.sock).min(mptcp_written(self.sock));
            let received_bytes = mptcp(self.sock, constant!(MPTCP_SOCK.bytes_received));
            return Counters { sent_bytes: sent, received_bytes, ..Counters::ZERO };
        }
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
        // A listener, disconnected, or still connecting: sequence numbers mean nothing.
        if !self.sock.has_peer() || (acked == 0 && !self.sock.was_accepted()) {
            return 0;
        }
        let unacked: u32 = load::<u32>(self.tcp, constant!(TCP_SOCK.write_seq))
            .wrapping_sub(load(self.tcp, constant!(TCP_SOCK.snd_una)));
        // An accepted socket starts after the SYN.
        let syn = u64::from(!self.sock.was_accepted());
        let fin = u64::from(fin_queued(self.sock));
        (acked + u64::from(unacked)).saturating_sub(syn + fin)
    }

    /// Payload that processes have taken from a TCP socket, by any call; `None` if a protocol above
    /// it takes what arrives (TLS, sockets of other kinds), which processes then receive from that.
    /// Exact under the socket's lock.
    #[inline(always)]
    pub fn taken(self) -> Option<u64> {
        if self.tcp.is_null()
            || self.sock.has_kernel_user()
            || load::<u64>(self.tcp, constant!(TCP_SOCK.ulp_ops)) != 0
        {
            return None;
        }
        let arrived: u64 = load(self.tcp, constant!(TCP_SOCK.bytes_received));
        let left = load::<u32>(self.tcp, constant!(TCP_SOCK.rcv_nxt))
            .wrapping_sub(load(self.tcp, constant!(TCP_SOCK.copied_seq)));
        // The FIN counts as a byte that arrived, and that the last call takes.
        let fin = u64::from(left == 0 && self.sock.fin_received());
        Some(arrived.saturating_sub(u64::from(left) + fin))
    }

    /// Payload that arrived in order (`tcp_rcv_nxt_update` of net/ipv4/tcp_input.c).
    #[inline(always)]
    fn received(self) -> u64 {
        let bytes: u64 = load(self.tcp, constant!(TCP_SOCK.bytes_received));
        bytes.saturating_sub(u64::from(self.sock.fin_received()))
    }
}

#[inline(always)]
fn is_part_of_mptcp(tcp: *const u8) -> bool {
    constant!(TCP_SOCK.is_mptcp) != ABSENT && load::<u8>(tcp, constant!(TCP_SOCK.is_mptcp)) != 0
}

#[inline(always)]
fn fin_queued(sock: Sock) -> bool {
    use state::{CLOSING, FIN_WAIT1, FIN_WAIT2, LAST_ACK};
    matches!(sock.state(), FIN_WAIT1 | FIN_WAIT2 | LAST_ACK | CLOSING)
}

/// A number of an MPTCP socket: the verifier knows its pointer as one of `struct sock`.
#[inline(always)]
fn mptcp(sock: Sock, offset: u32) -> u64 {
    probe(sock.as_ptr(), offset)
}

/// Payload that was passed to connections, plus what is still queued. The FIN of MPTCP occupies a
/// sequence number; the caller remembers what was written before it.
#[inline(always)]
fn mptcp_written(sock: Sock) -> u64 {
    let queued = mptcp(sock, constant!(MPTCP_SOCK.write_seq))
        .wrapping_sub(mptcp(sock, constant!(MPTCP_SOCK.snd_nxt)));
    mptcp(sock, constant!(MPTCP_SOCK.bytes_sent)) + queued
}
