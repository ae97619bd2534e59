//! A minimal HTTP client that reads the metrics of a program on this machine.

use std::io::{Read as _, Result, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

/// Timeout of a scrape.
const DEADLINE: Duration = Duration::from_secs(10);

/// A free port.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Requests `/metrics`; returns the length of the answer.
pub fn scrape(port: u16) -> Result<usize> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)
}
