//! Files that other nodes have announced, until their bytes come.
//!
//! In: announcements, keys. Out: a key for each, and what it permits, once. Files that are
//! announced or come in count for their user and for the disk, until they are there or given up.

use super::spool::{MAX_FILES, Spool};
use crate::lock::lock;
use monitor_model::{Credentials, Refusal, Status};
use monitor_ninep::{Errno, FileError};
use monitor_protocol::transfer::ReceiveFile;
use monitor_sys::{fsuid, random};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long the first byte may take after the announcement.
const BEGIN_TIME: Duration = Duration::from_secs(60);
/// How long all of it may take.
pub const WHOLE_TIME: Duration = Duration::from_secs(600);
/// Files of one user that are announced or come in, and those of all.
const USER_UPLOADS: usize = 16;
const UPLOADS: usize = 256;
/// Random bytes of a key.
const KEY_BYTES: usize = 16;
/// Digits of a key.
pub const KEY_DIGITS: usize = 2 * KEY_BYTES;
/// The longest name of a file (NAME_MAX).
const NAME_BYTES: usize = 255;

/// All of them.
pub struct Uploads {
    /// Where files go.
    pub spool: Arc<Spool>,
    /// Most bytes of the files of a user.
    user_bytes: u64,
    state: Mutex<UploadState>,
}

#[derive(Default)]
struct UploadState {
    /// By the SHA-256 of their keys: a comparison says nothing of a key.
    announced: BTreeMap<[u8; 32], Upload>,
    /// Uploads of each user, and their bytes.
    held: BTreeMap<u32, (usize, u64)>,
}

/// A file that may come.
pub struct Upload {
    /// Its user, as this host knows it.
    pub user: Credentials,
    /// Its name, bytes and SHA-256.
    pub file: ReceiveFile,
    /// When its time is over.
    pub until: Instant,
    begin_until: Instant,
    /// Counts for the user while this is there.
    _held: HeldUpload,
}

/// An upload of a user, and its bytes.
struct HeldUpload {
    uploads: Arc<Uploads>,
    uid: u32,
    bytes: u64,
}

impl Drop for HeldUpload {
    fn drop(&mut self) {
        let mut state = lock(&self.uploads.state);
        if let Some((count, bytes)) = state.held.get_mut(&self.uid) {
            (*count, *bytes) = (*count - 1, *bytes - self.bytes);
            if *count == 0 {
                state.held.remove(&self.uid);
            }
        }
    }
}

impl Uploads {
    /// With the folder for the files, and most bytes of those of a user.
    pub fn new(spool: Spool, user_bytes: u64) -> Self {
        Self { spool: Arc::new(spool), user_bytes, state: Mutex::default() }
    }

    /// Announces a file. Returns its key, and where it will be.
    ///
    /// # Errors
    ///
    /// The name is none, the user cannot own files here, or a limit is reached.
    pub fn announce(
        self: &Arc<Self>,
        user: Credentials,
        file: ReceiveFile,
        now: Instant,
    ) -> Result<(String, PathBuf), Refusal> {
        check_name(&file.name)?;
        let own = fsuid::effective_uid();
        if own != 0 && user.uid != own {
            let why = format!("this service runs as user {own}, and takes files of that user only");
            return Err(Refusal::denied(why));
        }
        let failed = |why: io::Error| {
            let at = self.spool.path(user.uid, "");
            Refusal::new(Status::NotAvailable, format!("{}: {why}", at.display()))
        };
        self.forget_late(now);
        self.spool.prepare((user.uid, user.gid)).map_err(failed)?;
        let usage = self.spool.usage(user.uid).map_err(failed)?;
        let free = self.spool.free_bytes().map_err(failed)?;
        let key = random::hex::<KEY_BYTES>().map_err(failed)?;
        let held = self.hold((user.uid, file.bytes), (usage.files, usage.bytes, free))?;
        let path = self.spool.path(user.uid, &file.name);
        let (until, begin_until) = (now + WHOLE_TIME, now + BEGIN_TIME);
        let upload = Upload { user, file, until, begin_until, _held: held };
        lock(&self.state).announced.insert(Sha256::digest(&key).into(), upload);
        Ok((key, path))
    }

    /// The upload that a key permits, once.
    ///
    /// # Errors
    ///
    /// None, or its time is over.
    pub fn take(&self, key: &[u8], now: Instant) -> Result<Upload, FileError> {
        self.forget_late(now);
        let upload = lock(&self.state).announced.remove(&Sha256::digest(key)[..]);
        upload.ok_or_else(|| {
            let why = "no file was announced with this key, or its time is over: `monitor send` \
                       announces one";
            FileError::new(Errno::Denied, why)
        })
    }

    /// Counts an upload of a user, if there is room for it.
    fn hold(
        self: &Arc<Self>,
        (uid, bytes): (u32, u64),
        (files, stored, free): (usize, u64, u64),
    ) -> Result<HeldUpload, Refusal> {
        let mut state = lock(&self.state);
        let all = state.held.values().fold((0, 0_u64), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        let (count, coming) = state.held.get(&uid).copied().unwrap_or_default();
        if count >= USER_UPLOADS || all.0 >= UPLOADS {
            let why = format!(
                "{count} files of user {uid} and {} in all come in; at most {USER_UPLOADS} and \
                 {UPLOADS}: try again",
                all.0
            );
            return Err(Refusal::limit(why));
        }
        let at = self.spool.path(uid, "");
        let at = at.display();
        if files + count >= MAX_FILES {
            let why = format!("{at} has {files} files; at most {MAX_FILES}: remove some");
            return Err(Refusal::limit(why));
        }
        let most = self.user_bytes;
        if stored.saturating_add(coming).saturating_add(bytes) > most {
            let why = format!(
                "{at} has {stored} bytes, {coming} come in, and {bytes} are more than the limit \
                 {most}: remove files, or see cluster.received_bytes"
            );
            return Err(Refusal::limit(why));
        }
        if all.1.saturating_add(bytes) > free {
            let why = format!("the disk of {at} would be less than a tenth free");
            return Err(Refusal::limit(why));
        }
        state.held.insert(uid, (count + 1, coming + bytes));
        Ok(HeldUpload { uploads: Arc::clone(self), uid, bytes })
    }

    /// Forgets those that have not begun in time.
    fn forget_late(&self, now: Instant) {
        let late: Vec<Upload> = {
            let announced = &mut lock(&self.state).announced;
            announced.extract_if(.., |_, it| it.begin_until <= now).map(|it| it.1).collect()
        };
        // Each takes the lock when it is dropped.
        drop(late);
    }
}

/// Checks that a name is one of a file in a folder, and not hidden.
///
/// # Errors
///
/// It is none.
fn check_name(name: &str) -> Result<(), Refusal> {
    let is_plain = !name.contains(['/', '\0', '\n']) && !name.starts_with('.');
    match is_plain && !name.is_empty() && name.len() <= NAME_BYTES {
        true => Ok(()),
        false => Err(Refusal::bad(format!(
            "name: {name:?} is no name of a received file: at most {NAME_BYTES} bytes, without /, \
             and no dot at its beginning"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_uploads::TestUploads;
    use super::*;
    use monitor_protocol::transfer::FileDigest;

    fn announce(
        uploads: &TestUploads,
        name: &str,
        bytes: u64,
        now: Instant,
    ) -> Result<String, String> {
        let sha256 = FileDigest([0; 32]);
        let file = ReceiveFile { name: name.to_owned(), bytes, sha256, executable: false };
        uploads.announce(file, now).map_err(|why| why.message)
    }

    #[test]
    fn a_key_permits_one_upload_in_its_time() {
        let uploads = TestUploads::new("keys");
        let now = Instant::now();
        let key = announce(&uploads, "a", 1, now).unwrap();
        assert!(uploads.0.take(b"", now).is_err());
        assert_eq!(
            uploads.0.take(key.as_bytes(), now).map(|it| it.file.name).ok(),
            Some("a".into())
        );
        assert!(uploads.0.take(key.as_bytes(), now).is_err());
        let key = announce(&uploads, "a", 1, now).unwrap();
        assert!(uploads.0.take(key.as_bytes(), now + BEGIN_TIME).is_err());
    }

    #[test]
    fn what_comes_in_counts_until_it_is_there_or_given_up() {
        let uploads = TestUploads::new("limits");
        let now = Instant::now();
        let key = announce(&uploads, "a", 60, now).unwrap();
        let why = announce(&uploads, "b", 41, now).unwrap_err();
        assert!(why.contains("60 come in, and 41 are more than the limit 100"), "{why}");
        let upload = uploads.0.take(key.as_bytes(), now).ok();
        assert!(announce(&uploads, "b", 41, now).is_err(), "it comes in");
        drop(upload);
        let _key = announce(&uploads, "b", 41, now).unwrap();
        assert!(announce(&uploads, "c", 60, now).is_err());
        // One that does not begin in time is given up.
        announce(&uploads, "c", 60, now + BEGIN_TIME).unwrap();
        let uploads = TestUploads::new("count");
        for _ in 0..USER_UPLOADS {
            announce(&uploads, "a", 0, now).unwrap();
        }
        let why = announce(&uploads, "a", 0, now).unwrap_err();
        assert!(why.starts_with("16 files of user "), "{why}");
    }

    #[test]
    fn a_name_is_that_of_a_file_in_the_folder() {
        for name in ["", ".", "..", ".partial", "a/b", "a\nb", "a\0", &"a".repeat(256)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert!(check_name("a.out").is_ok());
    }
}
