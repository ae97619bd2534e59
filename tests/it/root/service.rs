//! A service of its own for a test, and a client that speaks its lines.

use crate::deadline;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running `monitor serve`, ended with the test.
pub struct Service {
    child: Child,
    place: PathBuf,
}

impl Service {
    /// With eBPF, in a directory of its own.
    pub fn start(name: &str) -> Self {
        let place = std::env::temp_dir().join(format!("monitor-{name}-{}", std::process::id()));
        std::fs::create_dir(&place).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_monitor"));
        command.args(["serve", "--backend", "ebpf", "--socket"]).arg(place.join("socket"));
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Self { child, place }
    }

    /// A client.
    pub fn connect(&self) -> Client {
        Client::to(&self.place.join("socket"))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.place);
    }
}

/// A client.
pub struct Client {
    writer: UnixStream,
    reader: BufReader<UnixStream>,
}

impl Client {
    fn to(socket: &Path) -> Self {
        let writer = deadline::until(|| UnixStream::connect(socket).ok());
        writer.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let reader = BufReader::new(writer.try_clone().unwrap());
        Self { writer, reader }
    }

    /// Calls, and gives the result; fails where it is refused.
    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        let line = json!({"id": 1, "method": method, "params": params});
        writeln!(self.writer, "{line}").unwrap();
        let mut reply = self.until(|it| it.get("method").is_none());
        assert!(reply.get("error").is_none(), "{reply}");
        reply["result"].take()
    }

    /// The next event.
    pub fn event(&mut self) -> Value {
        self.until(|it| it["method"] == "event")["params"].take()
    }

    fn until(&mut self, is_meant: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.reader.read_line(&mut line).unwrap() > 0, "the service has ended");
            let line = serde_json::from_str(&line).unwrap();
            if is_meant(&line) {
                return line;
            }
        }
    }
}
