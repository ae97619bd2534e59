//! TCP by process: the sockets that are open now, and what closed ones have left in rows.
//!
//! In: the stream of sockets and the table of `bin/tcp.rs`. Out: bytes, segments,
//! retransmissions and round-trip times of each process, v4 and v6 apart.

use super::decode;
use super::holder::Holders;
use super::kernel::Kernel;
use super::object::{Object, Settings};
use super::owner::{self, Owners};
use super::part::Part;
use super::pass::{Buffer, IterProgram};
use super::share::Shares;
use crate::backend::Error;
use crate::model::field::ProcessField as F;
use crate::model::id::{Identity, Ns};
use crate::model::sample::{Note, Process, Sample};
use monitor_ebpf::abi::Owner;
use monitor_ebpf::abi::tcp::{self, Counters, Open, Shared, Totals};
use std::collections::HashMap;
use zerocopy::FromBytes;

const HOLD: IterProgram = IterProgram { name: "hold", walks: "task_file", map: None };
const OPEN: IterProgram =
    IterProgram { name: "open", walks: "bpf_sk_storage_map", map: Some(tcp::HELD) };

/// The passes over open sockets, and the hooks for those that close.
pub struct Tcp {
    object: Object,
    buffer: Buffer,
    owners: Owners,
    holders: Holders,
    shares: Shares,
    since: Ns,
    /// What each living process had at the last reading.
    before: HashMap<Identity, Totals>,
}

/// What a process has now.
#[derive(Clone, Copy, Default)]
struct Now {
    totals: Totals,
    sockets: u64,
    /// Connections that have measured a round trip, and the sum of their times.
    measured: u64,
    rtt_us8: u64,
}

impl Tcp {
    /// Loads the pass and attaches the hooks.
    pub fn load(kernel: &Kernel, since: Ns) -> Result<Self, Error> {
        let rows = kernel.machine.rows();
        let sizes = [tcp::TABLE, tcp::CLOSING, tcp::SHARED].map(|map| (map, rows));
        let mut object = Object::load("tcp", kernel, &Settings { constants: &[], sizes: &sizes })?;
        for pass in [HOLD, OPEN] {
            pass.load(&mut object, &kernel.btf)?;
            object.hooked(pass.hook());
        }
        object.attach("state", "inet_sock_set_state", kernel)?;
        object.attach("destroy", "tcp_destroy_sock", kernel)?;
        Ok(Self {
            object,
            buffer: Buffer::new(),
            owners: Owners::default(),
            holders: Holders::default(),
            shares: Shares::default(),
            since,
            before: HashMap::new(),
        })
    }
}

impl Part for Tcp {
    fn object(&self) -> &Object {
        &self.object
    }

    fn object_mut(&mut self) -> &mut Object {
        &mut self.object
    }

    /// Rows first: a socket that closes between the two passes is then in neither, and the next
    /// reading has it. The other order would count it twice. So a living process may be behind for
    /// one reading, never ahead, and does not fall below what it had.
    fn join(&mut self, sample: &mut Sample) {
        let processes = &mut sample.processes;
        let mut now = self.closed(processes, sample.at.boot);
        match self.open(processes, sample.at.boot) {
            Ok(sockets) => add_open(&mut now, self.shares.owned(sockets)),
            Err(error) => sample.notes.push(Note::missing(format!("no open TCP sockets: {error}"))),
        }
        self.settle(&mut now);
        for process in processes.iter_mut() {
            set(process, &Now::default());
            process.count_from(self.since);
        }
        self.before = told(processes, &now);
        self.tell_shares();
    }
}

impl Tcp {
    /// Adds what processes keep of sockets they have let go; none falls below what it had.
    fn settle(&self, now: &mut HashMap<Identity, Now>) {
        for (owner, kept) in self.shares.kept() {
            let now = now.entry(decode::identity(*owner)).or_default();
            now.totals = plus(&now.totals, kept);
        }
        for (id, before) in &self.before {
            let now = now.entry(*id).or_default();
            now.totals = at_least(&now.totals, before);
        }
    }

    /// The open sockets, after a look who holds them if that may have changed.
    fn open(&mut self, processes: &[Process], at: Ns) -> Result<Vec<Open>, Error> {
        let accepted = self.object.number(tcp::ACCEPTED);
        if self.holders.look_is_due(processes, accepted, at) {
            let _nothing = self.buffer.pass(&mut self.object, &HOLD)?;
            self.holders.looked(accepted, at);
        }
        let sockets = records(self.buffer.pass(&mut self.object, &OPEN)?);
        self.holders.learn(&sockets);
        Ok(sockets)
    }

    /// What closed sockets carried. The row of an ended process goes as it is read.
    fn closed(&mut self, processes: &mut Vec<Process>, at: Ns) -> HashMap<Identity, Now> {
        let rows = self.object.rows::<Owner, Totals>(tcp::TABLE);
        self.owners.settle(rows.iter().map(|(owner, _)| *owner), processes, at);
        let ended = rows.iter().map(|(owner, _)| *owner).filter(|it| owner::ended(processes, *it));
        self.object.remove_rows::<Owner, Totals>(tcp::TABLE, ended);
        let now = |totals| Now { totals, ..Now::default() };
        rows.into_iter().map(|(owner, totals)| (decode::identity(owner), now(totals))).collect()
    }
}

impl Tcp {
    /// Tells the hooks which sockets are shared, and forgets what is over.
    fn tell_shares(&mut self) {
        let over = self.shares.gone().into_iter();
        self.object.remove_rows::<u64, Shared>(tcp::SHARED, over);
        self.object.set_rows(tcp::SHARED, self.shares.shared().iter());
        let before = &self.before;
        self.shares.forget(|owner| before.contains_key(&decode::identity(owner)));
    }
}

/// Tells those that have any their own numbers: few do, and only they are looked for. What the
/// living among them carried is to be compared with at the next reading.
fn told(processes: &mut [Process], now: &HashMap<Identity, Now>) -> HashMap<Identity, Totals> {
    let mut carried = HashMap::new();
    for (id, now) in now {
        let Ok(index) = processes.binary_search_by_key(id, |it| it.id) else { continue };
        set(&mut processes[index], now);
        if !processes[index].ended() && now.totals != Totals::default() {
            let _ = carried.insert(*id, now.totals);
        }
    }
    carried
}

/// The records of a stream; one that was cut is left out.
fn records(stream: &[u8]) -> Vec<Open> {
    let whole = stream.len() / size_of::<Open>() * size_of::<Open>();
    <[Open]>::ref_from_bytes(&stream[..whole]).unwrap_or_default().to_vec()
}

fn add_open(now: &mut HashMap<Identity, Now>, sockets: Vec<Open>) {
    for open in sockets {
        let now = now.entry(decode::identity(open.owner)).or_default();
        now.totals.add(open.family, &open.counters);
        now.sockets += 1;
        now.measured += u64::from(open.srtt_us8 != 0);
        now.rtt_us8 += u64::from(open.srtt_us8);
    }
}

fn set(process: &mut Process, now: &Now) {
    let Totals { v4, v6 } = &now.totals;
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
        process.row.set(F::TcpSockets, now.sockets);
    }
    // An eighth of a microsecond is 125 ns.
    let rtt = (now.rtt_us8 * 125).checked_div(now.measured);
    process.row.set_some(F::TcpRtt, rtt);
}

fn plus(a: &Totals, b: &Totals) -> Totals {
    let of = u64::wrapping_add;
    Totals { v4: each(&a.v4, &b.v4, of), v6: each(&a.v6, &b.v6, of) }
}

fn at_least(a: &Totals, b: &Totals) -> Totals {
    Totals { v4: each(&a.v4, &b.v4, u64::max), v6: each(&a.v6, &b.v6, u64::max) }
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
    use monitor_ebpf::abi::Owner;
    use zerocopy::IntoBytes;

    fn open(tgid: u32, start: u64, cookie: u64, sent_bytes: u64) -> Open {
        let owner = Owner { start_boottime_ns: start, tgid, zero: 0 };
        let counters = Counters { sent_bytes, ..Counters::default() };
        Open { owner, cookie, counters, srtt_us8: 8, family: 6, is_shared: 0, zero: 0 }
    }

    #[test]
    fn a_cut_stream_loses_its_last_record_only() {
        let stream = [open(9, 70, 1, 5), open(9, 70, 2, 3)];
        assert_eq!(records(&stream.as_bytes()[..100]).len(), 1);
    }

    #[test]
    fn the_round_trip_is_the_mean_of_those_that_have_one() {
        let mut now = HashMap::new();
        let silent = Open { srtt_us8: 0, ..open(9, 70, 3, 0) };
        add_open(&mut now, vec![open(9, 70, 1, 5), Open { srtt_us8: 24, ..silent }, silent]);
        let mut process = Process::default();
        set(&mut process, now.values().next().expect("one process"));
        assert_eq!(process.row.get(F::TcpRtt), Some(2_000));
        assert_eq!(process.row.get(F::TcpSockets), Some(3));
    }
}
