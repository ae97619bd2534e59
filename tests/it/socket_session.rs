//! A connection to the socket of a daemon, line by line.

use crate::deadline::{deadline, until};
use serde_json::Value;
use std::fmt::Display;
use std::io::{BufRead as _, BufReader, ErrorKind, Result, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// A connection to a daemon.
pub struct SocketSession {
    stream: BufReader<UnixStream>,
}

impl SocketSession {
    /// Connects to a socket, which may still be about to listen.
    pub fn connect(socket: &Path) -> Self {
        let stream = until(|| UnixStream::connect(socket).ok());
        stream.set_read_timeout(Some(deadline())).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    /// Sends bytes unchanged.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// The next line as JSON; `None` when the daemon has closed.
    #[track_caller]
    pub fn next_json(&mut self) -> Option<Value> {
        self.line().map(|line| serde_json::from_str(&line).unwrap())
    }

    /// The next line without its end; `None` when the daemon has closed.
    #[track_caller]
    pub fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => None,
            // The daemon closed while data was still on its way to it.
            Err(why) if why.kind() == ErrorKind::ConnectionReset => None,
            Ok(_) => Some(line.trim_end().to_owned()),
            Err(why) => panic!("no line within the deadline: {why}"),
        }
    }

    /// The next line that is wanted. Lines may come faster than conditions are checked, so nothing
    /// sleeps between two of them.
    #[track_caller]
    pub fn line_that(&mut self, is_wanted: impl Fn(&str) -> bool) -> String {
        let (start, deadline) = (Instant::now(), deadline());
        loop {
            let line = self.line().expect("the daemon has not closed");
            if is_wanted(&line) {
                return line;
            }
            assert!(start.elapsed() < deadline, "not within {deadline:?}: {line}");
        }
    }

    /// Sends a request, and returns the next line.
    #[track_caller]
    pub fn request(&mut self, request: &str) -> String {
        self.send(format!("{request}\n").as_bytes()).unwrap();
        self.line().expect("a reply")
    }

    /// Makes a call, and returns the whole reply; events before it are skipped.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: impl Display) -> Value {
        let line = format!("{{\"id\":1,\"method\":\"{method}\",\"params\":{params}}}\n");
        self.send(line.as_bytes()).unwrap();
        loop {
            let line = self.next_json().expect("a reply to the call");
            if line.get("method").is_none() {
                return line;
            }
        }
    }

    /// Makes a call, and returns its result.
    #[track_caller]
    pub fn result(&mut self, method: &str, params: impl Display) -> Value {
        let mut reply = self.call(method, params);
        assert!(reply["error"].is_null(), "{reply}");
        reply["result"].take()
    }

    /// Makes a call, and returns the message of its refusal.
    #[track_caller]
    pub fn refusal(&mut self, method: &str, params: impl Display) -> String {
        let reply = self.call(method, params);
        reply["error"]["message"].as_str().expect("a refusal").to_owned()
    }

    /// The parameters of the next event.
    #[track_caller]
    pub fn event(&mut self) -> Value {
        loop {
            let mut line = self.next_json().expect("an event");
            if line["method"] == "event" {
                return line["params"].take();
            }
        }
    }

    /// Limits how long a write may block.
    pub fn limit_write_time(&self) {
        let moment = Duration::from_millis(500);
        self.stream.get_ref().set_write_timeout(Some(moment)).unwrap();
    }
}
