//! What a session has that is copied: its texts, and its files with their SHA-256.

use super::super::LiveSession;
use super::key::Digest;
use super::manifest::{CopiedContent, CopiedEntry, MAX_ENTRIES};
use monitor_control::session::{Refusal, SessionError, StoredAccess, TextFile};
use monitor_sys::clock;
use sha2::{Digest as _, Sha256};

/// Bytes of a file that are read at once; other connections are served between.
pub const CHUNK: usize = 256 << 10;

/// What is copied of a session. Links and special files are not.
///
/// # Errors
///
/// When there are too many files, or one cannot be read.
pub async fn content(live: &LiveSession) -> Result<CopiedContent, SessionError> {
    let mut content = CopiedContent {
        argv: live.record.text(TextFile::Argv),
        env: live.record.text(TextFile::Env),
        entries: Vec::new(),
    };
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for (name, stat) in live.stored.list(&folder)? {
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            let file = match stat.is_directory {
                true => None,
                false => Some(digest(live, &path).await?),
            };
            if stat.is_directory {
                folders.push(path.clone());
            }
            content.entries.push(CopiedEntry { path, permissions: stat.permissions, file });
            if content.entries.len() > MAX_ENTRIES {
                let why = format!("clone: fs/ has more than {MAX_ENTRIES} files and directories");
                return Err(SessionError::new(Refusal::TooLarge, why));
            }
        }
    }
    Ok(content)
}

/// Bytes and SHA-256 of a file, within the processor time of its user.
async fn digest(live: &LiveSession, path: &str) -> Result<(u64, Digest), SessionError> {
    let file = live.stored.open_file(path, StoredAccess::Read)?;
    let (mut hash, mut length) = (Sha256::new(), 0);
    loop {
        let permit = live.share.admit_line(|| false).await;
        let began = clock::thread_cpu();
        let part = live.stored.read(&file, length, CHUNK)?;
        hash.update(&part);
        live.share.charge(clock::thread_cpu().since(began));
        drop(permit);
        if part.is_empty() {
            return Ok((length, hash.finalize().into()));
        }
        length += u64::try_from(part.len()).unwrap_or(u64::MAX);
        tokio::task::yield_now().await;
    }
}
