//! The files of another service, as one user.

use super::call::{agree_version, call_for_fid};
use super::connection::Connection;
use super::error::RemoteError;
use super::fid::Fid;
use super::file::RemoteFile;
use super::node::{RemoteMode, RemoteNode};
use monitor_ninep::limits::DIRECTORY_BYTES;
use monitor_ninep::{NO_FID, Request, Stat};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// Most bytes of an explanation.
const EXPLANATION_BYTES: usize = 64 << 10;

/// The files of a service, as the user of an attach. What it opened stays usable when it is
/// dropped; the connection is closed with the last of them.
#[derive(Debug)]
pub struct Remote {
    root: Fid,
}

impl Remote {
    /// Attaches over a stream that is there, as [`Connector::connect`](crate::Connector::connect)
    /// does.
    ///
    /// # Errors
    ///
    /// When the service does not answer in time, or refuses the user.
    pub async fn over<S>(stream: S, user: &str, deadline: Duration) -> Result<Self, RemoteError>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let connection = Connection::over(stream, deadline);
        agree_version(&connection).await?;
        Self::attached(&connection, user).await
    }

    /// The files as another user, over the same connection.
    ///
    /// # Errors
    ///
    /// When the server refuses the user, or no reply comes.
    pub async fn attach(&self, user: &str) -> Result<Self, RemoteError> {
        Self::attached(&self.root.connection, user).await
    }

    async fn attached(connection: &Arc<Connection>, user: &str) -> Result<Self, RemoteError> {
        let request = |fid| Request::Attach { fid, afid: NO_FID, user, tree: "" };
        let attached = async { call_for_fid(connection, 0, request).await?.await };
        let replied = connection.within("Tattach", attached).await?;
        let unexpected = replied.unexpected();
        Ok(Self { root: replied.fid.ok_or(unexpected)? })
    }

    /// Why the connection has ended, if it has.
    pub fn closed(&self) -> Option<RemoteError> {
        self.root.connection.table.closed()
    }

    #[cfg(test)]
    pub(crate) const fn root(&self) -> &Fid {
        &self.root
    }

    /// The file at a path from the root.
    ///
    /// # Errors
    ///
    /// [`RemoteError::NotFound`], and when the server refuses, or no reply comes.
    pub async fn walk(&self, path: &str) -> Result<RemoteNode, RemoteError> {
        RemoteNode::walk(&self.root, path).await
    }

    /// Opens a file.
    ///
    /// # Errors
    ///
    /// As [`Remote::walk`] and [`RemoteNode::open`].
    pub async fn open(&self, path: &str, mode: RemoteMode) -> Result<RemoteFile, RemoteError> {
        self.walk(path).await?.open(mode).await
    }

    /// The attributes of a file.
    ///
    /// # Errors
    ///
    /// As [`Remote::walk`].
    pub async fn stat(&self, path: &str) -> Result<Stat, RemoteError> {
        self.walk(path).await?.stat().await
    }

    /// The entries of a directory.
    ///
    /// # Errors
    ///
    /// As [`Remote::read`]; when an entry is malformed.
    pub async fn list(&self, path: &str) -> Result<Vec<Stat>, RemoteError> {
        let bytes = self.read(path, DIRECTORY_BYTES).await?;
        Stat::entries(&bytes).map_err(RemoteError::protocol)
    }

    /// Reads a file of at most `most` bytes to its end.
    ///
    /// # Errors
    ///
    /// As [`Remote::open`] and [`RemoteFile::read_to_end`]. A file that blocks has no deadline.
    pub async fn read(&self, path: &str, most: usize) -> Result<Vec<u8>, RemoteError> {
        self.open(path, RemoteMode::Read).await?.read_to_end(most).await
    }

    /// Writes all of `content` to a file, from its beginning.
    ///
    /// # Errors
    ///
    /// As [`Remote::open`] and [`RemoteFile::write_all`]. A file that blocks has no deadline.
    pub async fn write(&self, path: &str, content: &[u8]) -> Result<(), RemoteError> {
        self.open(path, RemoteMode::Write).await?.write_all(0, content).await
    }

    /// The explanation of the last error of the connection; empty if there is none, or it cannot
    /// be read.
    pub async fn explanation(&self) -> String {
        let read = self.read("err", EXPLANATION_BYTES);
        let text = self.root.connection.within("reading err", read).await.unwrap_or_default();
        String::from_utf8_lossy(&text).trim_end().to_owned()
    }
}
