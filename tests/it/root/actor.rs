//! A process that runs statements of a test, one at a time.

use super::workload::Guarded;
use monitor_model::id::Pid;
use std::io::Write as _;

/// Runs each line, then answers with the value of `it`.
const LOOP: &str = "
import os, signal, socket, subprocess, sys
it = 0
def connected(family, port):
    s = socket.socket(family)
    s.connect(('::1' if family == socket.AF_INET6 else '127.0.0.1', port))
    return s
def listening(family):
    s = socket.socket(family)
    s.bind(('::' if family == socket.AF_INET6 else '0.0.0.0', 0))
    s.listen(16)
    return s
def send(s, left):
    chunk = bytes(1 << 16)
    while left: left -= s.send(chunk[:left])
def receive(s, left):
    while left: left -= len(s.recv(min(left, 1 << 16)))
def drain(s):
    n = 0
    while chunk := s.recv(1 << 16): n += len(chunk)
    return n
def fill(s):
    s.setblocking(False)
    n = 0
    try:
        while True: n += s.send(bytes(4099))
    except BlockingIOError: return n
for line in sys.stdin:
    exec(line)
    print(it, flush=True)
";

/// A Python process that waits for the next statement.
pub struct Actor(Guarded);

impl Actor {
    /// Starts one.
    pub fn new() -> Self {
        Self(Guarded::python(LOOP))
    }

    /// Its id.
    pub fn pid(&self) -> Pid {
        self.0.pid()
    }

    /// Starts a statement.
    pub fn begin(&mut self, statement: &str) {
        writeln!(self.0.0.stdin.as_mut().unwrap(), "{statement}").unwrap();
    }

    /// Waits for the end of the statement; returns the number `it`.
    #[track_caller]
    pub fn end(&mut self) -> u64 {
        self.0.line().parse().expect("the statement failed; its error is printed above")
    }

    /// Executes a statement; returns the number `it`.
    #[track_caller]
    pub fn run(&mut self, statement: &str) -> u64 {
        self.begin(statement);
        self.end()
    }

    /// Lets it end, and waits until it was reaped.
    pub fn leave(mut self) {
        drop(self.0.0.stdin.take());
        let _ = self.0.0.wait().unwrap();
    }
}
