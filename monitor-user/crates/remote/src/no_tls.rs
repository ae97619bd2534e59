//! Replaces `tls` in a build without the feature `tls`: certificates are refused.

use super::address::HostPort;
use super::certificate::CertificateFiles;
use std::convert::Infallible;
use std::io::{self, Read, Write};
use tokio::net::TcpStream;

/// Has no values.
#[derive(Clone)]
pub struct ClientTls(Infallible);

/// Has no values.
pub struct BlockingTlsStream(Infallible);

impl ClientTls {
    /// Refuses.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn load(_: &CertificateFiles) -> io::Result<Self> {
        Err(io::Error::other("this program was built without TLS: build it with `--features tls`"))
    }

    /// Never called, because there is no value.
    pub async fn handshake(&self, _: TcpStream, _: &HostPort) -> io::Result<TcpStream> {
        match self.0 {}
    }
    /// Never called, because there is no value.
    pub fn handshake_blocking(
        &self,
        _: std::net::TcpStream,
        _: &HostPort,
    ) -> io::Result<BlockingTlsStream> {
        match self.0 {}
    }
}

impl BlockingTlsStream {
    /// Never called, because there is no value.
    pub const fn tcp(&self) -> &std::net::TcpStream {
        match self.0 {}
    }
}

impl Read for BlockingTlsStream {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match self.0 {}
    }
}

impl Write for BlockingTlsStream {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        match self.0 {}
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0 {}
    }
}
