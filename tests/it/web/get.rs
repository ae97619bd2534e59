//! A minimal HTTP client, and a daemon with an HTTP listener.

use crate::deadline;
use crate::served::{Served, monitor};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;

/// A daemon with an HTTP listener.
pub struct Web {
    /// The daemon.
    pub served: Served,
    /// The address of the listener.
    pub address: SocketAddr,
    token: PathBuf,
}

/// A response.
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The head, in lower case.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Web {
    /// Starts it with the canned backend and a configuration besides that of the listener.
    pub fn with(config: &str) -> Self {
        Self::reading(config, "test")
    }

    /// Starts it with a backend.
    pub fn reading(config: &str, backend: &str) -> Self {
        let config = format!("[http]\nlisten = \"127.0.0.1:0\"\n{config}");
        let served = Served::started(&config, monitor(), backend);
        let status = served.status();
        let address = status["http"]["address"].as_str().expect("a listener");
        let address = address.split_once("://").unwrap().1.parse().unwrap();
        let token = status["http"]["token"].as_str().unwrap().into();
        Self { served, address, token }
    }

    /// The header with the token.
    pub fn token(&self) -> String {
        let text = std::fs::read_to_string(&self.token).unwrap();
        format!("Authorization: Bearer {}", text.trim())
    }

    /// The file of the token.
    pub const fn token_file(&self) -> &PathBuf {
        &self.token
    }

    /// A connection.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(deadline::deadline())).unwrap();
        stream
    }

    /// Gets a path.
    #[track_caller]
    pub fn get(&self, path: &str, headers: &[&str]) -> Answer {
        let headers: String = headers.iter().map(|it| format!("{it}\r\n")).collect();
        let host = self.address;
        self.send(&format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n"
        ))
    }

    /// Sends a request, and returns the response.
    #[track_caller]
    pub fn send(&self, request: &str) -> Answer {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        Answer::parse(&all)
    }
}

impl Answer {
    /// Parses a response.
    #[track_caller]
    pub fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|it| it == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head, body: bytes[end + 4..].to_vec() }
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}
