//! TCP by process: the rows of `bin/tcp.rs`, and its open sockets.
//!
//! In: the table, and a stream of sockets whose reading adds what they carried since the last one
//! to the table. Out: bytes, segments, retransmissions and round-trip times of each process, IPv4
//! and IPv6 separately. Processes with connections that this kernel does not count have no totals.

use crate::iter_reader::{IterBuffer, IterProgram};
use crate::probe_reader::{ProbeConfig, ProbeReader, Readings};
use crate::{
    decode, kernel::Kernel, object::Object, owner::MissingOwners, socket_rescan::SocketRescan,
};
use monitor_backend::Error;
use monitor_backends::tcp::{TcpTraffic, at_least, clear_totals};
use monitor_ebpf::abi::tcp::{self, OpenSocket, TcpTotals};
use monitor_model::{Capability, Identity, Note, NoteAbout, Ns, Process, Sample};
use std::collections::{HashMap, HashSet};
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
    since: Ns,
    /// Totals of each live process at the last reading.
    before: HashMap<Identity, TcpTotals>,
    /// Processes that have or had a connection that this kernel does not count.
    uncounted: HashSet<Identity>,
}

impl Tcp {
    /// Loads the iterators and attaches the hooks: they count what a socket carried since the last
    /// reading before it closed.
    pub fn load(kernel: &Kernel, config: &ProbeConfig<'_>) -> Result<Self, Error> {
        let rows = kernel.machine.rows();
        let mut object = Object::load("tcp", kernel, &[], &[(tcp::TABLE, rows)])?;
        for iterator in [HOLD, OPEN] {
            iterator.load(&mut object, &kernel.btf)?;
            object.hooks.push(iterator.hook());
        }
        if config.readings == Readings::Many {
            object.attach("state", "inet_sock_set_state", &kernel.btf)?;
            object.attach("destroy", "tcp_destroy_sock", &kernel.btf)?;
        }
        Ok(Self {
            object,
            buffer: IterBuffer::new(),
            owners: MissingOwners::default(),
            rescan: SocketRescan::default(),
            since: config.since,
            before: HashMap::new(),
            uncounted: HashSet::new(),
        })
    }
}

impl ProbeReader for Tcp {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    /// Sockets first: reading them completes the rows.
    fn merge_into(&mut self, sample: &mut Sample) {
        let sockets = self.open(&sample.processes, sample.at.boot).unwrap_or_else(|error| {
            let note = Note::missing(format!("no open TCP sockets: {error}"));
            sample.notes.push(note.about(NoteAbout::Capabilities(&[Capability::Tcp])));
            Vec::new()
        });
        let rows = self.owners.rows::<TcpTotals>(&mut self.object, tcp::TABLE, sample);
        let closed = |(owner, totals)| (decode::identity(owner), TcpTraffic::closed(totals));
        let mut now: HashMap<_, _> = rows.into_iter().map(closed).collect();
        self.raise_totals(&mut now);
        add_open(&mut now, &sockets);
        for process in &mut sample.processes {
            TcpTraffic::default().set_fields(process);
            process.count_from(self.since);
        }
        self.before = set_fields(&mut sample.processes, &now);
        sample.notes.extend(self.clear_uncounted(&mut sample.processes, &sockets));
    }
}

impl Tcp {
    /// Totals never decrease: a closing socket that is read at that moment may have more credited
    /// than it had, for one reading.
    fn raise_totals(&self, now: &mut HashMap<Identity, TcpTraffic>) {
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

    /// Removes the totals of processes that have or had MPTCP connections, where the kernel does
    /// not count these.
    fn clear_uncounted(
        &mut self,
        processes: &mut [Process],
        sockets: &[OpenSocket],
    ) -> Option<Note> {
        let uncounted = sockets.iter().filter(|open| open.is_uncounted != 0);
        self.uncounted.extend(uncounted.map(|open| decode::identity(open.owner)));
        self.uncounted.retain(|id| processes.binary_search_by_key(id, |it| it.id).is_ok());
        for id in &self.uncounted {
            if let Ok(index) = processes.binary_search_by_key(id, |it| it.id) {
                clear_totals(&mut processes[index]);
            }
        }
        let count = self.uncounted.len();
        (count > 0).then(|| {
            Note::remark(format!(
                "no TCP counters of {count} processes: they use MPTCP, whose bytes the kernel \
                 counts since 6.5"
            ))
            .about(NoteAbout::Capabilities(&[Capability::Tcp]))
        })
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

fn add_open(now: &mut HashMap<Identity, TcpTraffic>, sockets: &[OpenSocket]) {
    for open in sockets {
        now.entry(decode::identity(open.owner)).or_default().add_open(open.srtt_us8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_ebpf::abi::Owner;
    use zerocopy::IntoBytes;

    #[test]
    fn a_truncated_stream_loses_only_its_last_record() {
        let owner = Owner { start_boottime_ns: 70, tgid: 9, zero: 0 };
        let stream = [OpenSocket { owner, ..OpenSocket::default() }; 2];
        assert_eq!(records(&stream.as_bytes()[..40]).len(), 1);
    }
}
