//! Payload of every socket by process: exact bytes and calls at both ends.

use super::actor::Actor;
use super::privilege::granted;
use super::workload::{alive, processes, served};
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
