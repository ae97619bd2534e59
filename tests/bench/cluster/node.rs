//! A daemon of a site, and a connection to it.

use crate::program::Program;
use crate::watch::MONITOR;
use monitor_nats::suite::TestSite;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a daemon may take to start, and a call to return.
const DEADLINE: Duration = Duration::from_secs(60);
/// Time between two attempts.
const RETRY: Duration = Duration::from_millis(10);

/// A daemon; ended on drop.
pub struct Node {
    pub name: String,
    program: Program,
    socket: PathBuf,
}

impl Node {
    /// Begins to start the daemon of a node of the site.
    pub fn start(site: &TestSite, name: &str, backend: &str) -> Self {
        Self::start_in(&site.folder.join("nodes").join(name), name, backend)
    }

    /// The same, with the configuration `monitor.toml` of a folder.
    pub fn start_in(folder: &Path, name: &str, backend: &str) -> Self {
        let socket = folder.join("monitor.sock");
        let mut command = Command::new(MONITOR);
        command.args(["serve", "--backend", backend, "--socket"]).arg(&socket);
        command.arg("--config").arg(folder.join("monitor.toml"));
        let program = Program::start(&mut command).unwrap();
        Self { name: name.to_owned(), program, socket }
    }

    /// Connects, as soon as it listens.
    pub fn connect(&self) -> Connection {
        let start = Instant::now();
        loop {
            if let Ok(stream) = UnixStream::connect(&self.socket) {
                let reader = BufReader::new(stream.try_clone().unwrap());
                return Connection { stream, reader, id: 0 };
            }
            assert!(start.elapsed() < DEADLINE, "{} does not listen", self.name);
            sleep(RETRY);
        }
    }

    /// Its CPU time, in ns.
    pub fn cpu_ns(&self) -> f64 {
        self.program.cpu_ns()
    }

    /// CPU time in ns, and number of waits, of its thread with this name.
    pub fn thread(&self, name: &str) -> (f64, f64) {
        let tasks = format!("/proc/{}/task", self.program.pid());
        let is_it = |tid: &u32| {
            let text = std::fs::read_to_string(format!("{tasks}/{tid}/comm"));
            text.is_ok_and(|it| it.trim() == name)
        };
        let tid = crate::load::ids(&tasks).find(is_it).expect("the thread runs");
        let read = |file: &str| std::fs::read_to_string(format!("{tasks}/{tid}/{file}")).unwrap();
        let cpu = read("schedstat").split(' ').next().unwrap().parse().unwrap();
        let status = read("status");
        let waits = status.lines().find_map(|it| it.strip_prefix("voluntary_ctxt_switches:"));
        (cpu, waits.unwrap().trim().parse().unwrap())
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.program.pid()).ok().and_then(Pid::from_raw);
        kill_process(pid.unwrap(), signal).unwrap();
    }
}

/// A connection to a daemon.
pub struct Connection {
    stream: UnixStream,
    reader: BufReader<UnixStream>,
    id: u64,
}

impl Connection {
    /// Sends a call; the number of its reply.
    pub fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.id += 1;
        let call = json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params});
        self.stream.write_all(format!("{call}\n").as_bytes()).unwrap();
        self.id
    }

    /// The next line; empty when the connection has ended.
    pub fn line(&mut self, line: &mut String) {
        line.clear();
        let _bytes = self.reader.read_line(line).unwrap();
    }

    /// The result of a call, or its error; other lines are dropped.
    pub fn call(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        let id = self.send(method, params);
        let mut line = String::new();
        loop {
            self.line(&mut line);
            let mut reply: Value = serde_json::from_str(&line).unwrap();
            if reply["id"] == id {
                return match reply["error"].take() {
                    Value::Null => Ok(reply["result"].take()),
                    error => Err(error["message"].to_string()),
                };
            }
        }
    }

    /// Waits until this number of members is up, as the daemon sees it.
    pub fn sees(&mut self, n_members: usize) {
        let start = Instant::now();
        loop {
            let members = self.call("members", &json!({})).unwrap_or_default();
            let up = members["members"]
                .as_array()
                .map_or(0, |all| all.iter().filter(|it| it["state"] == "up").count());
            if up >= n_members {
                return;
            }
            assert!(start.elapsed() < 5 * DEADLINE, "{up} of {n_members} members are up");
            sleep(10 * RETRY);
        }
    }
}
