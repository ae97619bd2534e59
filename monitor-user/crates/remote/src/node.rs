//! A file that was walked to, and is not open.

use super::call::{call, call_for_fid};
use super::error::RemoteError;
use super::fid::Fid;
use super::file::RemoteFile;
use monitor_ninep::limits::WALK_NAMES;
use monitor_ninep::{Reply, Request, Stat};

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteMode {
    /// To be read.
    Read,
    /// To be written.
    Write,
    /// To be written, without its previous content.
    Replace,
    /// Both.
    ReadWrite,
}

/// A file of another service, by its path.
#[derive(Debug)]
pub struct RemoteNode {
    fid: Fid,
}

impl RemoteMode {
    /// The byte of Topen.
    const fn byte(self) -> u8 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Replace => 0x11,
            Self::ReadWrite => 2,
        }
    }
}

impl RemoteNode {
    /// The file that is reached from a fid by a path; that of the fid itself, if it has no name.
    pub(crate) async fn walk(from: &Fid, path: &str) -> Result<Self, RemoteError> {
        let connection = &from.connection;
        let names: Vec<&str> = path.split('/').filter(|it| !matches!(*it, "" | ".")).collect();
        let mut parts = names.chunks(WALK_NAMES);
        let first = parts.next().unwrap_or_default().to_vec();
        let (start, count) = (from.number, first.len());
        let request = |new| Request::Walk { fid: start, new, names: first };
        let walked = async { call_for_fid(connection, count, request).await?.await };
        let replied = connection.within("Twalk", walked).await?;
        let unexpected = replied.unexpected();
        let is_walk = matches!(replied.reply()?, Reply::Walk { .. });
        let absent = if is_walk { RemoteError::NotFound } else { unexpected };
        let fid = replied.fid.ok_or(absent)?;
        for part in parts {
            let number = fid.number;
            let request = Request::Walk { fid: number, new: number, names: part.to_vec() };
            let walked = async { call(connection, &request).await?.await };
            let replied = connection.within("Twalk", walked).await?;
            match replied.reply()? {
                Reply::Walk { qids } if qids.len() == part.len() => {}
                Reply::Walk { .. } => return Err(RemoteError::NotFound),
                _ => return Err(replied.unexpected()),
            }
        }
        Ok(Self { fid })
    }

    /// Its attributes.
    ///
    /// # Errors
    ///
    /// When it is not there any longer, or no reply comes.
    pub async fn stat(&self) -> Result<Stat, RemoteError> {
        let connection = &self.fid.connection;
        let request = Request::Stat { fid: self.fid.number };
        let asked = async { call(connection, &request).await?.await };
        let replied = connection.within("Tstat", asked).await?;
        match replied.reply()? {
            Reply::Stat { stat } => Ok(*stat),
            _ => Err(replied.unexpected()),
        }
    }

    /// Opens it.
    ///
    /// # Errors
    ///
    /// When the server refuses, or no reply comes.
    pub async fn open(self, mode: RemoteMode) -> Result<RemoteFile, RemoteError> {
        let request = Request::Open { fid: self.fid.number, mode: mode.byte() };
        self.opened("Topen", &request).await
    }

    /// Creates a file with these permission bits in it, a directory, and opens that file.
    ///
    /// # Errors
    ///
    /// When the server refuses, or no reply comes.
    pub async fn create(
        self,
        (name, permissions): (&str, u32),
        mode: RemoteMode,
    ) -> Result<RemoteFile, RemoteError> {
        let (fid, mode) = (self.fid.number, mode.byte());
        self.opened("Tcreate", &Request::Create { fid, name, permissions, mode }).await
    }

    async fn opened(self, what: &str, request: &Request<'_>) -> Result<RemoteFile, RemoteError> {
        let connection = &self.fid.connection;
        let asked = async { call(connection, request).await?.await };
        let replied = connection.within(what, asked).await?;
        match replied.reply()? {
            Reply::Open { .. } | Reply::Create { .. } => Ok(RemoteFile::new(self.fid)),
            _ => Err(replied.unexpected()),
        }
    }
}
