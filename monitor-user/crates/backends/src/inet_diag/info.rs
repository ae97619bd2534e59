//! `struct tcp_info` of include/uapi/linux/tcp.h, as far as it is read.
//!
//! In: the attribute of a dumped socket. Out: its counters. The structure grew at its end; what an
//! older kernel does not give is zero.

use monitor_ebpf::abi::tcp::Counters;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// `TCP_CLOSE_WAIT`: the other end has closed, and its FIN is counted as a byte.
const CLOSE_WAIT: u8 = 8;

/// The beginning of the structure.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct TcpInfo {
    state: u8,
    flags: [u8; 7],
    /// From `tcpi_rto` to `tcpi_rcv_ssthresh`.
    timing: [u32; 15],
    rtt_us: u32,
    /// From `tcpi_rttvar` to `tcpi_rcv_space`.
    windows: [u32; 7],
    total_retrans: u32,
    pacing: [u64; 2],
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt_us: u32,
    data_segs: [u32; 2],
    /// From `tcpi_delivery_rate` to `tcpi_sndbuf_limited`.
    rates: [u64; 4],
    delivered: [u32; 2],
    /// Since 4.19.
    bytes_sent: u64,
    bytes_retrans: u64,
}

const _: () = assert!(core::mem::offset_of!(TcpInfo, rtt_us) == 68);
const _: () = assert!(core::mem::offset_of!(TcpInfo, total_retrans) == 100);
const _: () = assert!(core::mem::offset_of!(TcpInfo, bytes_acked) == 120);
const _: () = assert!(core::mem::offset_of!(TcpInfo, bytes_sent) == 200);

impl TcpInfo {
    /// Takes an attribute, which may be shorter or longer.
    pub fn from_attribute(bytes: &[u8]) -> Self {
        let mut it = Self::new_zeroed();
        let size = bytes.len().min(size_of::<Self>());
        it.as_mut_bytes()[..size].copy_from_slice(&bytes[..size]);
        it
    }

    /// What the socket carried: payload that was written, and payload that arrived.
    pub fn counters(&self) -> Counters {
        let fin = u64::from(self.state == CLOSE_WAIT);
        Counters {
            sent_bytes: self.written(),
            received_bytes: self.bytes_received.saturating_sub(fin),
            sent_segments: u64::from(self.segs_out),
            received_segments: u64::from(self.segs_in),
            retransmits: u64::from(self.total_retrans),
        }
    }

    fn written(&self) -> u64 {
        if self.bytes_sent == 0 {
            // Before 4.19, or nothing sent; the first byte acknowledged is the SYN of the client.
            return self.bytes_acked.saturating_sub(1);
        }
        self.bytes_sent.saturating_sub(self.bytes_retrans) + u64::from(self.notsent_bytes)
    }

    /// Smoothed round-trip time, in eighths of a microsecond.
    pub fn srtt_us8(&self) -> u32 {
        self.rtt_us.saturating_mul(8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_to_be_sent_is_written_and_what_is_sent_again_is_not() {
        let info = TcpInfo {
            bytes_sent: 1000,
            bytes_retrans: 100,
            notsent_bytes: 7,
            ..TcpInfo::new_zeroed()
        };
        assert_eq!(info.counters().sent_bytes, 907);
    }

    #[test]
    fn a_fin_is_no_byte() {
        let info = TcpInfo { state: CLOSE_WAIT, bytes_received: 24, ..TcpInfo::new_zeroed() };
        assert_eq!(info.counters().received_bytes, 23);
    }

    #[test]
    fn a_short_attribute_of_an_old_kernel_is_read_as_far_as_it_goes() {
        let info = TcpInfo { bytes_acked: 24, bytes_sent: 99, ..TcpInfo::new_zeroed() };
        let old = TcpInfo::from_attribute(&info.as_bytes()[..192]);
        assert_eq!(old.counters().sent_bytes, 23);
        assert_eq!(TcpInfo::from_attribute(&[]).counters(), Counters::default());
    }
}
