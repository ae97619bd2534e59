//! Payload of every socket by process: the table that one of the ways of `socket_way.rs` fills.
//!
//! In: rows by owner. Out: the UDP and socket fields of every process; calls only where calls are
//! seen.

use super::kernel::Kernel;
use super::object::{Fallback, Object};
use super::owner::{self, Owners};
use super::part::Part;
use super::socket_way::{Sees, WAYS};
use monitor_backend::Error;
use monitor_ebpf::abi::socket::{self, Totals};
use monitor_model::field::ProcessField as F;
use monitor_model::field::process::ProcessRow;
use monitor_model::id::Ns;
use monitor_model::sample::{Note, Sample};

/// The socket hooks and what they have counted.
pub struct Socket {
    object: Object,
    owners: Owners,
    since: Ns,
    sees: Sees,
}

impl Socket {
    /// Attaches the first way that this kernel takes.
    pub fn load(kernel: &Kernel, since: Ns) -> Result<Self, Error> {
        let mut refused: Vec<String> = Vec::new();
        for way in WAYS {
            match (way.attach)(kernel) {
                Ok(mut object) => {
                    if let Some(misses) = way.misses {
                        let why = format!("{misses}; {}", refused.join("; "));
                        object.fell_back(Fallback { why, exact: false });
                    }
                    return Ok(Self { object, owners: Owners::default(), since, sees: way.sees });
                }
                Err(error) => refused.push(error.to_string()),
            }
        }
        Err(Error::Unsupported {
            what: "counting payload by socket".into(),
            why: refused.join("; "),
            fix: "kernel 6.3 has tracepoints for it; TCP is counted without them".into(),
        })
    }

    fn set(&self, row: &mut ProcessRow, Totals { sent, received }: &Totals) {
        row.set(F::UdpSent, sent.udp4_bytes + sent.udp6_bytes);
        row.set(F::UdpReceived, received.udp4_bytes + received.udp6_bytes);
        row.set(F::Udp6Sent, sent.udp6_bytes);
        row.set(F::Udp6Received, received.udp6_bytes);
        row.set(F::SocketSent, sent.bytes);
        row.set(F::SocketReceived, received.bytes);
        if self.sees == Sees::Calls {
            row.set(F::SocketSendCalls, sent.calls);
            row.set(F::SocketReceiveCalls, received.calls);
        }
    }

    /// Packets that came for sockets nobody is known for.
    fn unowned(&self) -> Option<Note> {
        let packets =
            if self.sees == Sees::Packets { self.object.number(socket::UNOWNED) } else { 0 };
        (packets > 0).then(|| {
            Note::remark(format!(
                "{packets} packets are counted for no process: their sockets are older than the \
                 monitor and have not sent since"
            ))
        })
    }
}

impl Part for Socket {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn object_mut(&mut self) -> Option<&mut Object> {
        Some(&mut self.object)
    }

    fn join(&mut self, sample: &mut Sample) {
        let rows = self.owners.rows::<Totals>(&mut self.object, socket::TABLE, sample);
        for process in &mut sample.processes {
            let totals = rows.get(&owner::of(process)).copied().unwrap_or_default();
            self.set(&mut process.row, &totals);
            process.count_from(self.since);
        }
        sample.notes.extend(self.unowned());
    }
}
