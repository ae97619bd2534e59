//! TCP by process: open sockets, and the rows of closed ones.
//!
//! In: the stream of sockets and the table of `bin/tcp.rs`. Out: bytes, segments, retransmissions
//! and round-trip times of each process, IPv4 and IPv6 separately.

use crate::iter_reader::{IterBuffer, IterProgram};
use crate::{
    decode, kernel::Kernel, object::Object, owner::MissingOwners, probe_reader::ProbeReader,
    shared_sockets::SharedSockets, socket_rescan::SocketRescan,
};
use monitor_backend::Error;
use monitor_backends::tcp::{TcpTraffic, at_least, sum};
use monitor_ebpf::abi::tcp::{self, OpenSocket, SharedSocket, TcpTotals};
use monitor_model::{Identity, Note, Ns, Process, Sample};
use std::collections::HashMap;
use zerocopy::FromBytes;

const HOLD: IterProgram = IterProgram { name: "hold", walks: "task_file", map: None };
const OPEN: IterProgram =
    IterProgram { name: "open", walks: "bpf_sk_storage_map", map: Some(tcp::HOLDERS) };

/// The iterators over open sockets, and the hooks for those that close.
pub struct Tcp {
    object: Object,
    buffer: IterBuffer,
    owners: MissingOwners,
    rescan: SocketRescan,
    shares: SharedSockets,
    since: Ns,
    /// Totals of each live process at the last reading.
    before: HashMap<Identity, TcpTotals>,
}

impl Tcp {
    /// Loads the iterators and attaches the hooks.
    pub fn load(kernel: &Kernel, since: Ns) -> Result<Self, Error> {
        let rows = kernel.machine.rows();
        let sizes = [tcp::TABLE, tcp::CLOSING, tcp::SHARED].map(|map| (map, rows));
        let mut object = Object::load("tcp", kernel, &[], &sizes)?;
        for iterator in [HOLD, OPEN] {
            iterator.load(&mut object, &kernel.btf)?;
            object.hooks.push(iterator.hook());
        }
        object.attach("state", "inet_sock_set_state", &kernel.btf)?;
        object.attach("destroy", "tcp_destroy_sock", &kernel.btf)?;
        Ok(Self {
            object,
            buffer: IterBuffer::new(),
            owners: MissingOwners::default(),
            rescan: SocketRescan::default(),
            shares: SharedSockets::default(),
            since,
            before: HashMap::new(),
        })
    }
}

impl ProbeReader for Tcp {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    /// Rows first: a socket that closes between the two reads is then in neither, and is in the
    /// next reading. The other order would count it twice. So a live process may be behind for one
    /// reading, never ahead, and its totals never decrease.
    fn merge_into(&mut self, sample: &mut Sample) {
        let rows = self.owners.rows::<TcpTotals>(&mut self.object, tcp::TABLE, sample);
        let closed = |(owner, totals)| (decode::identity(owner), TcpTraffic::closed(totals));
        let mut now: HashMap<_, _> = rows.into_iter().map(closed).collect();
        match self.open(&sample.processes, sample.at.boot) {
            Ok(sockets) => add_open(&mut now, self.shares.attribute(sockets)),
            Err(error) => sample.notes.push(Note::missing(format!("no open TCP sockets: {error}"))),
        }
        self.raise_totals(&mut now);
        for process in &mut sample.processes {
            TcpTraffic::default().set_fields(process);
            process.count_from(self.since);
        }
        self.before = set_fields(&mut sample.processes, &now);
        self.update_hooks();
    }
}

impl Tcp {
    /// Adds what processes keep of sockets they have closed; totals never decrease.
    fn raise_totals(&self, now: &mut HashMap<Identity, TcpTraffic>) {
        for (owner, kept) in &self.shares.kept {
            let now = now.entry(decode::identity(*owner)).or_default();
            now.totals = sum(&now.totals, kept);
        }
        for (id, before) in &self.before {
            let now = now.entry(*id).or_default();
            now.totals = at_least(&now.totals, before);
        }
    }

    /// The open sockets, after a scan of their holders if these may have changed.
    fn open(&mut self, processes: &[Process], at: Ns) -> Result<Vec<OpenSocket>, Error> {
        let accepted = self.object.number(tcp::ACCEPTED);
        if self.rescan.is_due(processes, accepted, at) {
            let _nothing = self.buffer.read(&mut self.object, &HOLD)?;
            self.rescan.record_scan(accepted, at);
        }
        let sockets = records(self.buffer.read(&mut self.object, &OPEN)?);
        self.rescan.learn(&sockets);
        Ok(sockets)
    }

    /// Writes the shared sockets for the hooks, and removes closed ones.
    fn update_hooks(&mut self) {
        let closed = self.shares.gone().into_iter();
        self.object.remove_rows::<u64, SharedSocket>(tcp::SHARED, closed);
        self.object.set_rows(tcp::SHARED, self.shares.shared.iter());
        let before = &self.before;
        self.shares.forget(|owner| before.contains_key(&decode::identity(owner)));
    }
}

/// Sets the fields of processes with traffic, which are few. Returns the totals of the live ones,
/// for the next reading.
fn set_fields(
    processes: &mut [Process],
    now: &HashMap<Identity, TcpTraffic>,
) -> HashMap<Identity, TcpTotals> {
    let mut carried = HashMap::new();
    for (id, now) in now {
        let Ok(index) = processes.binary_search_by_key(id, |it| it.id) else { continue };
        now.set_fields(&mut processes[index]);
        if !processes[index].ended() && now.totals != TcpTotals::default() {
            let _ = carried.insert(*id, now.totals);
        }
    }
    carried
}

/// The records of a stream, without a truncated last one.
fn records(stream: &[u8]) -> Vec<OpenSocket> {
    let whole = stream.len() / size_of::<OpenSocket>() * size_of::<OpenSocket>();
    <[OpenSocket]>::ref_from_bytes(&stream[..whole]).unwrap_or_default().to_vec()
}

fn add_open(now: &mut HashMap<Identity, TcpTraffic>, sockets: Vec<OpenSocket>) {
    for open in sockets {
        let now = now.entry(decode::identity(open.owner)).or_default();
        now.add_open(open.family, &open.counters, open.srtt_us8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_ebpf::abi::Owner;
    use monitor_ebpf::abi::tcp::Counters;
    use zerocopy::IntoBytes;

    fn open(tgid: u32, start: u64, cookie: u64, sent_bytes: u64) -> OpenSocket {
        let owner = Owner { start_boottime_ns: start, tgid, zero: 0 };
        let counters = Counters { sent_bytes, ..Counters::default() };
        OpenSocket { owner, cookie, counters, srtt_us8: 8, family: 6, is_shared: 0, zero: 0 }
    }

    #[test]
    fn a_truncated_stream_loses_only_its_last_record() {
        let stream = [open(9, 70, 1, 5), open(9, 70, 2, 3)];
        assert_eq!(records(&stream.as_bytes()[..100]).len(), 1);
    }
}
