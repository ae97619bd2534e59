//! An open file of another service.

use super::call::{Call, Replied, call};
use super::error::RemoteError;
use super::fid::Fid;
use bytes::Bytes;
use monitor_ninep::reply::READ_HEADER;
use monitor_ninep::{Reply, Request};
use std::collections::VecDeque;

/// Bytes of Twrite beside its content.
const WRITE_HEADER: u32 = 23;
/// Messages of an upload that are in flight.
const UPLOAD_WINDOW: usize = 4;

/// An open file. It is closed when it is dropped; reads and writes have no deadline of their own,
/// because files may block: drop the future, and the call is flushed.
#[derive(Debug)]
pub struct RemoteFile {
    fid: Fid,
}

impl RemoteFile {
    pub(crate) const fn new(fid: Fid) -> Self {
        Self { fid }
    }

    /// The most bytes of one read.
    pub fn read_bytes(&self) -> u32 {
        let header = u32::try_from(READ_HEADER).unwrap_or(u32::MAX);
        self.fid.connection.message_bytes().saturating_sub(header).max(1)
    }

    /// The most bytes of one write.
    pub fn write_bytes(&self) -> usize {
        let most = self.fid.connection.message_bytes().saturating_sub(WRITE_HEADER).max(1);
        usize::try_from(most).unwrap_or(usize::MAX)
    }

    /// Reads at most `count` bytes, in one message; none at the end of the file.
    ///
    /// # Errors
    ///
    /// When the server refuses, or the connection has ended.
    pub async fn read(&self, offset: u64, count: u32) -> Result<Bytes, RemoteError> {
        let count = count.min(self.read_bytes());
        let request = Request::Read { fid: self.fid.number, offset, count };
        let replied = call(&self.fid.connection, &request).await?.await?;
        let content = replied.content()?;
        if u32::try_from(content.len()).is_ok_and(|it| it <= count) {
            Ok(content)
        } else {
            Err(RemoteError::protocol("more bytes than the read has asked for"))
        }
    }

    /// Reads from the beginning to the end.
    ///
    /// # Errors
    ///
    /// As [`RemoteFile::read`]; when it has more than `most` bytes.
    pub async fn read_to_end(&self, most: usize) -> Result<Vec<u8>, RemoteError> {
        let mut all = Vec::new();
        loop {
            let offset = u64::try_from(all.len()).unwrap_or(u64::MAX);
            let part = self.read(offset, self.read_bytes()).await?;
            if part.is_empty() {
                return Ok(all);
            }
            if all.len() + part.len() > most {
                return Err(RemoteError::TooLarge { most });
            }
            all.extend_from_slice(&part);
        }
    }

    /// Writes in one message what fits it, and returns the number of bytes that were written.
    ///
    /// # Errors
    ///
    /// When the server refuses, or the connection has ended.
    pub async fn write(&self, offset: u64, content: &[u8]) -> Result<usize, RemoteError> {
        let content = &content[..content.len().min(self.write_bytes())];
        let call = self.begin_write(offset, content).await?;
        written(&call.await?, content.len())
    }

    /// Writes all of it, one message after the other.
    ///
    /// # Errors
    ///
    /// As [`RemoteFile::write`]; a part may have been written then.
    pub async fn write_all(&self, mut offset: u64, content: &[u8]) -> Result<(), RemoteError> {
        let mut rest = content;
        while !rest.is_empty() {
            let count = self.write(offset, rest).await?;
            if count == 0 {
                return Err(RemoteError::protocol("a write of no bytes"));
            }
            rest = &rest[count..];
            offset += u64::try_from(count).unwrap_or(u64::MAX);
        }
        Ok(())
    }

    /// Writes all of it with several messages in flight: for a file that takes each of them whole,
    /// at its offset.
    ///
    /// # Errors
    ///
    /// As [`RemoteFile::write`], and when the server writes less; a part may have been written.
    pub async fn upload(&self, mut offset: u64, content: &[u8]) -> Result<(), RemoteError> {
        let mut in_flight: VecDeque<(Call, usize)> = VecDeque::new();
        for part in content.chunks(self.write_bytes()) {
            if in_flight.len() >= UPLOAD_WINDOW {
                finish_first(&mut in_flight).await?;
            }
            in_flight.push_back((self.begin_write(offset, part).await?, part.len()));
            offset += u64::try_from(part.len()).unwrap_or(u64::MAX);
        }
        while !in_flight.is_empty() {
            finish_first(&mut in_flight).await?;
        }
        Ok(())
    }

    async fn begin_write(&self, offset: u64, content: &[u8]) -> Result<Call, RemoteError> {
        let request = Request::Write { fid: self.fid.number, offset, content };
        call(&self.fid.connection, &request).await
    }
}

/// Waits for the oldest write.
async fn finish_first(in_flight: &mut VecDeque<(Call, usize)>) -> Result<(), RemoteError> {
    let Some((call, length)) = in_flight.pop_front() else { return Ok(()) };
    match written(&call.await?, length)? {
        count if count == length => Ok(()),
        count => Err(RemoteError::protocol(format_args!("{count} of {length} bytes are written"))),
    }
}

/// The number of bytes that a reply says, of these.
fn written(replied: &Replied, of: usize) -> Result<usize, RemoteError> {
    match replied.reply()? {
        Reply::Write { count } => {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            let too_many = || RemoteError::protocol("more bytes written than were sent");
            (count <= of).then_some(count).ok_or_else(too_many)
        }
        _ => Err(replied.unexpected()),
    }
}
