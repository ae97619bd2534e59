//! Payload of every socket by process: the table that `bin/socket.rs` or one of its stand-ins
//! fills.
//!
//! In: rows by owner. Out: the UDP and socket fields of every process. The hooks are tried in
//! turn: typed tracepoints (6.3), `fexit`, entry and return probes.

use super::kernel::Kernel;
use super::object::{Fallback, Object, Settings, refused_program};
use super::owner::{self, Owners};
use super::part::Part;
use crate::backend::Error;
use crate::model::field::ProcessField as F;
use crate::model::field::process::ProcessRow;
use crate::model::id::Ns;
use crate::model::sample::Sample;
use aya::programs::{FExit, KProbe};
use monitor_ebpf::abi::Owner;
use monitor_ebpf::abi::socket::{self, Totals};
use std::collections::HashMap;

/// Programs on the exit of a function, and the function.
const EXITS: [(&str, &str); 6] = [
    ("inet_send", "inet_sendmsg"),
    ("inet6_send", "inet6_sendmsg"),
    ("sock_send", "sock_sendmsg"),
    ("inet_receive", "inet_recvmsg"),
    ("inet6_receive", "inet6_recvmsg"),
    ("sock_receive", "sock_recvmsg"),
];

/// Programs at the return and at the entry of functions. Returns first: a call that is entered
/// in between would be remembered for ever.
const PROBES: [(&str, &[&str]); 8] = [
    ("ip_send_return", &["inet_sendmsg", "inet6_sendmsg"]),
    ("ip_send_entry", &["inet_sendmsg", "inet6_sendmsg"]),
    ("other_send_return", &["sock_sendmsg"]),
    ("other_send_entry", &["sock_sendmsg"]),
    ("ip_receive_return", &["inet_recvmsg", "inet6_recvmsg"]),
    ("ip_receive_entry", &["inet_recvmsg", "inet6_recvmsg"]),
    ("other_receive_return", &["sock_recvmsg"]),
    ("other_receive_entry", &["sock_recvmsg"]),
];

/// One way to see every call.
struct Way {
    attach: fn(&Kernel) -> Result<Object, Error>,
    /// Whether it misses nothing.
    exact: bool,
}

/// Best first.
const WAYS: [Way; 3] = [
    Way { attach: tracepoints, exact: true },
    Way { attach: exits, exact: true },
    // The kernel follows a limited number of returns at once, about ten: with more threads than
    // that waiting for data, calls are missed.
    Way { attach: probes, exact: false },
];

/// The socket hooks and what they have counted.
pub struct Socket {
    object: Object,
    owners: Owners,
    since: Ns,
}

impl Socket {
    /// Attaches the first way that this kernel takes.
    pub fn load(kernel: &Kernel, since: Ns) -> Result<Self, Error> {
        let mut refused: Vec<String> = Vec::new();
        for way in WAYS {
            match (way.attach)(kernel) {
                Ok(mut object) => {
                    if !refused.is_empty() {
                        let why = refused.join("; ");
                        object.fell_back(Fallback { why, exact: way.exact });
                    }
                    return Ok(Self { object, owners: Owners::default(), since });
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
}

fn sized<'a>(kernel: &Kernel, maps: &'a mut [(&'static str, u32)]) -> Settings<'a> {
    maps.iter_mut().for_each(|(_, size)| *size = kernel.machine.rows());
    Settings { constants: &[], sizes: maps }
}

fn tracepoints(kernel: &Kernel) -> Result<Object, Error> {
    let mut maps = [(socket::TABLE, 0)];
    let mut object = Object::load("socket", kernel, &sized(kernel, &mut maps))?;
    object.attach("send", "sock_send_length", kernel)?;
    object.attach("receive", "sock_recv_length", kernel)?;
    Ok(object)
}

fn functions(kernel: &Kernel) -> Result<Object, Error> {
    let mut maps = [(socket::TABLE, 0), (socket::CALLS, 0)];
    Object::load("socket_function", kernel, &sized(kernel, &mut maps))
}

fn exits(kernel: &Kernel) -> Result<Object, Error> {
    let mut object = functions(kernel)?;
    for (program, function) in EXITS {
        let hook = format!("fexit/{function}");
        let exit: &mut FExit = object.program(program)?;
        exit.load(function, &kernel.btf)
            .and_then(|()| exit.attach().map(drop))
            .map_err(|error| refused_program(&hook, error))?;
        object.hooked(hook);
    }
    Ok(object)
}

fn probes(kernel: &Kernel) -> Result<Object, Error> {
    let mut object = functions(kernel)?;
    for (program, functions) in PROBES {
        let kind = if program.ends_with("_entry") { "kprobe" } else { "kretprobe" };
        for (index, function) in functions.iter().enumerate() {
            let hook = format!("{kind}/{function}");
            let probe: &mut KProbe = object.program(program)?;
            let loaded = if index == 0 { probe.load() } else { Ok(()) };
            loaded
                .and_then(|()| probe.attach(*function, 0).map(drop))
                .map_err(|error| refused_program(&hook, error))?;
            object.hooked(hook);
        }
    }
    Ok(object)
}

impl Part for Socket {
    fn object(&self) -> &Object {
        &self.object
    }

    fn object_mut(&mut self) -> &mut Object {
        &mut self.object
    }

    fn join(&mut self, sample: &mut Sample) {
        let processes = &mut sample.processes;
        let rows: HashMap<_, _> =
            self.object.rows::<Owner, Totals>(socket::TABLE).into_iter().collect();
        self.owners.settle(rows.keys().copied(), processes, sample.at.boot);
        for process in processes.iter_mut() {
            let owner = owner::of(process);
            set(&mut process.row, &rows.get(&owner).copied().unwrap_or_default());
            process.count_from(self.since);
        }
        let ended = rows.into_keys().filter(|owner| owner::ended(processes, *owner));
        self.object.remove_rows::<Owner, Totals>(socket::TABLE, ended);
    }
}

fn set(row: &mut ProcessRow, Totals { sent, received }: &Totals) {
    row.set(F::UdpSent, sent.udp4_bytes + sent.udp6_bytes);
    row.set(F::UdpReceived, received.udp4_bytes + received.udp6_bytes);
    row.set(F::Udp6Sent, sent.udp6_bytes);
    row.set(F::Udp6Received, received.udp6_bytes);
    row.set(F::SocketSendCalls, sent.calls);
    row.set(F::SocketReceiveCalls, received.calls);
    row.set(F::SocketSent, sent.bytes);
    row.set(F::SocketReceived, received.bytes);
}
