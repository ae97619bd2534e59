//! Replaces `tls` in a build without the feature `tls`: certificates are refused.

use super::address::HostPort;
use super::certificate::CertificateFiles;
use std::{convert::Infallible, io};
use tokio::net::TcpStream;

/// Has no values.
#[derive(Clone)]
pub struct ClientTls(Infallible);

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
}
