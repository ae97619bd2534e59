//! A stream to another service for a program without tokio, such as a command.
//!
//! In: an address, the files of a certificate. Out: bytes in both directions. Which user is
//! attached as, and what is read, is not known here.

use super::address::{Address, HostPort};
use super::certificate::CertificateFiles;
use super::tls::{BlockingTlsStream, ClientTls};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The stream.
pub enum BlockingStream {
    /// A Unix socket.
    Unix(UnixStream),
    /// TCP without authentication.
    Tcp(TcpStream),
    /// TLS between nodes.
    Tls(Box<BlockingTlsStream>),
}

impl BlockingStream {
    /// Connects within the deadline; an address with TLS needs the certificate.
    ///
    /// # Errors
    ///
    /// When no service answers in time, or its certificate is not that of the host.
    pub fn connect(
        address: &Address,
        certificate: Option<&CertificateFiles>,
        deadline: Duration,
    ) -> io::Result<Self> {
        match address {
            Address::Unix(path) => UnixStream::connect(path).map(Self::Unix),
            Address::Tcp(at) => tcp(at, deadline).map(Self::Tcp),
            Address::Tls(at) => {
                let files = certificate
                    .ok_or_else(|| io::Error::other("an address with TLS needs a certificate"))?;
                let tls = ClientTls::load(files)?;
                let stream = tcp(at, deadline)?;
                stream.set_read_timeout(Some(deadline))?;
                stream.set_write_timeout(Some(deadline))?;
                let stream = tls.handshake_blocking(stream, at).map_err(named_late)?;
                // A file may wait for as long as it likes.
                stream.tcp().set_read_timeout(None)?;
                stream.tcp().set_write_timeout(None)?;
                Ok(Self::Tls(Box::new(stream)))
            }
        }
    }
}

/// A connection to the first address of the host that answers.
fn tcp(at: &HostPort, deadline: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the host has no address");
    for address in (at.host.as_str(), at.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, deadline) {
            Ok(stream) => {
                // A request is one small message, which Nagle's algorithm would delay.
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(why) => last = why,
        }
    }
    Err(last)
}

/// The deadline of a socket is an error of its own name.
fn named_late(why: io::Error) -> io::Error {
    match why.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::new(io::ErrorKind::TimedOut, "the TLS handshake has no answer in time")
        }
        _ => why,
    }
}

impl Read for BlockingStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(it) => it.read(bytes),
            Self::Tcp(it) => it.read(bytes),
            Self::Tls(it) => it.read(bytes),
        }
    }
}

impl Write for BlockingStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(it) => it.write(bytes),
            Self::Tcp(it) => it.write(bytes),
            Self::Tls(it) => it.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Unix(it) => it.flush(),
            Self::Tcp(it) => it.flush(),
            Self::Tls(it) => it.flush(),
        }
    }
}
