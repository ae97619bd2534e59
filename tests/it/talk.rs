//! A conversation with a service, line by line, as any program may have it.

use crate::deadline::{deadline, until};
use serde_json::Value;
use std::fmt::Display;
use std::io::{BufRead as _, BufReader, ErrorKind, Result, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A connection.
pub struct Talk {
    stream: BufReader<UnixStream>,
}

impl Talk {
    /// With whoever listens there, now or soon.
    pub fn to(socket: &Path) -> Self {
        let stream = until(|| UnixStream::connect(socket).ok());
        stream.set_read_timeout(Some(deadline())).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    /// Sends bytes as they are.
    pub fn say(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// The next line; nothing, when the other side has closed.
    #[track_caller]
    pub fn hear(&mut self) -> Option<Value> {
        self.line().map(|line| serde_json::from_str(&line).unwrap())
    }

    /// The same as it is, without its end.
    #[track_caller]
    pub fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => None,
            // It closed while something of ours was still on its way.
            Err(why) if why.kind() == ErrorKind::ConnectionReset => None,
            Ok(_) => Some(line.trim_end().to_owned()),
            Err(why) => panic!("no line within the deadline: {why}"),
        }
    }

    /// Says a request, and gives the next line.
    #[track_caller]
    pub fn ask(&mut self, request: &str) -> String {
        self.say(format!("{request}\n").as_bytes()).unwrap();
        self.line().expect("a reply")
    }

    /// Calls, and gives the whole reply; events that come before it are passed over.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: impl Display) -> Value {
        let line = format!("{{\"id\":1,\"method\":\"{method}\",\"params\":{params}}}\n");
        self.say(line.as_bytes()).unwrap();
        loop {
            let line = self.hear().expect("an answer");
            if line.get("method").is_none() {
                return line;
            }
        }
    }

    /// Calls, and gives the result.
    #[track_caller]
    pub fn result(&mut self, method: &str, params: impl Display) -> Value {
        let mut reply = self.call(method, params);
        assert!(reply["error"].is_null(), "{reply}");
        reply["result"].take()
    }

    /// Calls, and gives the message of the refusal.
    #[track_caller]
    pub fn refusal(&mut self, method: &str, params: impl Display) -> String {
        let reply = self.call(method, params);
        reply["error"]["message"].as_str().expect("a refusal").to_owned()
    }

    /// What the next event carries.
    #[track_caller]
    pub fn event(&mut self) -> Value {
        loop {
            let mut line = self.hear().expect("an event");
            if line["method"] == "event" {
                return line["params"].take();
            }
        }
    }

    /// Waits no longer than a moment for whoever takes nothing.
    pub fn deaf(&self) {
        let moment = Duration::from_millis(500);
        self.stream.get_ref().set_write_timeout(Some(moment)).unwrap();
    }
}
