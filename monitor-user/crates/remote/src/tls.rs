//! TLS 1.3 between nodes, both ends with a certificate.
//!
//! In: PEM files. Out: streams to nodes whose certificate the authority has signed for the host of
//! the address, and the configuration of a server for such clients.

use super::address::HostPort;
use super::certificate::CertificateFiles;
use super::pem;
use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, ServerConfig};

/// What connects with the certificate of this node.
#[derive(Clone)]
pub struct ClientTls(TlsConnector);

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
        Ok(Self(TlsConnector::from(Arc::new(config))))
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
        let name = ServerName::try_from(at.host.clone()).map_err(io::Error::other)?;
        self.0.connect(name, stream).await
    }
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
