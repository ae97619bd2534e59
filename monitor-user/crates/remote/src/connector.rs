//! Connects to other services, with the certificate of this node if it has one.

use super::address::Address;
use super::certificate::CertificateFiles;
use super::error::RemoteError;
use super::remote::Remote;
use super::stream;
use super::tls::ClientTls;
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::time::Duration;
use tokio::time::timeout;

/// What connects; by default without a certificate, so that no address with TLS is reached.
#[derive(Clone, Default)]
pub struct Connector {
    tls: Option<ClientTls>,
}

impl Debug for Connector {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let with = if self.tls.is_some() { "with" } else { "without" };
        write!(out, "Connector({with} a certificate)")
    }
}

impl Connector {
    /// With the certificate of these files.
    ///
    /// # Errors
    ///
    /// When one cannot be read or is not valid; in a build without TLS.
    pub fn with_certificate(files: &CertificateFiles) -> io::Result<Self> {
        ClientTls::load(files).map(|tls| Self { tls: Some(tls) })
    }

    /// Connects, and attaches as a user: a name, `#` and a uid, an empty text for the user of this
    /// process, or `none`. `deadline` is that of connecting and of each call but reads and writes.
    ///
    /// # Errors
    ///
    /// When no service answers in time, or it refuses the user.
    pub async fn connect(
        &self,
        address: &Address,
        user: &str,
        deadline: Duration,
    ) -> Result<Remote, RemoteError> {
        let connected = timeout(deadline, stream::connect(address, self.tls.as_ref())).await;
        let late = |_| {
            Err(RemoteError::TimedOut { what: format!("connecting to {address}"), after: deadline })
        };
        Remote::over(connected.unwrap_or_else(late)?, user, deadline).await
    }
}
