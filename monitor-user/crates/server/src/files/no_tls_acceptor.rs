//! Replaces `tls_acceptor` in a build without the feature `tls`: a certificate is refused.

use monitor_remote::CertificateFiles;
use std::{convert::Infallible, io};
use tokio::net::TcpStream;

/// A stream after its handshake.
pub type AcceptedTls = TcpStream;

/// Has no values.
#[derive(Clone)]
pub struct TlsAcceptor(Infallible);

impl TlsAcceptor {
    /// Refuses.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn load(_: &CertificateFiles) -> io::Result<Self> {
        Err(io::Error::other("this program was built without TLS: build it with `--features tls`"))
    }

    /// Never called, because there is no value.
    pub async fn accept(&self, _: TcpStream) -> io::Result<AcceptedTls> {
        match self.0 {}
    }
}
