//! Variants of hooks that count socket payload, best first: typed tracepoints (6.3), `fexit`, the
//! tracepoints of calls alone, entry and return probes, packets.
//!
//! In: the running kernel. Out: an object whose programs fill the table of `abi/socket.rs`, or why
//! this kernel does not accept the variant. `socket.rs` selects one by trying.

use crate::iter_reader::{IterBuffer, IterProgram};
use crate::kernel::Kernel;
use crate::object::{Object, refused_program};
use aya::programs::ProgramError;
use aya::programs::{CgroupAttachMode, CgroupSkb, CgroupSkbAttachType, CgroupSock, FExit, KProbe};
use monitor_backend::Error;
use monitor_backends::host;
use monitor_ebpf::abi::socket;
use std::fs::File;

/// One variant of hooks.
pub struct SocketHooks {
    /// Loads and attaches its programs.
    pub attach: fn(&Kernel) -> Result<Object, Error>,
    /// What its programs see.
    pub sees: Sees,
    /// What it misses; none if it is exact.
    pub misses: Option<&'static str>,
}

/// What a program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sees {
    /// Each call, with its payload.
    Calls,
    /// Each packet.
    Packets,
}

/// All variants, best first.
pub const VARIANTS: [SocketHooks; 5] = [
    SocketHooks { attach: tracepoints, sees: Sees::Calls, misses: None },
    SocketHooks {
        attach: exits,
        sees: Sees::Calls,
        misses: Some(
            "exact for IP, UNIX, netlink and packet sockets; those of other families are not \
             counted",
        ),
    },
    SocketHooks {
        attach: call_tracepoints,
        sees: Sees::Calls,
        misses: Some(
            "without what splice(2), sendfile(2) and mappings take from TCP sockets that receive",
        ),
    },
    // The kernel tracks a limited number of returns at a time, about ten.
    SocketHooks {
        attach: probes,
        sees: Sees::Calls,
        misses: Some(
            "IP, UNIX, netlink and packet sockets only, without splice and sendfile, and calls are \
             missed while more than about ten threads wait in one function",
        ),
    },
    SocketHooks {
        attach: packets,
        sees: Sees::Packets,
        misses: Some(
            "from IP packets without headers: no other sockets, no calls; retransmissions and \
             packets dropped by a full socket count too; a socket belongs to its creator, for \
             UDP to its last sender",
        ),
    },
];

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

/// Functions that splice(2) and sendfile(2) call, likewise; 6.5 has only those that receive.
const PAGES: [&str; 4] =
    ["tcp_splice_read", "unix_stream_splice_read", "inet_sendpage", "unix_stream_sendpage"];

/// Probes of any such function. Returns first: the entry of a call made in between would never be
/// removed.
const PROBES: [(&str, &str, [&str; 6]); 4] = [
    ("kretprobe", "send_return", SENDS),
    ("kprobe", "send_entry", SENDS),
    ("kretprobe", "receive_return", RECEIVES),
    ("kprobe", "receive_entry", RECEIVES),
];

/// Loads an object, with a row for each active process in these maps.
fn load(name: &'static str, kernel: &Kernel, maps: &[&'static str]) -> Result<Object, Error> {
    let sizes: Vec<_> = maps.iter().map(|map| (*map, kernel.machine.rows())).collect();
    Object::load(name, kernel, &[], &sizes)
}

/// Stores what was taken from the sockets that are open.
const MARK: IterProgram = IterProgram { name: "mark", walks: "task_file", map: None };

fn tracepoints(kernel: &Kernel) -> Result<Object, Error> {
    let mut object = load("socket", kernel, &[socket::TABLE])?;
    object.attach("send", "sock_send_length", &kernel.btf)?;
    // First: what was taken from open sockets before is not counted.
    MARK.load(&mut object, &kernel.btf)?;
    let _nothing = IterBuffer::new().read(&mut object, &MARK)?;
    object.attach("receive", "sock_recv_length", &kernel.btf)?;
    object.attach("take", "tcp_rcv_space_adjust", &kernel.btf)?;
    Ok(object)
}

/// For kernels that do not trust the socket of a file, so that open sockets cannot be marked.
fn call_tracepoints(kernel: &Kernel) -> Result<Object, Error> {
    let mut object = load("socket", kernel, &[socket::TABLE])?;
    object.attach("send", "sock_send_length", &kernel.btf)?;
    object.attach("receive_call", "sock_recv_length", &kernel.btf)?;
    Ok(object)
}

fn functions(kernel: &Kernel) -> Result<Object, Error> {
    load("socket_function", kernel, &[socket::TABLE, socket::CALLS])
}

fn exits(kernel: &Kernel) -> Result<Object, Error> {
    let mut object = functions(kernel)?;
    for function in SENDS.into_iter().chain(RECEIVES) {
        let hook = format!("fexit/{function}");
        let attached = attach_exit(&mut object, function, kernel)?;
        object.add_attached(hook, attached)?;
    }
    for function in PAGES {
        // A function that this kernel does not have is none of its ways to transfer.
        match attach_exit(&mut object, function, kernel)? {
            Err(ProgramError::Btf(_)) => {}
            attached => object.add_attached(format!("fexit/{function}"), attached)?,
        }
    }
    Ok(object)
}

/// Attaches the `fexit` program of a function, which has its name.
fn attach_exit(
    object: &mut Object,
    function: &str,
    kernel: &Kernel,
) -> Result<Result<(), ProgramError>, Error> {
    let exit: &mut FExit = object.program(function)?;
    Ok(exit.load(function, &kernel.btf).and_then(|()| exit.attach().map(drop)))
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
            object.add_attached(hook, attached)?;
        }
    }
    Ok(object)
}

/// Attaches to the root of the unified hierarchy, which all packets of the node pass.
fn packets(kernel: &Kernel) -> Result<Object, Error> {
    let root = host::cgroup_root().ok_or_else(|| {
        Error::unsupported(
            "counting packets by cgroup",
            "the unified cgroup hierarchy is not mounted",
            "mount cgroup v2",
        )
    })?;
    let opened = File::open(&root);
    let what = root.display().to_string();
    let root = opened.map_err(|source| Error::kernel("open", what, source))?;
    let mut object = load("socket_packet", kernel, &[socket::TABLE])?;
    attach_create(&mut object, &root).map_err(with_net_admin)?;
    for program in ["ingress", "egress"] {
        attach_packets(&mut object, program, &root).map_err(with_net_admin)?;
    }
    Ok(object)
}

fn attach_create(object: &mut Object, root: &File) -> Result<(), Error> {
    let program: &mut CgroupSock = object.program("create")?;
    let mode = CgroupAttachMode::Single;
    let attached = program.load().and_then(|()| program.attach(root, mode).map(drop));
    object.add_attached("cgroup/sock_create", attached)
}

fn attach_packets(object: &mut Object, name: &str, root: &File) -> Result<(), Error> {
    let direction = match name {
        "ingress" => CgroupSkbAttachType::Ingress,
        _ => CgroupSkbAttachType::Egress,
    };
    let program: &mut CgroupSkb = object.program(name)?;
    let mode = CgroupAttachMode::Single;
    let attached = program.load().and_then(|()| program.attach(root, direction, mode).map(drop));
    object.add_attached(format!("cgroup_skb/{name}"), attached)
}

/// Cgroup programs also need CAP_NET_ADMIN.
fn with_net_admin(error: Error) -> Error {
    match error {
        Error::Denied { what, .. } => {
            Error::Denied { what, need: "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN".into() }
        }
        other => other,
    }
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "prints the hooks of this kernel")]
mod tests {
    use super::*;
    use monitor_ebpf::abi::Owner;
    use monitor_ebpf::abi::socket::SocketTotals;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    /// Payload of this process, as counted by one variant.
    fn counted(object: &Object) -> SocketTotals {
        let rows = object.rows::<Owner, SocketTotals>(socket::TABLE);
        let ours = rows.iter().find(|(owner, _)| owner.tgid == std::process::id());
        ours.map(|(_, totals)| *totals).unwrap_or_default()
    }

    /// 23 datagrams, each peeked before it is received.
    fn datagrams(address: &str) {
        let [a, b] = [(); 2].map(|()| UdpSocket::bind(address).unwrap());
        b.set_nonblocking(true).unwrap();
        assert!(b.recv(&mut [0; 8]).is_err());
        for _ in 0..23 {
            let _ = a.send_to(&[0; 101], b.local_addr().unwrap()).unwrap();
            let _ = b.peek(&mut [0; 128]).unwrap();
            let _ = b.recv(&mut [0; 128]).unwrap();
        }
    }

    const STREAM: u64 = 64 << 20;

    /// 64 MiB through a connection from this process to itself.
    fn stream() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut server = listener.accept().unwrap().0;
        let sender = std::thread::spawn(move || {
            for _ in 0..STREAM >> 16 {
                client.write_all(&[0; 1 << 16]).unwrap();
            }
        });
        let mut left = vec![0; 1 << 16];
        for _ in 0..STREAM >> 16 {
            server.read_exact(&mut left).unwrap();
        }
        sender.join().unwrap();
    }

    fn check(object: &Object, sees: Sees) {
        datagrams("127.0.0.1:0");
        let SocketTotals { sent, received } = counted(object);
        assert_eq!([sent.udp4_bytes, received.udp4_bytes], [23 * 101; 2]);
        assert_eq!([sent.calls, received.calls], [23; 2]);
        datagrams("[::1]:0");
        let SocketTotals { sent, received } = counted(object);
        assert_eq!([sent.udp6_bytes, received.udp6_bytes], [23 * 101; 2]);
        stream();
        let before = [sent.bytes, received.bytes];
        let SocketTotals { sent, received } = counted(object);
        let carried = [sent.bytes - before[0], received.bytes - before[1]];
        println!("    64 MiB by TCP: {} sent, {} received", carried[0], carried[1]);
        match sees {
            Sees::Calls => assert_eq!(carried, [STREAM; 2]),
            // On a loaded machine there are some retransmissions.
            Sees::Packets => {
                assert!(carried.iter().all(|it| (STREAM..STREAM + STREAM / 100).contains(it)));
            }
        }
    }

    #[test]
    fn root_every_variant_of_socket_hooks_counts_the_same() {
        if !rustix::process::geteuid().is_root() {
            let name = "root_every_variant_of_socket_hooks_counts_the_same";
            assert!(std::env::var_os("MONITOR_REQUIRE_ROOT").is_none(), "{name} needs root");
            println!("SKIP {name}: needs root to load BPF programs");
            return;
        }
        let kernel = Kernel::read(0).unwrap();
        let names = ["tracepoints", "fexit", "tracepoints of calls", "kprobe", "cgroup_skb"];
        for (name, hooks) in names.into_iter().zip(VARIANTS) {
            match (hooks.attach)(&kernel) {
                Ok(object) => {
                    println!("{name}: {}", object.hooks.join(" "));
                    check(&object, hooks.sees);
                }
                Err(error) => println!("{name}: {error}"),
            }
        }
    }
}
