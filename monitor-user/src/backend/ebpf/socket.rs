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

/// Functions that send, each with an `fexit` program of its name.
const SENDS: [&str; 6] = [
    "inet_sendmsg",
    "inet6_sendmsg",
    "unix_stream_sendmsg",
    "unix_dgram_sendmsg",
    "netlink_sendmsg",
    "packet_sendmsg",
];

/// Functions that receive, likewise.
const RECEIVES: [&str; 6] = [
    "inet_recvmsg",
    "inet6_recvmsg",
    "unix_stream_recvmsg",
    "unix_dgram_recvmsg",
    "netlink_recvmsg",
    "packet_recvmsg",
];

/// Probes of any such function. Returns first: a call that is entered in between would be
/// remembered for ever.
const PROBES: [(&str, &str, [&str; 6]); 4] = [
    ("kretprobe", "send_return", SENDS),
    ("kprobe", "send_entry", SENDS),
    ("kretprobe", "receive_return", RECEIVES),
    ("kprobe", "receive_entry", RECEIVES),
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
    for function in SENDS.into_iter().chain(RECEIVES) {
        let hook = format!("fexit/{function}");
        let exit: &mut FExit = object.program(function)?;
        exit.load(function, &kernel.btf)
            .and_then(|()| exit.attach().map(drop))
            .map_err(|error| refused_program(&hook, error))?;
        object.hooked(hook);
    }
    Ok(object)
}

fn probes(kernel: &Kernel) -> Result<Object, Error> {
    let mut object = functions(kernel)?;
    for (kind, program, functions) in PROBES {
        let probe: &mut KProbe = object.program(program)?;
        probe.load().map_err(|error| refused_program(kind, error))?;
        for function in functions {
            let hook = format!("{kind}/{function}");
            let probe: &mut KProbe = object.program(program)?;
            let attached = probe.attach(function, 0).map(drop);
            attached.map_err(|error| refused_program(&hook, error))?;
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

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "it says which hooks this kernel has")]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    /// Bytes and calls that this process sent and received, by one way to count them.
    fn counted(object: &Object) -> [u64; 4] {
        let rows = object.rows::<Owner, Totals>(socket::TABLE);
        let ours = rows.iter().find(|(owner, _)| owner.tgid == std::process::id());
        let Totals { sent, received } = ours.map(|(_, totals)| *totals).unwrap_or_default();
        [sent.udp4_bytes, sent.calls, received.udp4_bytes, received.calls]
    }

    #[test]
    fn root_every_way_that_this_kernel_takes_counts_the_same() {
        if !rustix::process::geteuid().is_root() {
            let name = "root_every_way_that_this_kernel_takes_counts_the_same";
            assert!(std::env::var_os("MONITOR_REQUIRE_ROOT").is_none(), "{name} needs root");
            println!("SKIP {name}: needs root to load BPF programs");
            return;
        }
        let kernel = Kernel::read(0).unwrap();
        for (name, way) in ["typed tracepoints", "fexit", "kprobe"].into_iter().zip(WAYS) {
            let object = match (way.attach)(&kernel) {
                Ok(object) => object,
                Err(error) => {
                    println!("{name}: {error}");
                    continue;
                }
            };
            let [a, b] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
            b.set_nonblocking(true).unwrap();
            assert!(b.recv(&mut [0; 8]).is_err());
            for _ in 0..23 {
                let _ = a.send_to(&[0; 101], b.local_addr().unwrap()).unwrap();
                let _ = b.peek(&mut [0; 128]).unwrap();
                let _ = b.recv(&mut [0; 128]).unwrap();
            }
            assert_eq!(counted(&object), [23 * 101, 23, 23 * 101, 23], "{name}");
            println!("{name}: 23 datagrams each way by {}", object.hooks().join(" "));
        }
    }
}
