//! TCP traffic of a process, and its fields; shared by the readers of TCP counters.
//!
//! In: counters of open sockets and totals of closed ones. Out: the TCP fields of a process. Does
//! not depend on the source of the counters.

use monitor_ebpf::abi::tcp::{Counters, TcpTotals};
use monitor_model::{Process, field::ProcessField as F};

/// TCP traffic of a process, and its open connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpTraffic {
    /// Traffic of closed and open sockets.
    pub totals: TcpTotals,
    sockets: u64,
    /// Connections with a measured round trip, and the sum of their times.
    measured: u64,
    rtt_us8: u64,
}

impl TcpTraffic {
    /// Traffic of closed sockets only.
    pub fn closed(totals: TcpTotals) -> Self {
        Self { totals, ..Self::default() }
    }

    /// Adds an open socket, with its smoothed round-trip time in eighths of a microsecond, 0 for
    /// none. Its traffic is added to the totals.
    pub fn add_open(&mut self, srtt_us8: u32) {
        self.sockets += 1;
        self.measured += u64::from(srtt_us8 != 0);
        self.rtt_us8 += u64::from(srtt_us8);
    }

    /// Sets the fields of a process.
    pub fn set_fields(&self, process: &mut Process) {
        let TcpTotals { v4, v6 } = &self.totals;
        let all = each(v4, v6, u64::wrapping_add);
        let row = &mut process.row;
        row.set(F::TcpSent, all.sent_bytes);
        row.set(F::TcpReceived, all.received_bytes);
        row.set(F::Tcp6Sent, v6.sent_bytes);
        row.set(F::Tcp6Received, v6.received_bytes);
        row.set(F::TcpSegmentsOut, all.sent_segments);
        row.set(F::TcpSegmentsIn, all.received_segments);
        row.set(F::TcpRetransmits, all.retransmits);
        if !process.ended() {
            process.row.set(F::TcpSockets, self.sockets);
        }
        // An eighth of a microsecond is 125 ns.
        let rtt = (self.rtt_us8 * 125).checked_div(self.measured);
        process.row.set_some(F::TcpRtt, rtt);
    }
}

/// Removes the counters of a process that are not known.
pub fn clear_totals(process: &mut Process) {
    const COUNTERS: [F; 7] = [
        F::TcpSent,
        F::TcpReceived,
        F::Tcp6Sent,
        F::Tcp6Received,
        F::TcpSegmentsOut,
        F::TcpSegmentsIn,
        F::TcpRetransmits,
    ];
    COUNTERS.into_iter().for_each(|field| process.row.clear(field));
}

/// Sum of two totals.
pub fn sum(a: &TcpTotals, b: &TcpTotals) -> TcpTotals {
    let of = u64::wrapping_add;
    TcpTotals { v4: each(&a.v4, &b.v4, of), v6: each(&a.v6, &b.v6, of) }
}

/// Maximum of each counter.
pub fn at_least(a: &TcpTotals, b: &TcpTotals) -> TcpTotals {
    TcpTotals { v4: each(&a.v4, &b.v4, u64::max), v6: each(&a.v6, &b.v6, u64::max) }
}

fn each(a: &Counters, b: &Counters, of: fn(u64, u64) -> u64) -> Counters {
    Counters {
        sent_bytes: of(a.sent_bytes, b.sent_bytes),
        received_bytes: of(a.received_bytes, b.received_bytes),
        sent_segments: of(a.sent_segments, b.sent_segments),
        received_segments: of(a.received_segments, b.received_segments),
        retransmits: of(a.retransmits, b.retransmits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_round_trip_is_the_mean_of_measured_connections() {
        let mut carried = TcpTraffic::default();
        for srtt_us8 in [8, 24, 0] {
            carried.add_open(srtt_us8);
        }
        let mut process = Process::default();
        carried.set_fields(&mut process);
        assert_eq!(process.row.get(F::TcpRtt), Some(2_000));
        assert_eq!(process.row.get(F::TcpSockets), Some(3));
    }

    #[test]
    fn totals_include_ipv6() {
        let counters = Counters { sent_bytes: 5, ..Counters::default() };
        let mut carried = TcpTraffic::closed(TcpTotals { v4: counters, ..TcpTotals::default() });
        carried.totals.add(6, &counters);
        let mut process = Process::default();
        carried.set_fields(&mut process);
        let fields = [F::TcpSent, F::Tcp6Sent].map(|field| process.row.get(field));
        assert_eq!(fields, [Some(10), Some(5)]);
    }
}
