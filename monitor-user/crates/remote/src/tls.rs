//! TLS 1.3 between nodes, both ends with a certificate.
//!
//! In: PEM files. Out: streams to nodes whose certificate the authority has signed for the host of
//! the address, and the configuration of a server for such clients.

use super::address::HostPort;
use super::certificate::CertificateFiles;
use super::pem;
use std::io::{self, Read, Write};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, ServerConfig, StreamOwned};

/// What connects with the certificate of this node.
#[derive(Clone)]
pub struct ClientTls(Arc<ClientConfig>);

/// A stream to a node for a program without tokio.
pub struct BlockingTlsStream(StreamOwned<ClientConnection, std::net::TcpStream>);

impl ClientTls {
    /// With these files.
    ///
    /// # Errors
    ///
    /// When one cannot be read or is not valid.
    pub fn load(files: &CertificateFiles) -> io::Result<Self> {
        let roots = pem::authorities(&files.authority)?;
        let chain = pem::certificates(&files.certificate)?;
        let key = pem::private_key(&files.key)?;
        let builder = ClientConfig::builder_with_protocol_versions(&[&TLS13]);
        let config = builder.with_root_certificates(roots).with_client_auth_cert(chain, key);
        let config = config.map_err(|why| pem::wrong(&files.certificate, &why))?;
        Ok(Self(Arc::new(config)))
    }

    /// The stream to a node, after the handshake.
    ///
    /// # Errors
    ///
    /// When the certificate of the node is not that of the host, or not of the authority. That the
    /// node refuses ours is the error of the first read.
    pub async fn handshake(
        &self,
        stream: TcpStream,
        at: &HostPort,
    ) -> io::Result<TlsStream<TcpStream>> {
        TlsConnector::from(Arc::clone(&self.0)).connect(server_name(at)?, stream).await
    }

    /// The same for a program without tokio; the stream has its deadlines.
    ///
    /// # Errors
    ///
    /// As [`Self::handshake`].
    pub fn handshake_blocking(
        &self,
        mut stream: std::net::TcpStream,
        at: &HostPort,
    ) -> io::Result<BlockingTlsStream> {
        let connection = ClientConnection::new(Arc::clone(&self.0), server_name(at)?);
        let mut connection = connection.map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(BlockingTlsStream(StreamOwned::new(connection, stream)))
    }
}

impl BlockingTlsStream {
    /// What carries it.
    pub const fn tcp(&self) -> &std::net::TcpStream {
        &self.0.sock
    }
}

impl Read for BlockingTlsStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Write for BlockingTlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The name that the certificate of a node must have.
fn server_name(at: &HostPort) -> io::Result<ServerName<'static>> {
    ServerName::try_from(at.host.clone()).map_err(io::Error::other)
}

/// The configuration of a server for clients with a certificate of the authority, and no others.
///
/// # Errors
///
/// When a file cannot be read or is not valid.
pub fn server_config(files: &CertificateFiles) -> io::Result<Arc<ServerConfig>> {
    let roots = Arc::new(pem::authorities(&files.authority)?);
    let verifier = WebPkiClientVerifier::builder(roots).build();
    let verifier = verifier.map_err(|why| pem::wrong(&files.authority, &why))?;
    let chain = pem::certificates(&files.certificate)?;
    let key = pem::private_key(&files.key)?;
    let builder = ServerConfig::builder_with_protocol_versions(&[&TLS13]);
    let config = builder.with_client_cert_verifier(verifier).with_single_cert(chain, key);
    config.map(Arc::new).map_err(|why| pem::wrong(&files.certificate, &why))
}
