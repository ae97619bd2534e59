//! The service of the measurements of files, and what they open in it.

use super::connection::Connection;
use crate::program::Program;
use crate::watch::MONITOR;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A service with sessions and other nodes, in a folder of its own.
pub struct Service {
    program: Program,
    folder: PathBuf,
}

impl Service {
    pub fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("monitor-bench-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&folder).unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let absent = folder.join("absent.9p");
        let config = format!("[files]\nexecute = [{uid}]\nnodes = [\"x={}\"]\n", absent.display());
        std::fs::write(folder.join("monitor.toml"), config).unwrap();
        let mut command = Command::new(MONITOR);
        command.args(["serve", "--backend", "procfs", "--socket"]).arg(folder.join("socket"));
        command.arg("--config").arg(folder.join("monitor.toml"));
        let program = Program::start(&mut command).unwrap();
        let it = Self { program, folder };
        let start = Instant::now();
        while UnixStream::connect(it.socket()).is_err() {
            assert!(start.elapsed() < Duration::from_secs(20), "the service does not start");
            sleep(Duration::from_millis(10));
        }
        it
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.join("socket.9p")
    }

    pub fn connect(&self) -> Connection {
        Connection::attached(&self.socket())
    }

    pub fn pid(&self) -> u32 {
        self.program.pid()
    }

    /// A new session: its number.
    pub fn session(&self, connection: &mut Connection) -> String {
        connection.open(FIRST_FID, "clone", 0);
        let number = connection.read(FIRST_FID, 0);
        connection.clunk(FIRST_FID);
        String::from_utf8(number).unwrap()
    }
}

/// A fid for what is opened and closed again.
const FIRST_FID: u32 = 1;

impl Drop for Service {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

fn remove(folder: &Path) {
    let _ = std::fs::remove_dir_all(folder);
}
