//! The stream to an address: a Unix socket, TCP, or TLS with the certificate of this node.

use super::address::{Address, HostPort};
use super::error::RemoteError;
use super::tls::ClientTls;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// A stream of any kind.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Connects.
///
/// # Errors
///
/// [`RemoteError::Unreachable`] with what the system says, or for TLS without a certificate.
pub async fn connect(
    address: &Address,
    tls: Option<&ClientTls>,
) -> Result<Box<dyn Stream>, RemoteError> {
    let unreachable = |why: String| RemoteError::Unreachable { address: address.to_string(), why };
    let failed = |why: io::Error| unreachable(why.to_string());
    match address {
        Address::Unix(path) => Ok(Box::new(UnixStream::connect(path).await.map_err(failed)?)),
        Address::Tcp(at) => Ok(Box::new(tcp(at).await.map_err(failed)?)),
        Address::Tls(at) => {
            let tls = tls.ok_or_else(|| {
                let why = "TLS between nodes needs the certificate of this node \
                           (files.certificate in the configuration of its service)";
                unreachable(why.to_owned())
            })?;
            let stream = tcp(at).await.map_err(failed)?;
            Ok(Box::new(tls.handshake(stream, at).await.map_err(failed)?))
        }
    }
}

async fn tcp(at: &HostPort) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((at.host.as_str(), at.port)).await?;
    // A call is one small message, which Nagle's algorithm would delay.
    stream.set_nodelay(true)?;
    Ok(stream)
}
