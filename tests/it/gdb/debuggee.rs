//! The programs that are debugged (`tests/fixture/gdb/debuggee.c`), and gdb on them.

use super::programs::built;
use crate::deadline::{deadline, until};
use crate::served::{Folder, Served, monitor, write};
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// A running program.
pub struct Debuggee {
    child: Child,
    /// It stays open, so that the program may write more.
    _output: BufReader<ChildStdout>,
}

impl Debuggee {
    /// Starts `debuggee` in a mode, and waits until it is ready.
    pub fn start(words: &str) -> Self {
        Self::start_of("debuggee", words)
    }

    /// Starts a program, and waits until it is ready.
    pub fn start_of(program: &str, words: &str) -> Self {
        let folder = built(program);
        let mut command = Command::new(folder.join(program));
        command.args(words.split_whitespace()).current_dir(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let _bytes = output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let it = Self { child, _output: output };
        if words.starts_with("threads") {
            until(|| {
                (it.thread_names().iter().filter(|it| it.starts_with("loop-")).count() == 3)
                    .then_some(())
            });
        }
        it
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The names of its threads.
    pub fn thread_names(&self) -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap().flatten();
        tasks.filter_map(|it| std::fs::read_to_string(it.path().join("comm")).ok()).collect()
    }

    /// Whether a debugger traces it.
    pub fn is_traced(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        !status.contains("TracerPid:\t0\n")
    }

    /// Its state, as proc(5) names it.
    pub fn state(&self) -> char {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        stat.rsplit(") ").next().unwrap().chars().next().unwrap()
    }

    /// Writes to its standard input.
    pub fn write(&mut self, bytes: &[u8]) {
        std::io::Write::write_all(self.child.stdin.as_mut().unwrap(), bytes).unwrap();
    }

    /// Waits until it has ended.
    pub fn ended(&mut self) -> ExitStatus {
        until(|| self.child.try_wait().unwrap())
    }
}

impl Drop for Debuggee {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What gdb prints when it executes this script on a program through the service. An error ends the
/// script.
#[track_caller]
pub fn through(service: &Served, program: &Debuggee, script: &str) -> String {
    executed(by_service(service, program), script)
}

/// What gdb prints when it executes this script on a program that it traces itself.
#[track_caller]
pub fn natively(program: &Debuggee, script: &str) -> String {
    let mut command = Command::new("gdb");
    command.args(["-p", &program.pid().to_string()]);
    executed(command, script)
}

/// gdb on a program through the service.
pub fn by_service(service: &Served, program: &Debuggee) -> Command {
    let mut command = monitor();
    command.env("MONITOR_SOCKET", service.socket());
    command.args(["gdb", &program.pid().to_string(), "--"]);
    command
}

/// gdb on a program through its own server.
pub fn by_gdbserver(program: &Debuggee) -> Command {
    let mut command = Command::new("gdb");
    command.args(["-iex", "set remotetimeout 30", "-iex", "set sysroot /"]);
    // Its own messages are not gdb's.
    let server = format!("target remote | exec gdbserver --attach - {} 2>/dev/null", program.pid());
    command.args(["-ex", &server]);
    command
}

/// What a gdb prints when it executes a script. An error ends the script.
#[track_caller]
fn executed(mut command: Command, script: &str) -> String {
    let folder = Folder::new();
    let file = folder.join("script");
    write(&file, &format!("{SETTINGS}{script}"));
    command.arg("-x").arg(&file);
    output(command)
}

/// What a gdb prints when it executes commands, errors included, which end nothing.
#[track_caller]
pub fn executed_lines(mut command: Command, script: &str) -> String {
    for line in SETTINGS.lines().chain(script.lines()) {
        command.args(["-ex", line]);
    }
    let mut merged = Command::new("sh");
    merged.args(["-c", "exec \"$@\" 2>&1", "sh"]);
    merged.arg(command.get_program()).args(command.get_args());
    merged.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    output(merged)
}

/// Where the program is, and how threads are called there, differs before the mark.
const SETTINGS: &str = "set pagination off\nset confirm off\necho ---\\n\n";

#[track_caller]
fn output(mut command: Command) -> String {
    command.args(["-nx", "-batch", "-iex", "set debuginfod enabled off"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("gdb is there: apt install gdb");
    let (out, err) = (collect(child.stdout.take().unwrap()), collect(child.stderr.take().unwrap()));
    // Both ends of the pipes are closed when gdb has ended.
    let printed = out.recv_timeout(deadline());
    if printed.is_err() {
        child.kill().unwrap();
    }
    let _status = child.wait().unwrap();
    let errors = err.recv().unwrap();
    let ended = printed.is_ok();
    let printed = printed.or_else(|_| out.recv()).unwrap();
    assert!(ended, "gdb did not end:\n{printed}\n{errors}");
    let (_, after) = printed.split_once("---\n").unwrap_or_else(|| panic!("{printed}\n{errors}"));
    after.to_owned()
}

/// All that is read until the end, on a thread of its own.
fn collect(mut from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    let _reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _read = from.read_to_end(&mut bytes);
        sender.send(String::from_utf8_lossy(&bytes).into_owned())
    });
    receiver
}

/// A transcript without what differs from run to run: addresses, process ids, how threads are
/// called, and which of them were noticed when; and the children that gdb does not follow.
pub fn masked(transcript: &str) -> String {
    let noise = [
        "[New Thread",
        "[Thread ",
        "[Switching to",
        "[Detaching after",
        "warning:",
        "Download failed",
    ];
    let lines = transcript.lines().filter(|line| !noise.iter().any(|it| line.starts_with(it)));
    let mut masked = String::new();
    for line in lines {
        let mut rest = line;
        while let Some(at) = rest.find("0x") {
            masked.push_str(&rest[..at]);
            masked.push_str("0xA");
            rest = rest[at + 2..].trim_start_matches(|it: char| it.is_ascii_hexdigit());
        }
        masked.push_str(rest);
        masked.push('\n');
    }
    masked
}
