//! A service in a process of its own, and conversations with it.

use crate::deadline::until;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A service that ends with the test.
pub struct Served {
    child: Child,
    folder: PathBuf,
}

/// The program.
pub fn monitor() -> Command {
    let mut it = Command::new(env!("CARGO_BIN_EXE_monitor"));
    for variable in ["MONITOR_BACKEND", "MONITOR_SOCKET", "MONITOR_LOG", "NOTIFY_SOCKET"] {
        it.env_remove(variable);
    }
    it.stdin(Stdio::null());
    it
}

/// An empty folder that everybody may look into.
pub fn folder(name: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let folder = std::env::temp_dir().join(format!("monitor-door-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

impl Served {
    /// With fixed values, and this configuration.
    pub fn with(name: &str, config: &str) -> Self {
        Self::started(name, config, monitor(), "test")
    }

    /// By this command, to which the rest of the words is added.
    pub fn started(name: &str, config: &str, program: Command, backend: &str) -> Self {
        let folder = folder(name);
        std::fs::create_dir(folder.join("run")).unwrap();
        write(&folder.join("monitor.toml"), config);
        Self::begin(folder, program, backend)
    }

    /// The same, where the program becomes this user.
    pub fn owned_by(uid: u32, name: &str, program: Command, backend: &str) -> Self {
        let folder = folder(name);
        std::fs::create_dir(folder.join("run")).unwrap();
        std::os::unix::fs::chown(folder.join("run"), Some(uid), Some(uid)).unwrap();
        write(&folder.join("monitor.toml"), "");
        Self::begin(folder, program, backend)
    }

    fn begin(folder: PathBuf, mut program: Command, backend: &str) -> Self {
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let socket = folder.join("run/monitor.sock");
        program.args(["serve", "--backend", backend, "--socket"]).arg(&socket);
        program.arg("--config").arg(folder.join("monitor.toml"));
        let child = program.stderr(log).spawn().unwrap();
        let mut it = Self { child, folder };
        until(|| {
            let ended = it.child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended: {ended:?}: {}", it.log());
            UnixStream::connect(&socket).ok()
        });
        it
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("run/monitor.sock")
    }

    /// Where its configuration lies.
    pub fn config(&self) -> PathBuf {
        self.folder.join("monitor.toml")
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap()
    }

    /// A connection.
    pub fn connect(&self) -> Talk {
        Talk::over(UnixStream::connect(self.socket()).unwrap())
    }

    /// Its own numbers.
    #[track_caller]
    pub fn status(&self) -> Value {
        self.connect().result("status", "{}")
    }

    /// Its resident memory.
    pub fn resident_bytes(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.pid())).unwrap();
        text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A connection, line by line.
pub struct Talk {
    stream: BufReader<UnixStream>,
}

impl Talk {
    /// Over a stream.
    pub fn over(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(crate::deadline::deadline())).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    /// Sends bytes as they are.
    pub fn say(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// The next line; nothing, when the other side has closed.
    pub fn hear(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => None,
            // It closed while something of ours was still on its way.
            Err(why) if why.kind() == std::io::ErrorKind::ConnectionReset => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap()),
            Err(why) => panic!("{why}"),
        }
    }

    /// Calls, and gives the whole reply.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: &str) -> Value {
        let line = format!("{{\"id\":1,\"method\":\"{method}\",\"params\":{params}}}\n");
        self.say(line.as_bytes()).unwrap();
        self.hear().expect("an answer")
    }

    /// Calls, and gives the result.
    #[track_caller]
    pub fn result(&mut self, method: &str, params: &str) -> Value {
        let mut reply = self.call(method, params);
        assert!(reply["error"].is_null(), "{reply}");
        reply["result"].take()
    }

    /// Calls, and gives the message of the refusal.
    #[track_caller]
    pub fn refusal(&mut self, method: &str, params: &str) -> String {
        let reply = self.call(method, params);
        reply["error"]["message"].as_str().expect("a refusal").to_owned()
    }
}

/// Lies at this path: a file with this text.
pub fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

impl Talk {
    /// Waits no longer than a moment for whoever takes nothing.
    pub fn deaf(&self) {
        let moment = std::time::Duration::from_millis(500);
        self.stream.get_ref().set_write_timeout(Some(moment)).unwrap();
    }
}
