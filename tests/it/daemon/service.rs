//! A service with a socket of its own, and clients that speak its lines.

use crate::deadline;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of its own for each service, taken away with it.
pub struct Place(PathBuf);

impl Place {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("monitor-it-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    pub fn socket(&self) -> PathBuf {
        self.0.join("socket")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running `monitor serve`.
pub struct Service {
    pub child: Child,
    place: Place,
}

impl Service {
    /// With this backend.
    pub fn start(backend: &str) -> Self {
        let place = Place::new();
        let child = spawn(backend, &place.socket());
        Self { child, place }
    }

    /// Another after the end of this one, at the same place.
    pub fn again(&mut self, backend: &str) {
        self.child = spawn(backend, &self.socket());
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.place.socket()
    }

    /// A client.
    pub fn connect(&self) -> Client {
        Client::to(&self.socket())
    }

    /// Ends it without a chance to tidy up.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Descriptors that it has open.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Its resident bytes.
    pub fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(backend: &str, socket: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monitor"));
    command.arg("serve").arg("--socket").arg(socket).args(["--backend", backend]);
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    deadline::until(|| {
        assert!(child.try_wait().unwrap().is_none(), "the service does not start");
        UnixStream::connect(socket).ok()
    });
    child
}

/// A client.
pub struct Client {
    writer: UnixStream,
    reader: BufReader<UnixStream>,
}

impl Client {
    pub fn to(socket: &Path) -> Self {
        let writer = deadline::until(|| UnixStream::connect(socket).ok());
        writer.set_read_timeout(Some(deadline::deadline())).unwrap();
        let reader = BufReader::new(writer.try_clone().unwrap());
        Self { writer, reader }
    }

    /// Sends bytes; whether they were taken is seen by the answer.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.writer.write_all(bytes);
    }

    /// The next line; nothing, if the connection was closed.
    pub fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("no line within the deadline: {error}"),
        }
    }

    /// Calls, and waits for the reply; events that come before it are left out.
    pub fn call(&mut self, method: &str, params: &str) -> Value {
        let line = format!("{{\"id\":1,\"method\":\"{method}\",\"params\":{params}}}\n");
        self.send(line.as_bytes());
        loop {
            let line = self.line().expect("a reply");
            if line.get("method").is_none() {
                return line;
            }
        }
    }

    /// The next event's parameters.
    pub fn event(&mut self) -> Value {
        loop {
            let line = self.line().expect("an event");
            if line["method"] == "event" {
                return line["params"].clone();
            }
        }
    }
}
