//! TLS with rustls, with or without client certificates.
//!
//! In: PEM files. Out: streams, and whether the client has a certificate that the configured
//! authority signed. A client without one is accepted and needs the token.

use super::listen::Listen;
use monitor_remote::pem;
use std::{io, sync::Arc};
use tokio::net::TcpStream;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::{TlsAcceptor, rustls::server::WebPkiClientVerifier, server::TlsStream};

/// The TLS acceptor of the listener.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl Tls {
    /// The acceptor for the configured certificate; `None` without one.
    ///
    /// # Errors
    ///
    /// When a file cannot be read or is not valid.
    pub fn from_config(listen: &Listen) -> io::Result<Option<Self>> {
        let (Some(certificate), Some(key)) = (&listen.certificate, &listen.key) else {
            return Ok(None);
        };
        let builder = match &listen.clients {
            Some(authority) => {
                let roots = Arc::new(pem::authorities(authority)?);
                let verifier = WebPkiClientVerifier::builder(roots).allow_unauthenticated();
                let verifier = verifier.build().map_err(|why| pem::wrong(authority, &why))?;
                ServerConfig::builder().with_client_cert_verifier(verifier)
            }
            None => ServerConfig::builder().with_no_client_auth(),
        };
        let chain = pem::certificates(certificate)?;
        let secret = pem::private_key(key)?;
        let config =
            builder.with_single_cert(chain, secret).map_err(|why| pem::wrong(certificate, &why));
        Ok(Some(Self(TlsAcceptor::from(Arc::new(config?)))))
    }

    /// Performs the handshake, and returns whether the client has a certificate.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<(TlsStream<TcpStream>, bool)> {
        let stream = self.0.accept(stream).await?;
        // A certificate that the authority did not sign fails the handshake.
        let is_authenticated =
            stream.get_ref().1.peer_certificates().is_some_and(|it| !it.is_empty());
        Ok((stream, is_authenticated))
    }
}
