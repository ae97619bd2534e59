//! Servers as processes of a test: started, killed, stopped for a while.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The port of all test servers: each has an address of loopback of its own.
const PORT: u16 = 4222;
/// How long a server may take until it listens.
const START: Duration = Duration::from_secs(60);

/// A server that may run.
pub struct ServerProcess {
    /// Where it listens.
    pub address: SocketAddr,
    config: PathBuf,
    child: Option<Child>,
}

impl ServerProcess {
    /// A server that is not started yet.
    pub const fn new(address: SocketAddr, config: PathBuf) -> Self {
        Self { address, config, child: None }
    }

    /// Its configuration.
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// Starts it, and waits until it listens.
    ///
    /// # Panics
    /// It does not listen in time.
    pub fn start(&mut self) {
        self.begin();
        self.wait();
    }

    /// Waits until it listens.
    ///
    /// # Panics
    /// It does not listen in time, as a server that cannot read its configuration.
    pub fn wait(&mut self) {
        let start = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            assert!(ended.is_none() && start.elapsed() < START, "no server: {ended:?}");
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// Starts it, and does not wait.
    ///
    /// # Panics
    /// There is no nats-server.
    pub fn begin(&mut self) {
        let mut command = Command::new(server_program());
        command.arg("--config").arg(&self.config);
        let log = std::fs::File::create(self.config.with_extension("log"));
        let command = match log {
            Ok(log) => command.stderr(log),
            Err(_) => command.stderr(Stdio::null()),
        };
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        self.child = Some(child.expect("nats-server is there"));
    }

    /// Whether it was started and not killed.
    pub const fn runs(&self) -> bool {
        self.child.is_some()
    }

    /// Its process, if it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Stops it with SIGSTOP, or lets it go on.
    pub fn pause(&self, is_paused: bool) {
        let signal = if is_paused { "-STOP" } else { "-CONT" };
        if let Some(child) = &self.child {
            let sent = Command::new("kill").args([signal, &child.id().to_string()]).status();
            assert!(sent.is_ok_and(|status| status.success()), "kill {signal}");
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// An address of loopback that no other server of tests has, with the port of NATS. It is not in
/// the range of ports that the kernel gives to clients: one that tries again and again could
/// otherwise get the port of a server that is away, and talk to itself.
pub fn own_address() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let [_, _, middle, low] = std::process::id().to_be_bytes();
    let number = NEXT.fetch_add(1, Ordering::Relaxed) % 100;
    let high = u8::try_from(150 + number).unwrap_or(150);
    (Ipv4Addr::new(127, high, middle, low), PORT).into()
}

/// The program of the servers: the one that `MONITOR_NATS_SERVER` names, or that of the host.
pub fn server_program() -> OsString {
    std::env::var_os("MONITOR_NATS_SERVER").unwrap_or_else(|| "nats-server".into())
}

/// Whether there is a server; required in CI.
#[allow(clippy::print_stderr, reason = "a skipped test says why")]
pub fn has_server() -> bool {
    let mut command = Command::new(server_program());
    let is_there = command.arg("--version").stdout(Stdio::null()).status().is_ok();
    if !is_there {
        assert!(
            std::env::var_os("MONITOR_REQUIRE_ROOT").is_none(),
            "nats-server is missing: apt install nats-server"
        );
        eprintln!("SKIP tests of the bus over NATS: no nats-server");
    }
    is_there
}
