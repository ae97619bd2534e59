//! A file of this node that is uploaded to another one.
//!
//! In: a path, a user; the address and the key that another node has replied. Out: that the node
//! has all of it, or why not. Files are opened with the permissions of their user. Each step has a
//! deadline, and all of it ends with its future.

use super::super::address_shares::charged;
use crate::user_shares::UserShare;
use monitor_model::{Refusal, Status};
use monitor_protocol::cluster::NodeOutcome;
use monitor_protocol::transfer::{FileDigest, ReceivingFile};
use monitor_remote::{Address, Connector, Remote, RemoteError, RemoteFile, RemoteMode};
use monitor_sys::fsuid;
use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// How long a node may take to connect, and to open a file.
const STEP_TIME: Duration = Duration::from_secs(10);
/// How long it may take for a part of the file.
const PART_TIME: Duration = Duration::from_secs(30);
/// Bytes of a part.
const PART: usize = 1 << 20;
/// The user that is no user: the key permits the upload, not the name of a user.
const USER: &str = "none";
const ANY_EXECUTE: u32 = 0o111;

/// A file that is open, and what it has.
pub struct FileToSend {
    file: File,
    /// Its bytes.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: FileDigest,
    /// Whether a user may execute it.
    pub executable: bool,
}

impl FileToSend {
    /// Opens and reads a file with the permissions of a user and its group. Blocks.
    ///
    /// # Errors
    ///
    /// It is no regular file, or cannot be read.
    pub fn open(path: &str, (uid, gid): (u32, u32)) -> Result<Self, Refusal> {
        let failed = |why: &io::Error| {
            let status = match why.kind() {
                ErrorKind::NotFound => Status::NotFound,
                ErrorKind::PermissionDenied => Status::NoPermissions,
                _ => Status::NotAvailable,
            };
            Refusal::new(status, format!("{path}: {why}"))
        };
        if !Path::new(path).is_absolute() {
            return Err(Refusal::bad(format!("path: {path:?} does not begin with a slash")));
        }
        // A pipe would block the open.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = i32::try_from(flags.bits()).unwrap_or_default();
        let opened =
            fsuid::as_user(uid, gid, || File::options().read(true).custom_flags(flags).open(path));
        let file = opened.and_then(|it| it).map_err(|why| failed(&why))?;
        let metadata = file.metadata().map_err(|why| failed(&why))?;
        if !metadata.is_file() {
            return Err(Refusal::bad(format!("path: {path} is no regular file")));
        }
        let (bytes, sha256) = digest(&file).map_err(|why| failed(&why))?;
        let executable = metadata.mode() & ANY_EXECUTE != 0;
        Ok(Self { file, bytes, sha256, executable })
    }
}

/// How many bytes a file has, and their SHA-256.
fn digest(file: &File) -> io::Result<(u64, FileDigest)> {
    let (mut hash, mut at, mut part) = (Sha256::new(), 0, vec![0; PART]);
    loop {
        let count = file.read_at(&mut part, at)?;
        if count == 0 {
            return Ok((at, FileDigest(hash.finalize().into())));
        }
        hash.update(&part[..count]);
        at += u64::try_from(count).unwrap_or(u64::MAX);
    }
}

/// Uploads a file to a node that has replied this; the processor time is that of the user.
///
/// # Errors
///
/// Why the node does not have it, or that this is not known.
pub async fn send(
    connector: &Connector,
    file: &Arc<FileToSend>,
    (to, share): (&ReceivingFile, &UserShare),
) -> Result<(), (NodeOutcome, String)> {
    let refused = |why: String| (NodeOutcome::Refused, why);
    let address = to.address.parse::<Address>().map_err(refused)?;
    if !matches!(address, Address::Tls(_)) {
        return Err(refused(format!("{address} is no address with TLS: see files.tls")));
    }
    let connected = connector.connect(&address, USER, STEP_TIME).await;
    let remote = connected.map_err(|why| refused(why.to_string()))?;
    let opened = timeout(STEP_TIME, remote.open("upload", RemoteMode::Write)).await;
    let opened = opened.unwrap_or_else(|_| Err(late("opening its file upload", STEP_TIME)));
    let open = opened.map_err(|why| refused(why.to_string()))?;
    let (mut at, mut part) = (0, to.key.clone().into_bytes());
    let key_bytes = u64::try_from(part.len()).unwrap_or(0);
    loop {
        let done = (at + u64::try_from(part.len()).unwrap_or(0)).saturating_sub(key_bytes);
        let next = read_part(file, done).await.map_err(|why| refused(why.to_string()))?;
        let is_last = next.is_empty();
        match upload((&open, share), at, &part).await {
            Ok(()) => {}
            // The node may have taken the last byte.
            Err(why) if is_last && !why.leaves_connection() => {
                return Err((NodeOutcome::Missing, format!("it may have the file: {why}")));
            }
            Err(why) => return Err(refused(explained(&remote, why).await)),
        }
        at += u64::try_from(part.len()).unwrap_or(0);
        if is_last {
            return Ok(());
        }
        part = next;
    }
}

/// The part of a file that begins there; empty at its end, as it was announced.
async fn read_part(file: &Arc<FileToSend>, at: u64) -> io::Result<Vec<u8>> {
    let rest = file.bytes.saturating_sub(at);
    let most = usize::try_from(rest).unwrap_or(PART).min(PART);
    let file = Arc::clone(file);
    let read = spawn_blocking(move || {
        let mut part = vec![0; most];
        let changed = |_| io::Error::other("the file has become shorter meanwhile");
        file.file.read_exact_at(&mut part, at).map_err(changed)?;
        Ok(part)
    });
    read.await.map_err(io::Error::other)?
}

async fn upload(
    (to, share): (&RemoteFile, &UserShare),
    at: u64,
    part: &[u8],
) -> Result<(), RemoteError> {
    let uploaded = charged(share, timeout(PART_TIME, to.upload(at, part))).await;
    uploaded.unwrap_or_else(|_| Err(late("a part of the file", PART_TIME)))
}

fn late(what: &str, after: Duration) -> RemoteError {
    RemoteError::TimedOut { what: what.to_owned(), after }
}

/// An error with the explanation that the node has for it.
async fn explained(remote: &Remote, why: RemoteError) -> String {
    if !why.leaves_connection() {
        return why.to_string();
    }
    let explanation = remote.explanation().await;
    if explanation.is_empty() { why.to_string() } else { explanation }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_that_the_user_can_read_are_sent() {
        let own = (fsuid::effective_uid(), rustix::process::getegid().as_raw());
        let refused = |path: &str, of| FileToSend::open(path, of).map(drop).unwrap_err();
        assert_eq!(refused("a", own).status, Status::BadParam);
        assert_eq!(refused("/dev/null", own).status, Status::BadParam);
        assert_eq!(refused("/no-such-file", own).status, Status::NotFound);
        let path = std::env::temp_dir().join(format!("monitor-send-{}", std::process::id()));
        std::fs::write(&path, b"abc").unwrap();
        let text = path.display().to_string();
        let file = FileToSend::open(&text, own).map_err(|why| why.message).unwrap();
        // FIPS 180-4, the example of one block.
        let want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((file.bytes, file.sha256.to_string()), (3, want.to_owned()));
        assert!(!file.executable);
        if own.0 == 0 {
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
                .unwrap();
            assert_eq!(refused(&text, (65_534, 65_534)).status, Status::NoPermissions);
        }
        std::fs::remove_file(&path).unwrap();
    }
}
