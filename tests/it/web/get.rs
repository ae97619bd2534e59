//! The least of an HTTP client, and a service that listens for it.

use crate::deadline;
use crate::served::{Served, monitor};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;

/// A service with an HTTP listener.
pub struct Web {
    /// The service.
    pub served: Served,
    /// Where it listens.
    pub address: SocketAddr,
    token: PathBuf,
}

/// What was answered.
pub struct Answer {
    /// Its number.
    pub status: u16,
    /// Its head, in small letters.
    pub head: String,
    /// The rest.
    pub body: Vec<u8>,
}

impl Web {
    /// With fixed values, and this configuration beside the listener's.
    pub fn with(config: &str) -> Self {
        Self::reading(config, "test")
    }

    /// With this backend.
    pub fn reading(config: &str, backend: &str) -> Self {
        let config = format!("[http]\nlisten = \"127.0.0.1:0\"\n{config}");
        let served = Served::started(&config, monitor(), backend);
        let status = served.status();
        let address = status["http"]["address"].as_str().expect("it listens");
        let address = address.split_once("://").unwrap().1.parse().unwrap();
        let token = status["http"]["token"].as_str().unwrap().into();
        Self { served, address, token }
    }

    /// The header that shows all.
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
        self.say(&format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n"
        ))
    }

    /// Says this, and gives what is answered.
    #[track_caller]
    pub fn say(&self, request: &str) -> Answer {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        Answer::of(&all)
    }
}

impl Answer {
    /// Of its bytes.
    #[track_caller]
    pub fn of(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|it| it == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head, body: bytes[end + 4..].to_vec() }
    }

    /// As text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}
