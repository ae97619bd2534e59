//! A session of the request language: requests by number, each with its reply.

use crate::service::Daemon;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;

/// A connection.
pub struct Session {
    client: UnixStream,
    replies: BufReader<UnixStream>,
}

impl Session {
    /// Connects.
    pub fn connect(daemon: &Daemon) -> Self {
        let (client, replies) = daemon.connect();
        Self { client, replies }
    }

    /// Sends `NUMBER [0] TEXT`, and returns the reply to it; events that come before it are lost.
    pub fn ask(&mut self, number: u32, text: &str) -> String {
        self.send(number, text);
        let begin = format!("{number} ");
        loop {
            let line = self.line();
            if line.starts_with(&begin) {
                return line;
            }
        }
    }

    /// The same of a request that has to succeed.
    pub fn does(&mut self, number: u32, text: &str) {
        let reply = self.ask(number, text);
        assert!(reply.contains("(0") || reply.contains("(9"), "{text}: {reply}");
    }

    /// Sends it.
    pub fn send(&mut self, number: u32, text: &str) {
        writeln!(self.client, "{number} [0] {text}").unwrap();
    }

    /// The next line.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        let bytes = self.replies.read_line(&mut line).unwrap();
        assert!(bytes > 0, "the service has closed the connection");
        line
    }
}
