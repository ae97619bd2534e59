//! An open file `upload`: a key, and the bytes of the file that it permits.
//!
//! In: both in one piece, from the beginning. Out: the file of its user, with the last byte, if all
//! have the SHA-256 that the bus has said; the write of that byte says so. Closed before that, or
//! at its deadline, it leaves nothing.

use super::announced::{KEY_DIGITS, Upload, Uploads};
use super::spool::PartialFile;
use crate::lock::lock;
use monitor_ninep::{Errno, FileError};
use rustix::fs::Mode;
use sha2::{Digest as _, Sha256};
use std::io::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::task::AbortHandle;
use tokio::time::sleep_until;

/// An open `upload`.
pub struct UploadReceiver {
    uploads: Arc<Uploads>,
    /// Bytes that were written.
    at: u64,
    phase: Phase,
}

enum Phase {
    /// The beginning of a key.
    Key(Vec<u8>),
    /// Bytes come in.
    Content(Deadlined),
    /// The file is there.
    Complete,
    /// It was refused: why, also for the writes that follow, which are on their way.
    Refused(FileError),
}

/// A file that comes in until its time is over.
struct Deadlined {
    /// Absent when its time is over.
    incoming: Arc<Mutex<Option<Incoming>>>,
    expiry: AbortHandle,
}

struct Incoming {
    upload: Upload,
    partial: PartialFile,
    remaining: u64,
    hash: Sha256,
}

impl Drop for Deadlined {
    fn drop(&mut self) {
        self.expiry.abort();
        // The task that was aborted has it a little longer.
        drop(lock(&self.incoming).take());
    }
}

impl UploadReceiver {
    /// Opened on a node with these uploads.
    pub const fn new(uploads: Arc<Uploads>) -> Self {
        Self { uploads, at: 0, phase: Phase::Key(Vec::new()) }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    ///
    /// The key permits nothing, the bytes are not those that were announced, or cannot be written.
    pub fn write(&mut self, offset: u64, content: &[u8]) -> Result<usize, FileError> {
        let is_next = offset == self.at;
        self.at = offset.saturating_add(length(content));
        let taken = match &self.phase {
            Phase::Refused(why) => Err(why.clone()),
            _ if !is_next => Err(invalid("it is written in one piece, from its beginning")),
            _ => self.take(content),
        };
        if let Err(why) = &taken {
            tracing::info!("a file of another node was not received: {}", why.explanation);
            self.phase = Phase::Refused(why.clone());
        }
        taken.map(|()| content.len())
    }

    fn take(&mut self, mut content: &[u8]) -> Result<(), FileError> {
        if let Phase::Key(key) = &mut self.phase {
            let (part, rest) = content.split_at(content.len().min(KEY_DIGITS - key.len()));
            key.extend_from_slice(part);
            if key.len() < KEY_DIGITS {
                return Ok(());
            }
            content = rest;
            let upload = self.uploads.take(key, Instant::now())?;
            self.phase = Phase::Content(Deadlined::begin(&self.uploads, upload)?);
        }
        let Phase::Content(deadlined) = &self.phase else {
            return Err(invalid("the file is complete"));
        };
        if deadlined.add(content)? {
            self.phase = Phase::Complete;
        }
        Ok(())
    }
}

impl Deadlined {
    fn begin(uploads: &Uploads, upload: Upload) -> Result<Self, FileError> {
        let (partial, remaining) = (uploads.spool.begin().map_err(failed)?, upload.file.bytes);
        let until = upload.until;
        let incoming = Incoming { upload, partial, remaining, hash: Sha256::new() };
        let incoming = Arc::new(Mutex::new(Some(incoming)));
        let expired = Arc::clone(&incoming);
        let expiry = tokio::spawn(async move {
            sleep_until(until.into()).await;
            drop(lock(&expired).take());
        });
        Ok(Self { incoming, expiry: expiry.abort_handle() })
    }

    /// Adds bytes; whether the file is complete then.
    fn add(&self, content: &[u8]) -> Result<bool, FileError> {
        let mut slot = lock(&self.incoming);
        let late = || FileError::new(Errno::Io, "the time for the file is over: it is removed");
        let incoming = slot.as_mut().ok_or_else(late)?;
        if length(content) > incoming.remaining {
            let bytes = incoming.upload.file.bytes;
            return Err(invalid(&format!(
                "it has more than the {bytes} bytes that were announced"
            )));
        }
        incoming.partial.file.write_all(content).map_err(failed)?;
        incoming.hash.update(content);
        incoming.remaining -= length(content);
        if incoming.remaining > 0 {
            return Ok(false);
        }
        slot.take().map_or(Err(late()), Incoming::complete).map(|()| true)
    }
}

impl Incoming {
    fn complete(self) -> Result<(), FileError> {
        let file = &self.upload.file;
        if self.hash.finalize()[..] != file.sha256.0 {
            let why = "it has another SHA-256 than was announced: it has changed meanwhile";
            return Err(FileError::new(Errno::Io, why));
        }
        let user = self.upload.user;
        let own = Mode::RUSR | Mode::WUSR;
        let mode = if file.executable { own | Mode::XUSR } else { own };
        self.partial.complete((user.uid, user.gid), (&file.name, mode)).map_err(failed)?;
        let (uid, name, bytes) = (user.uid, &file.name, file.bytes);
        tracing::info!(uid, name, bytes, "received a file of another node");
        Ok(())
    }
}

fn length(content: &[u8]) -> u64 {
    u64::try_from(content.len()).unwrap_or(u64::MAX)
}

fn invalid(why: &str) -> FileError {
    FileError::new(Errno::Invalid, why)
}

fn failed(why: std::io::Error) -> FileError {
    let errno = why.raw_os_error().map_or(Errno::Io, Errno::from_number);
    FileError::new(errno, format!("the file cannot be received: {why}"))
}

#[cfg(test)]
mod tests {
    use super::super::announced::WHOLE_TIME;
    use super::super::test_uploads::TestUploads;
    use super::*;
    use monitor_protocol::transfer::{FileDigest, ReceiveFile};
    use monitor_sys::fsuid;
    use std::time::Duration;
    use tokio::task::yield_now;
    use tokio::time::timeout;

    fn announce(uploads: &TestUploads, now: Instant) -> String {
        let (name, sha256) = ("a".to_owned(), FileDigest(Sha256::digest(b"abc").into()));
        let file = ReceiveFile { name, bytes: 3, sha256, executable: false };
        uploads.announce(file, now).expect("there is room")
    }

    fn partials(uploads: &TestUploads) -> usize {
        std::fs::read_dir(uploads.1.join(".partial")).expect("a folder").count()
    }

    #[tokio::test]
    async fn what_is_not_complete_when_it_is_closed_leaves_nothing() {
        let of_test = TestUploads::new("closed");
        let path = of_test.0.spool.path(fsuid::effective_uid(), "a");
        let write = |content: &[u8]| {
            let mut receiver = UploadReceiver::new(Arc::clone(&of_test.0));
            let mut at = 0;
            // One byte a message: a key may come in parts.
            for byte in content {
                receiver.write(at, &[*byte]).expect("the bytes are those that were announced");
                at += 1;
            }
            assert!(receiver.write(at + 1, b"x").is_err(), "a gap");
            receiver
        };
        let key = announce(&of_test, Instant::now());
        let receiver = write(&[key.as_bytes(), b"ab"].concat());
        assert!(matches!(receiver.phase, Phase::Refused(_)));
        drop(receiver);
        assert_eq!((partials(&of_test), path.exists()), (0, false));
        let key = announce(&of_test, Instant::now());
        drop(write(&[key.as_bytes(), b"abc"].concat()));
        assert_eq!(std::fs::read(path).expect("it is complete"), b"abc");
        assert_eq!(partials(&of_test), 0);
    }

    #[tokio::test]
    async fn an_upload_ends_when_its_time_is_over() {
        let of_test = TestUploads::new("late");
        let soon = Instant::now() + Duration::from_millis(50);
        let earlier = soon.checked_sub(WHOLE_TIME).expect("the machine runs for longer");
        let key = announce(&of_test, earlier);
        let upload = of_test.0.take(key.as_bytes(), earlier).expect("it was announced");
        let deadlined = Deadlined::begin(&of_test.0, upload).expect("a file");
        assert!(!deadlined.add(b"ab").expect("two bytes"));
        let removed = async {
            while partials(&of_test) > 0 {
                yield_now().await;
            }
        };
        timeout(Duration::from_secs(60), removed).await.expect("it is removed");
        let why = deadlined.add(b"c").expect_err("it is late").explanation;
        assert!(why.starts_with("the time for the file is over"), "{why}");
    }
}
