//! The suite of buses on a real server, which each case starts for itself and kills in between.

use super::{NatsBus, NatsOptions};
use monitor_cluster::bus::Bus;
use monitor_cluster::bus::entry::Seq;
use monitor_cluster::suite::{BusFixture, CASES};
use monitor_model::Ns;
use monitor_sys::clock;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
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
    server: Child,
}

impl NatsFixture {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("monitor-nats-{}-{number}", std::process::id());
        let store = std::env::temp_dir().join(name);
        // The port is free again when the listener is dropped.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        let server = start(address, &store);
        Self { runtime, address, store, server }
    }
}

fn start(address: SocketAddr, store: &PathBuf) -> Child {
    let port = address.port().to_string();
    let mut command = Command::new("nats-server");
    command.args(["--jetstream", "--addr", "127.0.0.1", "--port", &port, "--store_dir"]);
    let server = command.arg(store).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while TcpStream::connect(address).is_err() {
        assert!(start.elapsed() < Duration::from_secs(30), "nats-server does not listen");
        std::thread::park_timeout(Duration::from_millis(5));
    }
    server
}

impl BusFixture for NatsFixture {
    fn connect(&mut self, name: &str, from: Option<Seq>) -> Box<dyn Bus> {
        let servers = format!("nats://{}", self.address);
        let options = NatsOptions { servers, node: name.to_owned(), n_replicas: 1 };
        Box::new(self.runtime.block_on(NatsBus::connect(options, from)).unwrap())
    }

    fn now(&self) -> Ns {
        clock::boot()
    }

    fn restart(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
        self.server = start(self.address, &self.store);
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

/// Whether there is a server; required in CI.
#[allow(clippy::print_stderr, reason = "a skipped test says why")]
fn has_server() -> bool {
    let mut command = Command::new("nats-server");
    let is_there = command.arg("--version").stdout(Stdio::null()).status().is_ok();
    if !is_there {
        assert!(
            std::env::var_os("MONITOR_REQUIRE_ROOT").is_none(),
            "nats-server is missing: apt install nats-server"
        );
        eprintln!("SKIP the_bus_over_nats_passes_the_suite: no nats-server");
    }
    is_there
}

#[allow(clippy::print_stderr, reason = "a failure is in the case after the last line")]
#[test]
fn the_bus_over_nats_passes_the_suite() {
    if !has_server() {
        return;
    }
    for (name, case) in CASES {
        let start = Instant::now();
        case(&mut NatsFixture::new());
        // The case of a failure is the one after the last that is printed.
        eprintln!("{name}: {:.2} s", start.elapsed().as_secs_f64());
    }
}
