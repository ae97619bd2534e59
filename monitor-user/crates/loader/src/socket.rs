//! Payload of every socket by process: the table filled by one of the variants of
//! `socket_hooks.rs`.
//!
//! In: rows by owner. Out: the UDP and socket fields of every process; calls only if the hooks see
//! calls.

use crate::object::{Fallback, Object};
use crate::owner::{self, MissingOwners};
use crate::socket_hooks::{Sees, VARIANTS};
use crate::{kernel::Kernel, probe_reader::ProbeReader};
use monitor_backend::Error;
use monitor_ebpf::abi::Owner;
use monitor_ebpf::abi::socket::{self, Payload, SocketTotals};
use monitor_model::{
    Capability, Note, NoteAbout, Ns, ProcessRow, Sample, field::ProcessField as F,
};
use std::collections::HashMap;

/// The socket hooks and what they have counted.
pub struct Socket {
    object: Object,
    owners: MissingOwners,
    since: Ns,
    sees: Sees,
}

impl Socket {
    /// Attaches the first variant that this kernel accepts.
    pub fn load(kernel: &Kernel, since: Ns) -> Result<Self, Error> {
        let mut refused: Vec<String> = Vec::new();
        for hooks in VARIANTS {
            match (hooks.attach)(kernel) {
                Ok(mut object) => {
                    if let Some(misses) = hooks.misses {
                        object.fallback = Some(Fallback { misses, refused: refused.join("; ") });
                    }
                    return Ok(Self {
                        object,
                        owners: MissingOwners::default(),
                        since,
                        sees: hooks.sees,
                    });
                }
                Err(error) => refused.push(error.to_string()),
            }
        }
        Err(Error::unsupported(
            "counting payload by socket",
            refused.join("; "),
            "kernel 6.3 has tracepoints for it; TCP is counted without them",
        ))
    }

    fn set(&self, row: &mut ProcessRow, SocketTotals { sent, received }: &SocketTotals) {
        row.set(F::UdpSent, udp(sent));
        row.set(F::UdpReceived, udp(received));
        row.set_some(F::Udp6Sent, udp6(sent));
        row.set_some(F::Udp6Received, udp6(received));
        row.set(F::SocketSent, sent.bytes);
        row.set(F::SocketReceived, received.bytes);
        if self.sees == Sees::Calls {
            row.set(F::SocketSendCalls, sent.calls);
            row.set(F::SocketReceiveCalls, received.calls);
        }
    }

    /// Note on datagrams whose protocol is not known.
    fn dual_note(rows: &HashMap<Owner, SocketTotals>) -> Option<Note> {
        let is_dual = |it: &&SocketTotals| udp6(&it.sent).and(udp6(&it.received)).is_none();
        let count = rows.values().filter(is_dual).count();
        (count > 0).then(|| {
            Note::remark(format!(
                "UDP over IPv6 of {count} processes is not known: their sockets use IPv4 too, and \
                 a call does not show which"
            ))
            .about(NoteAbout::Capabilities(&[Capability::Sockets]))
        })
    }

    /// Note on packets of sockets without a known owner.
    fn unowned_note(&self) -> Option<Note> {
        let packets =
            if self.sees == Sees::Packets { self.object.number(socket::UNOWNED) } else { 0 };
        (packets > 0).then(|| {
            Note::remark(format!(
                "{packets} packets are counted for no process: their sockets are older than the \
                 monitor and have not sent since"
            ))
            .about(NoteAbout::Capabilities(&[Capability::Sockets]))
        })
    }
}

/// Bytes in datagrams, by any protocol.
const fn udp(payload: &Payload) -> u64 {
    payload.udp4_bytes + payload.udp6_bytes + payload.udp_dual_bytes
}

/// Bytes in datagrams over IPv6; none if there were datagrams of unknown protocol.
const fn udp6(payload: &Payload) -> Option<u64> {
    if payload.udp_dual_bytes == 0 { Some(payload.udp6_bytes) } else { None }
}

impl ProbeReader for Socket {
    fn object(&self) -> Option<&Object> {
        Some(&self.object)
    }

    fn merge_into(&mut self, sample: &mut Sample) {
        let rows = self.owners.rows::<SocketTotals>(&mut self.object, socket::TABLE, sample);
        for process in &mut sample.processes {
            let totals = rows.get(&owner::from_process(process)).copied().unwrap_or_default();
            self.set(&mut process.row, &totals);
            process.count_from(self.since);
        }
        sample.notes.extend(Self::dual_note(&rows));
        sample.notes.extend(self.unowned_note());
    }
}
