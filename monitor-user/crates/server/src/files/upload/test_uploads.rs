//! Uploads of a test, whose folder is in memory: a disk may be nine tenths full.

use super::announced::Uploads;
use super::spool::Spool;
use monitor_model::{Credentials, Refusal};
use monitor_protocol::transfer::ReceiveFile;
use monitor_sys::fsuid;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Most bytes of the files of a user.
const USER_BYTES: u64 = 100;

/// Uploads, and their folder, which is removed with the test.
pub struct TestUploads(pub Arc<Uploads>, pub PathBuf);

impl TestUploads {
    pub fn new(name: &str) -> Self {
        let folder = format!("monitor-uploads-{name}-{}", std::process::id());
        let folder = Path::new("/dev/shm").join(folder);
        Self(Arc::new(Uploads::new(Spool::new(folder.clone()), USER_BYTES)), folder)
    }

    /// The key of a file of the user of the test.
    pub fn announce(&self, file: ReceiveFile, now: Instant) -> Result<String, Refusal> {
        let (uid, gid) = (fsuid::effective_uid(), rustix::process::getegid().as_raw());
        self.0.announce(Credentials { uid, gid }, file, now).map(|it| it.0)
    }
}

impl Drop for TestUploads {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.1);
    }
}
