//! One scenario over 9P with clients of others: `py9p` and `pyroute2` in Python, and the crate
//! `ninep`. Each gets the same bytes, and so does the kernel's (`files_mount.rs`).
//!
//! In: a client that opens, reads, writes and creates files. Out: what it has read, line by line.

use super::files::{output, path};
use super::files_session_monitor::served;
use crate::deadline::until;
use crate::root::privilege::skip;
use crate::served::Served;
use ninep::fs::{Mode, Perm};
use ninep::sync::client::Client as NinepClient;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

/// What a client does, with whole files. An error is what it makes of a refusal.
pub trait TreeClient: Send {
    /// Opens a file to read, and keeps it open; its first bytes, up to this number.
    fn keep(&mut self, path: &str, bytes: u32) -> Result<Vec<u8>, String>;
    fn read(&mut self, path: &str) -> Result<Vec<u8>, String>;
    fn write(&mut self, path: &str, data: &[u8]) -> Result<(), String>;
    /// Creates a program with this content.
    fn push(&mut self, path: &str, data: &[u8]) -> Result<(), String>;
}

/// The program of the session: says its words, waits for a line and then for a signal.
const PROGRAM: &str = "#!/bin/sh
echo \"$GREETING, $1 and $2\"
trap 'echo ends; exit 5' USR1
read -r line
echo \"got $line\"
: > ready
while :; do sleep 0.05; done
";

/// What each client has read at the end.
pub const WANT: &str = "\
event: (event (seq N) (time N) (start (pid N)))
first reader: hello, one and the second\\ngot a line\\nends\\n
second reader: hello, one and the second\\ngot a line\\nends\\n
wait: 5 exit
argv: greet one 'the second'
second exec: refused
other sessions: refused
signal after wipe: refused
";

/// A reader on a connection of its own.
fn reader(mut client: Box<dyn TreeClient>, path: String) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let content = client.read(&path).unwrap_or_else(|why| panic!("{path}: {why}"));
        String::from_utf8(content).unwrap()
    })
}

/// What a reader has read when it ends, which it does within the deadline.
#[track_caller]
fn joined(reader: JoinHandle<String>) -> String {
    until(|| reader.is_finished().then_some(()));
    reader.join().unwrap()
}

/// Runs the scenario; `connect` makes clients of one kind.
#[track_caller]
pub fn play(connect: &dyn Fn() -> Box<dyn TreeClient>) -> String {
    let mut it = connect();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let number = text(it.keep("clone", 64).unwrap());
    let file = |name: &str| format!("{number}/{name}");
    let mut write = |name: &str, data: &str| it.write(&file(name), data.as_bytes()).unwrap();
    write("argv", "greet one 'the second'");
    write("env", "PATH=/bin:/usr/bin GREETING=hello");
    it.push(&file("fs/greet"), PROGRAM.as_bytes()).unwrap();
    // Events are followed, and kept, from its first open on.
    let _none = it.keep(&file("mon/log"), 0).unwrap();
    let first = reader(connect(), file("stdout"));
    it.write(&file("ctl"), b"exec greet\n").unwrap();
    it.write(&file("stdin"), b"a line\n").unwrap();
    // `ninep` never finds a file that it has not found once.
    until(|| connect().read(&file("fs/ready")).is_ok().then_some(()));
    let second = reader(connect(), file("stdout"));
    let wait = reader(connect(), file("wait"));
    let again = it.write(&file("ctl"), b"exec greet\n");
    let event = text(connect().keep(&file("mon/log"), 512).unwrap());
    it.write(&file("ctl"), b"signal USR1\n").unwrap();
    let mut said = String::new();
    let mut say = |what: &str, text: &str| {
        said.push_str(&format!("{what}: {}\n", text.replace('\n', "\\n")));
    };
    // Behind the kinds of events that readings of /proc do not see.
    let event = event.lines().find(|it| !it.contains("(missing "));
    say("event", &numbers_masked(event.unwrap_or_default()));
    say("first reader", &joined(first));
    say("second reader", &joined(second));
    let wait = joined(wait);
    say("wait", &wait.split(' ').take(2).collect::<Vec<_>>().join(" "));
    say("argv", &text(it.read(&file("argv")).unwrap()));
    say("second exec", if again.is_err() { "refused" } else { "executed" });
    let other = it.write("4000000/ctl", b"wipe\n");
    say("other sessions", if other.is_err() { "refused" } else { "wiped" });
    it.write(&file("ctl"), b"wipe\n").unwrap();
    let after = it.write(&file("ctl"), b"signal USR1\n");
    say("signal after wipe", if after.is_err() { "refused" } else { "sent" });
    said
}

fn numbers_masked(text: &str) -> String {
    let mut masked = String::new();
    for it in text.chars() {
        match it.is_ascii_digit() {
            true if masked.ends_with('N') => {}
            true => masked.push('N'),
            false => masked.push(it),
        }
    }
    masked
}

/// The client of the crate `ninep`.
struct Ninep(NinepClient);

impl Ninep {
    fn connect(served: &Served) -> Self {
        let stream = UnixStream::connect(path(served)).unwrap();
        let user = format!("#{}", rustix::process::geteuid().as_raw());
        Self(NinepClient::new_from_unix_stream(user, "", stream).unwrap())
    }

    /// It opens a file once more each time, which it does not close.
    fn closed<T>(&self, path: &str, result: Result<T, impl ToString>) -> Result<T, String> {
        let _unless_refused = self.0.clunk_path(path);
        result.map_err(|error| error.to_string())
    }
}

impl TreeClient for Ninep {
    fn keep(&mut self, path: &str, bytes: u32) -> Result<Vec<u8>, String> {
        self.0.read_from(path, 0, bytes).map_err(|error| error.to_string())
    }

    fn read(&mut self, path: &str) -> Result<Vec<u8>, String> {
        // It has one fid for a path, which may be open.
        let _unless_open = self.0.clunk_path(path);
        self.closed(path, self.0.read(path))
    }

    fn write(&mut self, path: &str, data: &[u8]) -> Result<(), String> {
        self.closed(path, self.0.write(path, 0, data)).map(|_bytes| ())
    }

    fn push(&mut self, path: &str, data: &[u8]) -> Result<(), String> {
        let (folder, name) = path.rsplit_once('/').unwrap();
        let created = self.0.create(folder, name, Perm::from_bits_truncate(0o755), Mode::WRITE);
        self.closed(path, created)?;
        self.write(path, data)
    }
}

/// A client in Python, a process: lines of JSON in, lines of JSON out.
struct Python {
    child: Child,
    replies: BufReader<ChildStdout>,
}

impl Python {
    fn connect(served: &Served, script: &str) -> Self {
        let mut command = python(script);
        let user = format!("#{}", rustix::process::geteuid().as_raw());
        command.arg(path(served)).arg(user).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let replies = BufReader::new(child.stdout.take().unwrap());
        Self { child, replies }
    }

    fn call(&mut self, op: &str, path: &str, data: &[u8]) -> Result<Vec<u8>, String> {
        let data: String = data.iter().copied().map(char::from).collect();
        let call = json!({ "op": op, "path": path, "data": data });
        writeln!(self.child.stdin.as_mut().unwrap(), "{call}").unwrap();
        let mut line = String::new();
        self.replies.read_line(&mut line).unwrap();
        let reply: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{op} {path}"));
        match (&reply["data"], &reply["error"]) {
            (Value::String(data), _) => Ok(data.chars().map(|it| it as u8).collect()),
            (_, error) => Err(error.to_string()),
        }
    }
}

impl TreeClient for Python {
    fn keep(&mut self, path: &str, bytes: u32) -> Result<Vec<u8>, String> {
        self.call("keep", path, bytes.to_string().as_bytes())
    }

    fn read(&mut self, path: &str) -> Result<Vec<u8>, String> {
        self.call("read", path, b"")
    }

    fn write(&mut self, path: &str, data: &[u8]) -> Result<(), String> {
        self.call("write", path, data).map(drop)
    }

    fn push(&mut self, path: &str, data: &[u8]) -> Result<(), String> {
        self.call("push", path, data).map(drop)
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// A script of `tests/fixture/ninep`, with the packages of `cargo xtask wheels`.
fn python(script: &str) -> Command {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixture/ninep");
    let packages = ["p9fs", "fsspec", "pyroute2"].map(|it| python_packages().join(it));
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", std::env::join_paths(packages).unwrap());
    command.env("PYTHONDONTWRITEBYTECODE", "1").arg(folder.join(script));
    command
}

fn python_packages() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("python")
}

/// Whether the packages are there; otherwise says so.
fn has_python(test: &str) -> bool {
    let there = python_packages().join("pyroute2/VERSION").exists();
    if !there {
        skip(test, "needs clients of 9P in Python (cargo xtask wheels)");
    }
    there
}

#[test]
fn the_client_of_another_crate_runs_a_session() {
    let served = served();
    assert_eq!(play(&|| Box::new(Ninep::connect(&served))), WANT);
}

#[test]
fn clients_in_python_run_a_session() {
    if !has_python("clients_in_python_run_a_session") {
        return;
    }
    let served = served();
    for script in ["py9p_calls.py", "pyroute2_calls.py"] {
        assert_eq!(play(&|| Box::new(Python::connect(&served, script))), WANT, "{script}");
    }
}

#[test]
fn py9p_lists_and_reads_the_files() {
    if !has_python("py9p_lists_and_reads_the_files") {
        return;
    }
    let served = Served::with("");
    let mut it = python("py9p_client.py");
    let uid = rustix::process::geteuid().as_raw();
    it.arg(path(&served)).arg(format!("#{uid}"));
    let found: Value = serde_json::from_str(&output(it)).unwrap();
    let arch = format!("/Linux/{}\n", std::env::consts::ARCH);
    assert_eq!(found["names"].as_array().map(Vec::len), Some(11), "{found}");
    assert_eq!((&found["arch"], &found["length"]), (&json!(arch), &json!(arch.len())));
    assert!(found["processes"].as_u64() > Some(0));
    assert_eq!(found["absent"], "b'No such file or directory'");
    assert_eq!(found["create"], "b'Operation not permitted'");
    assert!(found["err"].as_str().unwrap().contains("created below fs/"), "{found}");
    // The same by the file system that p9fs makes of it.
    assert_eq!(found["listed"], found["names"], "{found}");
    assert_eq!(found["fetched"], arch);
}
