//! TCP by process without BPF: a dump of the kernel's sockets (`sock_diag(7)`), and who holds them.
//!
//! In: the processes of a sample. Out: their TCP fields, where we may see what they have open. A
//! socket that closes between two readings keeps what it had at the last one, so its end is
//! missed, and one that lived in between is missed as a whole. Knows the sockets of its own
//! network namespace only.

mod dump;
mod info;
mod socket_owner;

use super::tcp::{TcpTraffic, sum};
use dump::{Dump, Socket};
use monitor_backend::Error;
use monitor_ebpf::abi::tcp::{Counters, TcpTotals};
use monitor_model::degradation::NO_TCP;
use monitor_model::id::{Identity, Ns};
use monitor_model::sample::{Note, Process};
use socket_owner::{FdAccess, SocketOwners};
use std::collections::HashMap;
use std::path::PathBuf;

/// What such numbers miss, for whoever must say so.
pub const MISSES: &str = "read from the kernel's list of sockets: one that closes between two \
                          readings loses what it carried since the last, and those of other \
                          network namespaces are not seen";
/// Where they are from, for whoever lists hooks.
pub const SOURCES: [&str; 2] = ["inet_diag", "/proc/<pid>/fd"];

/// The sockets, and what closed ones have left.
#[derive(Debug)]
pub struct InetDiag {
    dump: Dump,
    holders: SocketOwners,
    /// By cookie, the sockets of the last reading that have a holder.
    known: HashMap<u64, Known>,
    /// What processes keep of sockets that they had.
    kept: HashMap<Identity, TcpTotals>,
}

/// A socket, and whose it is.
#[derive(Clone, Copy, Debug)]
struct Known {
    holder: Identity,
    socket: Socket,
    /// What it had carried when this holder got it.
    before: Counters,
}

impl Known {
    fn carried(&self) -> Counters {
        self.socket.counters.since(&self.before)
    }
}

impl InetDiag {
    /// Opens the dump, and tries it; `proc` is where processes are looked up.
    pub fn open(proc: PathBuf) -> Result<Self, Error> {
        let mut dump = Dump::open()?;
        let _tried = dump.sockets()?;
        let (known, kept) = (HashMap::new(), HashMap::new());
        Ok(Self { dump, holders: SocketOwners::new(proc), known, kept })
    }

    /// Sets the TCP fields of processes. The note says whose could not be told.
    pub fn merge_into(
        &mut self,
        processes: &mut [Process],
        now: Ns,
    ) -> Result<Option<Note>, Error> {
        let sockets = self.dump.sockets()?;
        self.holders.learn(processes, &sockets, now);
        self.follow(&sockets);
        let mut carried: HashMap<Identity, TcpTraffic> = self
            .kept
            .iter()
            .map(|(holder, totals)| (*holder, TcpTraffic::closed(*totals)))
            .collect();
        for known in self.known.values() {
            let it = carried.entry(known.holder).or_default();
            it.add_open(known.socket.family, &known.carried(), known.socket.srtt_us8);
        }
        let mut hidden = 0;
        for process in processes.iter_mut() {
            match self.holders.access(process.id) {
                FdAccess::Clear | FdAccess::Over => {
                    carried.get(&process.id).copied().unwrap_or_default().set_fields(process);
                }
                FdAccess::Denied => hidden += 1,
                FdAccess::Late => {}
            }
        }
        self.kept.retain(|holder, _| self.holders.lives(*holder));
        Ok((hidden > 0).then(|| {
            Note::remark(format!(
                "{NO_TCP}{hidden} processes: what others have open needs CAP_SYS_PTRACE"
            ))
        }))
    }

    /// Brings every known socket up to date. What is gone stays with its holder.
    fn follow(&mut self, sockets: &[Socket]) {
        let mut before = std::mem::take(&mut self.known);
        for socket in sockets {
            let old = before.remove(&socket.cookie);
            // One without an inode has been closed, and still sends what was written.
            let holder = self.holders.owner(socket.inode).or(old.map(|known| known.holder));
            let Some(holder) = holder else { continue };
            let known = self.handed(old, holder, *socket);
            let _ = self.known.insert(socket.cookie, known);
        }
        before.into_values().for_each(|gone| self.keep(&gone));
    }

    /// A socket, after its earlier holder was given what it carried until now.
    fn handed(&mut self, old: Option<Known>, holder: Identity, socket: Socket) -> Known {
        let Some(old) = old else { return Known { holder, socket, before: Counters::default() } };
        let reset = socket.counters.sent_bytes < old.socket.counters.sent_bytes
            || socket.counters.received_bytes < old.socket.counters.received_bytes;
        if old.holder == holder && !reset {
            return Known { socket, ..old };
        }
        self.keep(&old);
        let before = if reset { Counters::default() } else { old.socket.counters };
        Known { holder, socket, before }
    }

    fn keep(&mut self, known: &Known) {
        let mut totals = TcpTotals::default();
        totals.add(known.socket.family, &known.carried());
        let kept = self.kept.entry(known.holder).or_default();
        *kept = sum(kept, &totals);
    }
}
