//! TCP by process: exact payload at both ends, while open and after close.

use super::actor::Actor;
use super::privilege::granted;
use super::workload::{alive, exact, processes, until};
use monitor_backend::Backend as _;
use monitor_loader::{Ebpf, Readings};
use monitor_model::field::ProcessField as F;
use monitor_model::id::Pid;
use monitor_model::read_spec::Capability;
use monitor_model::sample::{Process, Sample};

const MIB_64: u64 = 64 << 20;
const CAPABILITIES: &[Capability] = &[Capability::Lifetimes, Capability::Tcp];

/// A client and a server with a connection between them, each holding its end as `s`.
pub struct Pair {
    /// The side that connects.
    pub client: Actor,
    /// The side that listens.
    pub server: Actor,
}

impl Pair {
    /// Makes both and connects them.
    pub fn connected(family: &str) -> Self {
        Self::between(Actor::new(), Actor::new(), family)
    }

    /// Connects two processes.
    pub fn between(mut client: Actor, mut server: Actor, family: &str) -> Self {
        let port = server.run(&format!("l = listening(socket.{family}); it = l.getsockname()[1]"));
        server.begin("s = l.accept()[0]");
        let _ = client.run(&format!("s = connected(socket.{family}, {port})"));
        let _ = server.end();
        Self { client, server }
    }

    /// Sends that much from the client to the server.
    pub fn carry(&mut self, bytes: u64) {
        self.server.begin(&format!("receive(s, {bytes})"));
        let _ = self.client.run(&format!("send(s, {bytes})"));
        let _ = self.server.end();
    }

    /// Lets both do the same.
    pub fn both(&mut self, statement: &str) {
        let _ = self.client.run(statement);
        let _ = self.server.run(statement);
    }

    /// What each end has sent and received.
    pub fn payload(&self, sample: &Sample) -> [[u64; 2]; 2] {
        [self.client.pid(), self.server.pid()].map(|pid| payload(alive(sample, pid).unwrap()))
    }
}

/// The backend, where there is privilege and the kernel serves what is tested.
pub fn opened(test: &str) -> Option<Ebpf> {
    if granted(test) { exact(test, CAPABILITIES) } else { None }
}

/// What a process has sent and received.
pub fn payload(process: &Process) -> [u64; 2] {
    [F::TcpSent, F::TcpReceived].map(|field| process.row.get(field).unwrap())
}

/// A reading of all processes.
pub fn read(backend: &mut Ebpf) -> Sample {
    backend.read(&processes()).unwrap()
}

#[track_caller]
fn check_64_mib(mut backend: Ebpf, family: &str, part_v6: u64) {
    let mut pair = Pair::connected(family);
    pair.carry(MIB_64);
    let want = [[MIB_64, 0], [0, MIB_64]];
    let open = read(&mut backend);
    assert_eq!(pair.payload(&open), want, "while open");
    pair.both("s.close()");
    let closed = read(&mut backend);
    assert_eq!(pair.payload(&closed), want, "after close");
    let client = alive(&closed, pair.client.pid()).unwrap();
    let server = alive(&closed, pair.server.pid()).unwrap();
    assert_eq!(client.row.get(F::Tcp6Sent), Some(part_v6));
    assert_eq!(server.row.get(F::Tcp6Received), Some(part_v6));
    let [out, back] = [F::TcpSegmentsOut, F::TcpSegmentsIn].map(|it| client.row.get(it).unwrap());
    assert!(out >= MIB_64 / 65_536 && back > 0, "{out} segments sent, {back} received");
    println!("{family}: {want:?} open and closed, {out} segments out, {back} in");
}

#[test]
fn root_a_single_reading_attaches_no_hook_of_tcp() {
    let Some(many) = opened("root_a_single_reading_attaches_no_hook_of_tcp") else { return };
    let hooks = |mut backend: Ebpf| {
        let probes = backend.probes();
        let tcp = probes.into_iter().find(|it| it.capability == Capability::Tcp);
        tcp.map_or_else(Vec::new, |it| it.hooks)
    };
    let one = Ebpf::open_for(Readings::One, &[Capability::Tcp], 0).unwrap();
    assert_eq!(hooks(one), ["iter/task_file", "iter/bpf_sk_storage_map"]);
    assert_eq!(hooks(many).len(), 4);
}

#[test]
fn root_64_mib_over_ipv4_are_exact_at_both_ends() {
    if let Some(backend) = opened("root_64_mib_over_ipv4_are_exact_at_both_ends") {
        check_64_mib(backend, "AF_INET", 0);
    }
}

#[test]
fn root_64_mib_over_ipv6_are_exact_at_both_ends() {
    if let Some(backend) = opened("root_64_mib_over_ipv6_are_exact_at_both_ends") {
        check_64_mib(backend, "AF_INET6", MIB_64);
    }
}

#[test]
fn root_a_v4_mapped_connection_counts_as_v4() {
    let Some(mut backend) = opened("root_a_v4_mapped_connection_counts_as_v4") else { return };
    let (mut client, mut server) = (Actor::new(), Actor::new());
    let port = server.run("l = listening(socket.AF_INET6); it = l.getsockname()[1]");
    server.begin("s = l.accept()[0]; receive(s, 23)");
    let _ = client.run(&format!("s = connected(socket.AF_INET, {port}); send(s, 23)"));
    let _ = server.end();
    let sample = read(&mut backend);
    let server = alive(&sample, server.pid()).unwrap();
    assert_eq!(payload(server), [0, 23]);
    assert_eq!(server.row.get(F::Tcp6Received), Some(0));
}

#[test]
fn root_data_still_unacknowledged_at_close_counts() {
    let Some(mut backend) = opened("root_data_still_unacknowledged_at_close_counts") else {
        return;
    };
    let mut pair = Pair::connected("AF_INET");
    let force = "s.setsockopt(socket.SOL_SOCKET, 32, 8 << 20)"; // SO_SNDBUFFORCE
    let written = pair.client.run(&format!("{force}; it = fill(s)"));
    let open = read(&mut backend);
    let queued = pair.payload(&open)[1][1];
    assert!(queued < written, "the peer has all {written} already");
    assert_eq!(pair.payload(&open)[0], [written, 0], "while open");
    let _ = pair.client.run("s.close()");
    assert_eq!(pair.payload(&read(&mut backend))[0], [written, 0], "closed, unacknowledged");
    let drained = pair.server.run("it = drain(s)");
    let _ = pair.server.run("s.close()");
    let done = read(&mut backend);
    assert_eq!((drained, pair.payload(&done)), (written, [[written, 0], [0, written]]));
    println!("{written} written, {queued} queued at the peer when it closed, all counted");
}

#[test]
fn root_a_socket_shut_down_for_writing_still_receives() {
    let Some(mut backend) = opened("root_a_socket_shut_down_for_writing_still_receives") else {
        return;
    };
    let mut pair = Pair::connected("AF_INET6");
    pair.carry(1_000_003);
    let _ = pair.client.run("s.shutdown(socket.SHUT_WR)");
    assert_eq!(pair.payload(&read(&mut backend)), [[1_000_003, 0], [0, 1_000_003]]);
    pair.client.begin("it = drain(s)");
    let _ = pair.server.run("send(s, 2_000_003); s.close()");
    assert_eq!(pair.client.end(), 2_000_003);
    let want = [[1_000_003, 2_000_003], [2_000_003, 1_000_003]];
    assert_eq!(pair.payload(&read(&mut backend)), want, "drained, not closed");
    let _ = pair.client.run("s.close()");
    assert_eq!(pair.payload(&read(&mut backend)), want, "closed");
}

#[test]
fn root_a_reset_connection_keeps_its_count() {
    let Some(mut backend) = opened("root_a_reset_connection_keeps_its_count") else { return };
    let mut pair = Pair::connected("AF_INET");
    let _ = pair.client.run("send(s, 10_007)");
    // The server closes without reading: that resets the connection.
    let _ = until(&mut backend, &processes(), |it| pair.payload(it)[1][1] == 10_007);
    let _ = pair.server.run("s.close()");
    let want = [[10_007, 0], [0, 10_007]];
    assert_eq!(pair.payload(&read(&mut backend)), want, "reset");
    let _ = pair.client.run("s.close()");
    assert_eq!(pair.payload(&read(&mut backend)), want, "closed");
}

#[test]
fn root_a_refused_connection_carries_nothing() {
    let Some(mut backend) = opened("root_a_refused_connection_carries_nothing") else { return };
    let mut actor = Actor::new();
    let port = actor.run("l = socket.socket(); l.bind(('', 0)); it = l.getsockname()[1]");
    let _ = actor.run(&format!("s = socket.socket(); it = s.connect_ex(('127.0.0.1', {port}))"));
    assert_eq!(payload(alive(&read(&mut backend), actor.pid()).unwrap()), [0, 0]);
    let _ = actor.run("s.close()");
    assert_eq!(payload(alive(&read(&mut backend), actor.pid()).unwrap()), [0, 0]);
}

#[test]
fn root_a_short_lived_client_leaves_its_bytes() {
    let Some(mut backend) = opened("root_a_short_lived_client_leaves_its_bytes") else { return };
    let Pair { mut client, mut server } = Pair::connected("AF_INET");
    server.begin("it = drain(s)");
    let pid = client.pid();
    let _ = client.run("send(s, 5_000_011)");
    client.leave();
    assert_eq!(server.end(), 5_000_011);
    let ended = |sample: &Sample| {
        sample.processes.iter().find(|it| it.id.pid == pid && it.ended()).map(payload)
    };
    let mut got = None;
    let _ = until(&mut backend, &processes(), |sample| {
        got = ended(sample);
        got.is_some()
    });
    assert_eq!(got, Some([5_000_011, 0]));
}

#[test]
fn root_a_shared_socket_is_counted_once() {
    let Some(mut backend) = opened("root_a_shared_socket_is_counted_once") else { return };
    let mut pair = Pair::connected("AF_INET");
    let child = pair.client.run("p = subprocess.Popen(['sleep', '1000'], stdin=s); it = p.pid");
    let child = Pid(u32::try_from(child).unwrap());
    pair.carry(MIB_64);
    let shared = read(&mut backend);
    assert_eq!(pair.payload(&shared)[0], [MIB_64, 0], "the oldest holder owns it");
    assert_eq!(payload(alive(&shared, child).unwrap()), [0, 0]);
    let _ = pair.client.run("s.close()");
    let shared = read(&mut backend);
    let both = pair.payload(&shared)[0][0] + payload(alive(&shared, child).unwrap())[0];
    assert_eq!(both, MIB_64, "passed to the child, still counted once");
    assert_eq!(pair.payload(&shared)[0], [MIB_64, 0], "what was counted stays");
    let _ = pair.client.run("p.kill(); p.wait(); it = 0");
    let mut ended = None;
    let last = until(&mut backend, &processes(), |sample| {
        ended = sample.processes.iter().find(|it| it.id.pid == child && it.ended()).map(payload);
        ended.is_some()
    });
    assert_eq!((pair.payload(&last)[0], ended), ([MIB_64, 0], Some([0, 0])));
}

#[test]
fn root_a_shared_socket_that_changes_its_owner_is_divided() {
    let Some(mut backend) = opened("root_a_shared_socket_that_changes_its_owner_is_divided") else {
        return;
    };
    let mut pair = Pair::connected("AF_INET6");
    // The child is younger, holds the socket as its input, and reads what comes.
    let _ = pair.client.run("p = subprocess.Popen(['sh', '-c', 'read x; read x; exit'], stdin=s)");
    let child = Pid(u32::try_from(pair.client.run("it = p.pid")).unwrap());
    pair.carry(1_000_003);
    assert_eq!(pair.payload(&read(&mut backend))[0], [1_000_003, 0]);
    let _ = pair.client.run("s.close()");
    let _ = pair.server.run("s.send(b'23 bytes come and go..\\n'); it = 0");
    let shared =
        until(&mut backend, &processes(), |it| payload(alive(it, child).unwrap())[1] == 23);
    assert_eq!(pair.payload(&shared)[0], [1_000_003, 0], "the first owner keeps its part");
    // The child reads on and ends: it closes the socket between two readings.
    let _ = pair.server.run("s.send(b'seven..\\n'); it = 0");
    let _ = pair.client.run("p.wait(); it = 0");
    let mut ended = None;
    let last = until(&mut backend, &processes(), |sample| {
        ended = sample.processes.iter().find(|it| it.id.pid == child && it.ended()).map(payload);
        ended.is_some()
    });
    assert_eq!(ended, Some([0, 31]));
    assert_eq!(pair.payload(&last)[0], [1_000_003, 0]);
}
