//! TCP by process: the sockets that are open now, and what closed ones have left in rows.
//!
//! In: the stream of sockets and the table of `bin/tcp.rs`. Out: bytes, segments,
//! retransmissions and round-trip times of each process, v4 and v6 apart.

use super::decode;
use super::holder::Holders;
use super::kernel::Kernel;
use super::object::{Object, Settings};
use super::owner::Owners;
use super::part::Part;
use super::pass::{Buffer, IterProgram};
use super::share::Shares;
use crate::tcp::{Carried, at_least, plus};
use monitor_backend::Error;
use monitor_ebpf::abi::tcp::{self, Open, Shared, Totals};
use monitor_model::id::{Identity, Ns};
use monitor_model::sample::{Note, Process, Sample};
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
        object.attach("state", "inet_sock_set_state", &kernel.btf)?;
        object.attach("destroy", "tcp_destroy_sock", &kernel.btf)?;
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
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn object_mut(&mut self) -> Option<&mut Object> {
        Some(&mut self.object)
    }

    /// Rows first: a socket that closes between the two passes is then in neither, and the next
    /// reading has it. The other order would count it twice. So a living process may be behind for
    /// one reading, never ahead, and does not fall below what it had.
    fn join(&mut self, sample: &mut Sample) {
        let rows = self.owners.rows::<Totals>(&mut self.object, tcp::TABLE, sample);
        let closed = |(owner, totals)| (decode::identity(owner), Carried::closed(totals));
        let mut now: HashMap<_, _> = rows.into_iter().map(closed).collect();
        match self.open(&sample.processes, sample.at.boot) {
            Ok(sockets) => add_open(&mut now, self.shares.owned(sockets)),
            Err(error) => sample.notes.push(Note::missing(format!("no open TCP sockets: {error}"))),
        }
        self.settle(&mut now);
        for process in &mut sample.processes {
            Carried::default().tell(process);
            process.count_from(self.since);
        }
        self.before = told(&mut sample.processes, &now);
        self.tell_shares();
    }
}

impl Tcp {
    /// Adds what processes keep of sockets they have let go; none falls below what it had.
    fn settle(&self, now: &mut HashMap<Identity, Carried>) {
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
fn told(processes: &mut [Process], now: &HashMap<Identity, Carried>) -> HashMap<Identity, Totals> {
    let mut carried = HashMap::new();
    for (id, now) in now {
        let Ok(index) = processes.binary_search_by_key(id, |it| it.id) else { continue };
        now.tell(&mut processes[index]);
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

fn add_open(now: &mut HashMap<Identity, Carried>, sockets: Vec<Open>) {
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
}
