//! A service in a process of its own, in a folder of its own, both of which end with the test.
//!
//! In: a backend, a configuration, a command that starts it. Out: its socket, its log, its
//! resources, and sessions with it (`socket_session.rs`).

use crate::deadline::until;
use crate::socket_session::SocketSession;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The program.
pub fn monitor() -> Command {
    let mut it = Command::new(env!("CARGO_BIN_EXE_monitor"));
    for variable in ["MONITOR_BACKEND", "MONITOR_SOCKET", "MONITOR_LOG", "NOTIFY_SOCKET"] {
        it.env_remove(variable);
    }
    it.stdin(Stdio::null());
    it
}

/// An empty folder that all users may read.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// One in memory: the disk may be nine tenths full, and then a service takes no files.
    pub fn in_memory() -> Self {
        Self::below(Path::new("/dev/shm"))
    }

    fn below(folder: &Path) -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("monitor-it-{}-{n}", std::process::id()));
        // An earlier test with this pid may have been killed.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes a file with this text.
pub fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

/// A service that ends with the test.
pub struct Served {
    child: Child,
    program: Command,
    folder: Folder,
    socket: PathBuf,
}

impl Served {
    /// With this backend.
    pub fn start(backend: &str) -> Self {
        Self::started("", monitor(), backend)
    }

    /// With fixed values, and this configuration.
    pub fn with(config: &str) -> Self {
        Self::started(config, monitor(), "test")
    }

    /// By this command, to which the rest of the words is added.
    pub fn started(config: &str, program: Command, backend: &str) -> Self {
        Self::begin(folder_with(config), program, backend)
    }

    /// The same, where the program becomes this user.
    pub fn owned_by(uid: u32, program: Command, backend: &str) -> Self {
        let folder = folder_with("");
        std::os::unix::fs::chown(folder.join("run"), Some(uid), Some(uid)).unwrap();
        Self::begin(folder, program, backend)
    }

    fn begin(folder: Folder, mut program: Command, backend: &str) -> Self {
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let socket = folder.join("run/monitor.sock");
        program.args(["serve", "--backend", backend, "--socket"]).arg(&socket);
        program.arg("--config").arg(folder.join("monitor.toml")).stderr(log);
        let child = program.spawn().unwrap();
        let mut it = Self { child, program, folder, socket };
        it.listens();
        it
    }

    fn listens(&mut self) {
        until(|| {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended: {ended:?}: {}", self.log());
            UnixStream::connect(&self.socket).ok()
        });
    }

    /// The path of its socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The path of its configuration.
    pub fn config(&self) -> PathBuf {
        self.folder.join("monitor.toml")
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap()
    }

    /// A connection.
    pub fn connect(&self) -> SocketSession {
        SocketSession::connect(&self.socket)
    }

    /// A command of the program that asks this service.
    pub fn command(&self, words: &str) -> Command {
        let mut it = monitor();
        it.args(words.split_whitespace()).env("MONITOR_SOCKET", &self.socket);
        it
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

    /// Memory that it has allocated, in bytes: without its program, whose pages arrive as they run,
    /// and without what it maps of the kernel.
    pub fn allocated_bytes(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let kib = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        kib.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Descriptors that it has open.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until it has ended by itself.
    pub fn ends(&mut self) {
        let _status = until(|| self.child.try_wait().unwrap());
    }

    /// Kills it, as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        let _ = self.child.wait().unwrap();
    }

    /// Another after the end of this one, in the same folder.
    pub fn restart(&mut self) {
        self.child = self.program.spawn().unwrap();
        self.listens();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have been killed by its test.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder with a configuration, and one for the socket.
fn folder_with(config: &str) -> Folder {
    let folder = Folder::new();
    std::fs::create_dir(folder.join("run")).unwrap();
    write(&folder.join("monitor.toml"), config);
    folder
}
