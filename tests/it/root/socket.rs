//! Payload of every socket by process: exact bytes and calls at both ends.

use super::actor::Actor;
use super::privilege::granted;
use super::tcp::Pair;
use super::workload::{alive, exact, processes, served};
use monitor_backend::Backend as _;
use monitor_loader::Ebpf;
use monitor_model::field::ProcessField as F;
use monitor_model::read_spec::Capability;
use monitor_model::sample::Process;

const DATAGRAMS: u64 = 20_000;
const SIZE: u64 = 1_009;

/// The backend, where there is privilege and the kernel serves what is tested.
fn opened(test: &str) -> Option<Ebpf> {
    if granted(test) { served(test, &[Capability::Lifetimes, Capability::Sockets]) } else { None }
}

/// What the named fields of a process are.
fn values<const N: usize>(process: &Process, fields: [F; N]) -> [u64; N] {
    fields.map(|field| process.row.get(field).unwrap())
}

#[track_caller]
fn check_datagrams(mut backend: Ebpf, family: &str, address: &str, part_v6: u64) {
    let (mut client, mut server) = (Actor::new(), Actor::new());
    let port = server.run(&format!(
        "s = socket.socket(socket.{family}, socket.SOCK_DGRAM); s.bind(('{address}', 0)); \
         s.setsockopt(socket.SOL_SOCKET, 33, 128 << 20); it = s.getsockname()[1]", // RCVBUFFORCE
    ));
    server.begin(&format!("it = sum(len(s.recv(2048)) for _ in range({DATAGRAMS}))"));
    let _ = client.run(&format!(
        "s = socket.socket(socket.{family}, socket.SOCK_DGRAM); s.connect(('{address}', {port})); \
         it = [s.send(bytes({SIZE})) for _ in range({DATAGRAMS})][0]"
    ));
    assert_eq!(server.end(), DATAGRAMS * SIZE);
    let sample = backend.read(&processes()).unwrap();
    let [client, server] = [client.pid(), server.pid()].map(|pid| alive(&sample, pid).unwrap());
    let bytes = DATAGRAMS * SIZE;
    let fields = [F::UdpSent, F::Udp6Sent, F::SocketSent, F::SocketSendCalls];
    assert_eq!(values(client, fields), [bytes, part_v6 * bytes, bytes, DATAGRAMS]);
    let fields = [F::UdpReceived, F::Udp6Received, F::SocketReceived, F::SocketReceiveCalls];
    assert_eq!(values(server, fields), [bytes, part_v6 * bytes, bytes, DATAGRAMS]);
    println!("{family}: {DATAGRAMS} datagrams, {bytes} bytes at both ends");
}

#[test]
fn root_20_000_datagrams_over_ipv4_are_exact_at_both_ends() {
    if let Some(backend) = opened("root_20_000_datagrams_over_ipv4_are_exact_at_both_ends") {
        check_datagrams(backend, "AF_INET", "127.0.0.1", 0);
    }
}

#[test]
fn root_20_000_datagrams_over_ipv6_are_exact_at_both_ends() {
    if let Some(backend) = opened("root_20_000_datagrams_over_ipv6_are_exact_at_both_ends") {
        check_datagrams(backend, "AF_INET6", "::1", 1);
    }
}

#[test]
fn root_a_peek_and_an_error_carry_nothing() {
    let Some(mut backend) = opened("root_a_peek_and_an_error_carry_nothing") else { return };
    let mut actor = Actor::new();
    let _ = actor.run("a, b = socket.socketpair(); it = a.send(bytes(23))");
    let _ = actor.run("it = len(b.recv(99, socket.MSG_PEEK)) + len(b.recv(99))");
    // The last of these sends would have to wait, and fails.
    let filled = actor.run("it = fill(b)");
    let sample = backend.read(&processes()).unwrap();
    let fields = [F::SocketSent, F::SocketSendCalls, F::SocketReceived, F::SocketReceiveCalls];
    let got = values(alive(&sample, actor.pid()).unwrap(), fields);
    assert_eq!(got, [23 + filled, 1 + filled / 4_099, 23, 1]);
}

/// A process that has received 23 datagrams of this client on a socket for both protocols.
fn dual_stack_server(client: &mut Actor) -> Actor {
    let mut server = Actor::new();
    let port = server.run(
        "s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(('::', 0)); \
         it = s.getsockname()[1]",
    );
    server.begin("it = sum(len(s.recv(2048)) for _ in range(23))");
    let _ = client
        .run(&format!("it = sum(c.sendto(bytes(101), ('127.0.0.1', {port})) for _ in range(23))"));
    assert_eq!(server.end(), 23 * 101);
    server
}

#[test]
fn root_datagrams_over_ipv4_are_never_counted_as_ipv6() {
    let Some(mut backend) = opened("root_datagrams_over_ipv4_are_never_counted_as_ipv6") else {
        return;
    };
    let mut client = Actor::new();
    let _ = client.run("c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); it = 0");
    let server = dual_stack_server(&mut client);
    // Bound to a v4-mapped address, which shows the protocol.
    let mut mapped = Actor::new();
    let _ = mapped.run(
        "s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(('::ffff:127.0.0.1', 0)); \
         it = s.sendto(bytes(101), ('::ffff:127.0.0.1', 9))",
    );
    let sample = backend.read(&processes()).unwrap();
    let get = |actor: &Actor, field| alive(&sample, actor.pid()).unwrap().row.get(field);
    assert_eq!(get(&server, F::UdpReceived), Some(23 * 101));
    let v6 = get(&server, F::Udp6Received);
    if v6.is_none() {
        assert!(sample.notes.iter().any(|note| note.text.contains("UDP over IPv6")));
    }
    // Packets show it.
    assert!([None, Some(0)].contains(&v6), "{v6:?}");
    assert_eq!(get(&client, F::Udp6Sent), Some(0));
    assert_eq!((get(&mapped, F::UdpSent), get(&mapped, F::Udp6Sent)), (Some(101), Some(0)));
}

/// Moves what arrives at the socket `s` to `/dev/null`, by splice(2).
const SPLICE: &str = "p = os.pipe(); z = os.open('/dev/null', os.O_WRONLY); \
     splice = lambda: os.splice(s.fileno(), p[1], 1 << 16) and os.splice(p[0], z, 1 << 16)";

#[test]
fn root_splice_from_a_socket_counts_as_received() {
    let name = "root_splice_from_a_socket_counts_as_received";
    if !granted(name) {
        return;
    }
    let Some(mut backend) = exact(name, &[Capability::Lifetimes, Capability::Sockets]) else {
        return;
    };
    let mut pair = Pair::connected("AF_INET");
    // Some is received by a call before.
    pair.carry(10_007);
    let _ = pair.server.run(&format!("{SPLICE}; it = 1"));
    pair.server.begin("it = sum(iter(splice, 0))");
    let _ = pair.client.run("send(s, 1_000_003); s.shutdown(socket.SHUT_WR); it = 0");
    assert_eq!(pair.server.end(), 1_000_003);
    assert_eq!(pair.server.run("it = len(s.recv(99))"), 0, "only the end is left");
    let sample = backend.read(&processes()).unwrap();
    let [client, server] =
        [pair.client.pid(), pair.server.pid()].map(|pid| alive(&sample, pid).unwrap());
    assert_eq!(values(client, [F::SocketSent]), [1_010_010]);
    assert_eq!(values(server, [F::SocketReceived]), [1_010_010]);
}

#[test]
fn root_a_socket_that_is_older_than_the_hooks_counts_from_their_start() {
    let name = "root_a_socket_that_is_older_than_the_hooks_counts_from_their_start";
    if !granted(name) {
        return;
    }
    let mut pair = Pair::connected("AF_INET");
    pair.carry(1_000_003);
    let Some(mut backend) = exact(name, &[Capability::Lifetimes, Capability::Sockets]) else {
        return;
    };
    pair.carry(10_007);
    let sample = backend.read(&processes()).unwrap();
    let [client, server] =
        [pair.client.pid(), pair.server.pid()].map(|pid| alive(&sample, pid).unwrap());
    assert_eq!(values(client, [F::SocketSent]), [10_007]);
    assert_eq!(values(server, [F::SocketReceived]), [10_007]);
}

#[test]
fn root_a_short_lived_sender_leaves_its_datagrams() {
    let Some(mut backend) = opened("root_a_short_lived_sender_leaves_its_datagrams") else {
        return;
    };
    let mut actor = Actor::new();
    let pid = actor.pid();
    let _ = actor.run(
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); \
         it = sum(s.sendto(bytes(101), ('127.0.0.1', 9)) for _ in range(23))",
    );
    actor.leave();
    let mut sent = None;
    let _ = super::workload::until(&mut backend, &processes(), |sample| {
        let ended = sample.processes.iter().find(|it| it.id.pid == pid && it.ended());
        sent = ended.map(|it| it.row.get(F::UdpSent));
        sent.is_some()
    });
    assert_eq!(sent, Some(Some(23 * 101)));
}
