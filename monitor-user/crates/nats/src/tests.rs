//! The suite of buses on a real server, which each case starts for itself and kills in between.

use super::server::Server;
use super::suite::{has_server, server_program};
use super::{NatsBus, NatsConnection, NatsOptions, Streams};
use monitor_cluster::bus::entry::{
    BusEntry, Command as BusCommand, EntryBody, EntryId, FORMATS, Incarnation, LedgerId, Seq,
    StreamTime, Targets,
};
use monitor_cluster::bus::{BaseCause, Bus, BusEvent, try_event};
use monitor_cluster::suite::{BusFixture, CASES};
use monitor_model::Ns;
use monitor_sys::clock;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// A server with its store, and nodes that are connected to it.
struct NatsFixture {
    // Dropped first: nodes end before their server.
    runtime: Runtime,
    address: SocketAddr,
    store: PathBuf,
    program: PathBuf,
    server: Child,
}

impl NatsFixture {
    fn new() -> Self {
        Self::of_program(server_program().into())
    }

    fn of_program(program: PathBuf) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("monitor-nats-{}-{number}", std::process::id());
        let store = std::env::temp_dir().join(name);
        let address = free_address();
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        let server = start(&program, address, &store);
        Self { runtime, address, store, program, server }
    }
}

impl NatsFixture {
    /// Starts it again.
    fn start(&mut self) {
        self.server = start(&self.program, self.address, &self.store);
    }

    /// Kills the server.
    fn stop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

/// An address whose port is free again when the listener is dropped.
pub fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn start(program: &Path, address: SocketAddr, store: &Path) -> Child {
    let port = address.port().to_string();
    let mut command = Command::new(program);
    command.args(["--jetstream", "--addr", "127.0.0.1", "--port", &port, "--store_dir"]).arg(store);
    spawn(command, address)
}

/// Starts a server, and waits until it listens.
pub fn spawn(mut command: Command, address: SocketAddr) -> Child {
    let server = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while TcpStream::connect(address).is_err() {
        assert!(start.elapsed() < Duration::from_secs(30), "nats-server does not listen");
        std::thread::park_timeout(Duration::from_millis(5));
    }
    server
}

impl BusFixture for NatsFixture {
    fn connect(&mut self, name: &str, from: Option<Seq>) -> Box<dyn Bus> {
        let servers = vec![format!("nats://{}", self.address)];
        let connection = NatsConnection { servers, user: None, ca: None, node: name.to_owned() };
        let streams = Streams { n_replicas: 1, makes: true, cluster: String::new() };
        let options = NatsOptions { connection, streams };
        Box::new(self.runtime.block_on(NatsBus::connect(options, from)).unwrap())
    }

    fn now(&self) -> Ns {
        clock::boot()
    }

    fn restart(&mut self) {
        self.stop();
        self.start();
    }
}

impl Drop for NatsFixture {
    fn drop(&mut self) {
        // It was killed, or is killed now; its store is removed in both cases.
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = std::fs::remove_dir_all(&self.store);
    }
}

#[test]
fn the_bus_over_nats_passes_the_suite() {
    if has_server() {
        passes_the_suite(Path::new(&server_program()));
    }
}

#[allow(clippy::print_stderr, reason = "a skipped test says why")]
#[test]
fn the_bus_over_a_newer_server_passes_the_suite() {
    // Tests are in `target/PROFILE/deps`.
    let own = std::env::current_exe().unwrap();
    let program = own.ancestors().nth(3).unwrap().join("nats/nats-server");
    if program.exists() {
        return passes_the_suite(&program);
    }
    let is_required = std::env::var_os("MONITOR_REQUIRE_ROOT").is_some();
    assert!(!is_required, "{} is missing: cargo xtask nats", program.display());
    eprintln!("SKIP tests of the bus over a newer server: cargo xtask nats");
}

#[allow(clippy::print_stderr, reason = "a failure is in the case after the last line")]
fn passes_the_suite(program: &Path) {
    for (name, case) in CASES {
        let start = Instant::now();
        case(&mut NatsFixture::of_program(program.to_owned()));
        // The case of a failure is the one after the last that is printed.
        eprintln!("{name}: {:.2} s", start.elapsed().as_secs_f64());
    }
}

/// Sends an entry and returns its position.
fn send(port: &mut dyn Bus, start: u64, number: u64) -> Seq {
    let id = multicast(port, start, number);
    sequenced(port, id)
}

/// Waits for the position of an entry.
fn sequenced(port: &mut dyn Bus, id: EntryId) -> Seq {
    expect(port, |event| match event {
        BusEvent::Sequenced { id: it, seq } => (it == id).then_some(seq),
        _ => None,
    })
}

/// Sends an entry.
fn multicast(port: &mut dyn Bus, start: u64, number: u64) -> EntryId {
    let id = EntryId { start, number };
    let (begin_within, not_after) = (Ns(1), StreamTime(u64::MAX));
    let targets = Targets::Names(std::collections::BTreeSet::new());
    let command = BusCommand { targets, uid: 0, begin_within, not_after, payload: vec![] };
    publish(port, BusEntry { origin: String::new(), id, body: EntryBody::Command(command) });
    id
}

fn publish(port: &mut dyn Bus, entry: BusEntry) {
    port.multicast(clock::boot(), entry, Ns(clock::boot().0 + 30_000_000_000));
}

fn expect<T>(port: &mut dyn Bus, mut select: impl FnMut(BusEvent) -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        match try_event(port).map(&mut select) {
            Some(Some(found)) => return found,
            Some(None) => {}
            None => {
                assert!(start.elapsed() < Duration::from_secs(60), "the event did not come");
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
    }
}

fn copy(from: &Path, to: &Path) {
    // An earlier copy is replaced; there may be none.
    let _ = std::fs::remove_dir_all(to);
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

/// Entries that come while the members are read hide earlier ones, which the members of the
/// position are made of.
#[test]
fn members_of_a_position_are_read_also_if_others_come_meanwhile() {
    if !has_server() {
        return;
    }
    let mut fixture = NatsFixture::new();
    let mut port = fixture.connect("a", None);
    let bodies = [
        joined(1),
        EntryBody::Left { incarnation: Incarnation(1) },
        joined(2),
        joined(3),
        EntryBody::Removed { node: "a".to_owned(), incarnation: Incarnation(3) },
        joined(4),
    ];
    let mut positions = Vec::new();
    for (number, body) in (1..).zip(bodies) {
        let id = EntryId { start: 1, number };
        publish(port.as_mut(), BusEntry { origin: "a".to_owned(), id, body });
        positions.push(sequenced(port.as_mut(), id));
    }
    let address = fixture.address.to_string();
    fixture.runtime.block_on(async {
        let jetstream = async_nats::jetstream::new(async_nats::connect(address).await.unwrap());
        let streams = Streams { n_replicas: 1, makes: true, cluster: String::new() };
        let server = Server::open(jetstream, &streams).await.unwrap();
        let want = [None, Some(1), None, Some(2), Some(3), None, Some(4)];
        let before = Seq(positions[0].0 - 1);
        for (as_of, want) in [before].into_iter().chain(positions).zip(want) {
            let base = server.base_at(as_of).await.unwrap();
            let BusEvent::Base { members, .. } = base.event(BaseCause::Start) else {
                unreachable!()
            };
            let found = members.first().map(|it| it.incarnation.0);
            assert_eq!((found, members.len()), (want, usize::from(want.is_some())), "{as_of:?}");
        }
    });
}

fn joined(incarnation: u64) -> EntryBody {
    EntryBody::Joined {
        incarnation: Incarnation(incarnation),
        ledger: LedgerId(7),
        since: None,
        formats: FORMATS,
        aggregators: String::new(),
    }
}

/// A server that came back with an earlier state, and got as many entries as it has lost before
/// a node is connected again: their number shows nothing.
#[test]
fn entries_that_the_server_lost_are_noticed_where_others_have_their_positions() {
    if !has_server() {
        return;
    }
    let mut fixture = NatsFixture::new();
    let mut port = fixture.connect("a", None);
    for number in 1..=3 {
        send(port.as_mut(), 1, number);
    }
    fixture.stop();
    let earlier = fixture.store.with_extension("earlier");
    copy(&fixture.store, &earlier);
    fixture.start();
    // Its position is known when it is acknowledged, before or after it comes.
    let id = multicast(port.as_mut(), 1, 5);
    let (mut position, mut came) = (None, false);
    let found = expect(port.as_mut(), |event| {
        match event {
            BusEvent::Sequenced { id: it, seq } if it == id => position = Some(seq),
            BusEvent::Entry(entry) => came |= entry.entry.id == id,
            // A node that was connected again later begins behind it.
            BusEvent::Base { as_of, .. } => came |= as_of == Seq(4),
            _ => {}
        }
        position.filter(|_| came)
    });
    assert_eq!(found, Seq(4));
    fixture.stop();
    copy(&earlier, &fixture.store);
    // At another address, so that the node is not connected yet.
    let address = std::mem::replace(&mut fixture.address, free_address());
    fixture.start();
    let mut other = fixture.connect("b", None);
    let positions = [1, 2].map(|number| send(other.as_mut(), 2, number));
    assert_eq!(positions, [Seq(4), Seq(5)]);
    drop(other);
    fixture.stop();
    fixture.address = address;
    fixture.start();
    let base = expect(port.as_mut(), |event| match event {
        BusEvent::Base { cause: BaseCause::Lost, as_of, .. } => Some(as_of),
        BusEvent::Entry(entry) => panic!("an entry after others were lost: {entry:?}"),
        _ => None,
    });
    assert_eq!(base, Seq(5));
    std::fs::remove_dir_all(earlier).unwrap();
}
