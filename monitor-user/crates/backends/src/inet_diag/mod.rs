//! TCP by process without BPF: a dump of the sockets (`sock_diag(7)`), and their owners.
//!
//! In: the processes of a sample. Out: the TCP fields of those whose descriptors we may read. A
//! socket that closes between two readings counts as at the last one, and one that existed only in
//! between is missed. Reads the sockets of its own network namespace only.

mod dump;
mod info;
mod socket_owner;

use super::tcp::{TcpTraffic, sum};
use dump::{Dump, Socket};
use monitor_backend::Error;
use monitor_ebpf::abi::tcp::{Counters, TcpTotals};
use monitor_model::{Capability, Identity, Note, NoteAbout, Ns, Process, degradation::NO_TCP};
use socket_owner::{FdAccess, SocketOwners};
use std::{collections::HashMap, path::PathBuf};

/// What these counters miss.
pub const MISSES: &str = "read from the list of all sockets: one that closes between two \
                          readings loses what it carried since the last, and those of other \
                          network namespaces are not seen";
/// Their sources, listed like hooks.
pub const SOURCES: [&str; 2] = ["inet_diag", "/proc/<pid>/fd"];

/// The sockets, and the traffic of closed ones.
#[derive(Debug)]
pub struct InetDiag {
    dump: Dump,
    owners: SocketOwners,
    /// By cookie, the sockets of the last reading that have an owner.
    known: HashMap<u64, Known>,
    /// Traffic that processes keep of sockets they no longer have.
    kept: HashMap<Identity, TcpTotals>,
}

/// A socket and its owner.
#[derive(Clone, Copy, Debug)]
struct Known {
    owner: Identity,
    socket: Socket,
    /// Its counters when this owner got it.
    before: Counters,
}

impl Known {
    fn traffic(&self) -> Counters {
        self.socket.counters.since(&self.before)
    }
}

impl InetDiag {
    /// Opens the dump, and tries it; `proc` is the root of `/proc`.
    pub fn open(proc: PathBuf) -> Result<Self, Error> {
        let mut dump = Dump::open()?;
        let _tried = dump.sockets()?;
        let (known, kept) = (HashMap::new(), HashMap::new());
        Ok(Self { dump, owners: SocketOwners::new(proc), known, kept })
    }

    /// Sets the TCP fields of processes. The notes report the number of those without.
    pub fn merge_into(&mut self, processes: &mut [Process], now: Ns) -> Result<Vec<Note>, Error> {
        let sockets = self.dump.sockets()?;
        self.owners.update(processes, &sockets, now);
        self.follow(&sockets);
        let kept = self.kept.iter().map(|(owner, totals)| (*owner, TcpTraffic::closed(*totals)));
        let mut traffic: HashMap<Identity, TcpTraffic> = kept.collect();
        for known in self.known.values() {
            let it = traffic.entry(known.owner).or_default();
            it.totals.add(known.socket.family, &known.traffic());
            it.add_open(known.socket.srtt_us8);
        }
        let (mut hidden, mut elsewhere) = (0, 0);
        for process in processes.iter_mut() {
            match self.owners.access(process.id) {
                FdAccess::Full | FdAccess::FullUntilExit => {
                    traffic.get(&process.id).copied().unwrap_or_default().set_fields(process);
                }
                FdAccess::Denied => hidden += 1,
                FdAccess::OtherNetwork => elsewhere += 1,
                FdAccess::Ended => {}
            }
        }
        self.kept.retain(|owner, _| self.owners.lives(*owner));
        Ok(absences(hidden, elsewhere))
    }

    /// Updates every known socket. The traffic of a closed one stays with its owner.
    fn follow(&mut self, sockets: &[Socket]) {
        let mut before = std::mem::take(&mut self.known);
        for socket in sockets {
            let old = before.remove(&socket.cookie);
            // One without an inode has been closed, and still sends what was written.
            let owner = self.owners.owner(socket.inode).or(old.map(|known| known.owner));
            let Some(owner) = owner else { continue };
            let known = self.transfer(old, owner, *socket);
            let _ = self.known.insert(socket.cookie, known);
        }
        before.into_values().for_each(|gone| self.keep(&gone));
    }

    /// A socket with its owner. If the owner has changed, the former one keeps the traffic so far.
    fn transfer(&mut self, old: Option<Known>, owner: Identity, socket: Socket) -> Known {
        let Some(old) = old else { return Known { owner, socket, before: Counters::default() } };
        let reset = socket.counters.sent_bytes < old.socket.counters.sent_bytes
            || socket.counters.received_bytes < old.socket.counters.received_bytes;
        if old.owner == owner && !reset {
            return Known { socket, ..old };
        }
        self.keep(&old);
        let before = if reset { Counters::default() } else { old.socket.counters };
        Known { owner, socket, before }
    }

    fn keep(&mut self, known: &Known) {
        let mut totals = TcpTotals::default();
        totals.add(known.socket.family, &known.traffic());
        let kept = self.kept.entry(known.owner).or_default();
        *kept = sum(kept, &totals);
    }
}

/// The notes on processes without counters: those whose descriptors may not be read, and those of
/// other network namespaces.
fn absences(hidden: u64, elsewhere: u64) -> Vec<Note> {
    let note = |count: u64, why: &str| {
        let about = NoteAbout::Capabilities(&[Capability::Tcp]);
        (count > 0).then(|| Note::remark(format!("{NO_TCP}{count} processes: {why}")).about(about))
    };
    let hidden = note(hidden, "what others have open needs CAP_SYS_PTRACE");
    let elsewhere =
        note(elsewhere, "they are in other network namespaces, whose sockets are not listed");
    hidden.into_iter().chain(elsewhere).collect()
}
