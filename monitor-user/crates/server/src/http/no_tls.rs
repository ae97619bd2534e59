//! Replaces `tls` in a build without the feature `tls`: a configured certificate is refused.

use super::listen::Listen;
use std::{convert::Infallible, io};
use tokio::net::TcpStream;

/// Has no values.
#[derive(Clone)]
pub struct Tls(Infallible);

impl Tls {
    /// `None` without a certificate.
    ///
    /// # Errors
    ///
    /// When a certificate is configured.
    pub fn from_config(listen: &Listen) -> io::Result<Option<Self>> {
        match listen.certificate {
            None => Ok(None),
            Some(_) => Err(io::Error::other(
                "this program was built without TLS: build it with `--features tls`",
            )),
        }
    }

    /// Never called, because there is no value.
    pub async fn accept(&self, _: TcpStream) -> io::Result<(TcpStream, bool)> {
        match self.0 {}
    }
}
