//! A daemon of our own, on a socket of its own, that ends with the test.

use crate::deadline::until;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A daemon.
pub struct Service {
    socket: PathBuf,
    backend: &'static str,
    child: Child,
}

impl Service {
    /// Starts one with a backend, and waits until it listens.
    pub fn with(backend: &'static str) -> Self {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("monitor-client-{}-{n}.sock", std::process::id());
        let socket = std::env::temp_dir().join(name);
        let child = spawn(&socket, backend);
        let it = Self { socket, backend, child };
        it.listens();
        it
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// A command of the program that asks this daemon.
    pub fn command(&self, words: &str) -> Command {
        let mut it = Command::new(env!("CARGO_BIN_EXE_monitor"));
        it.args(words.split_whitespace()).env_remove("MONITOR_BACKEND").stdin(Stdio::null());
        it.env("MONITOR_SOCKET", &self.socket);
        it
    }

    /// Kills it, as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it ends");
    }

    /// Starts it again.
    pub fn restart(&mut self) {
        self.child = spawn(&self.socket, self.backend);
        self.listens();
    }

    fn listens(&self) {
        until(|| std::os::unix::net::UnixStream::connect(&self.socket).ok());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have been killed by its test.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn spawn(socket: &Path, backend: &str) -> Child {
    let mut it = Command::new(env!("CARGO_BIN_EXE_monitor"));
    it.args(["serve", "--backend", backend, "--socket"]).arg(socket);
    it.stdin(Stdio::null()).spawn().expect("the program runs")
}
