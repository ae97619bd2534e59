//! The server's end of TLS between nodes.

use monitor_remote::CertificateFiles;
use std::io;
use tokio::net::TcpStream;

/// A stream after its handshake.
pub type AcceptedTls = tokio_rustls::server::TlsStream<TcpStream>;

/// Accepts clients with a certificate of the authority, and no others.
#[derive(Clone)]
pub struct TlsAcceptor(tokio_rustls::TlsAcceptor);

impl TlsAcceptor {
    /// With these files.
    ///
    /// # Errors
    ///
    /// When one cannot be read or is not valid.
    pub fn load(files: &CertificateFiles) -> io::Result<Self> {
        monitor_remote::server_config(files).map(|config| Self(config.into()))
    }

    /// Performs the handshake.
    ///
    /// # Errors
    ///
    /// When the other end has no such certificate, or closes the stream.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<AcceptedTls> {
        self.0.accept(stream).await
    }
}
