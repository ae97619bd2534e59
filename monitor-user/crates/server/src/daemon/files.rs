//! Calls stat(2) for file watches, with the rights of the requesting user.
//!
//! Each call runs on a thread of its own pool: a file system that does not answer delays one file
//! watch, and no other call and no reading.

use monitor_model::Ns;
use monitor_monitors::{FileToStat, MonitorInput};
use monitor_sampling::file_watch::{FileStat, StatFailure};
use monitor_sys::fsuid;
use std::{io::ErrorKind, os::unix::fs::MetadataExt};
use tokio::task::JoinSet;

/// Calls of stat(2) that are running.
#[derive(Default)]
pub struct FileReads {
    tasks: JoinSet<MonitorInput>,
}

impl FileReads {
    /// Starts a stat(2) of a file.
    pub fn start(&mut self, file: FileToStat) {
        self.tasks.spawn_blocking(move || {
            let stat = fsuid::as_user(file.uid, file.gid, || stat(&file.path));
            if let Err(error) = &stat {
                tracing::warn!(
                    uid = file.uid,
                    "cannot stat a file with the user's rights: {error}"
                );
            }
            MonitorInput::FileStat(file.key, stat.unwrap_or(Err(StatFailure::Denied)))
        });
    }

    /// Waits for the next result; forever, if no call is running.
    pub async fn next_result(&mut self) -> MonitorInput {
        match self.tasks.join_next().await {
            Some(Ok(input)) => input,
            // A panic has been logged; its file watch gets no result.
            Some(Err(_)) | None => std::future::pending().await,
        }
    }

    /// Lets the running calls end without waiting for them.
    pub fn stop(&mut self) {
        self.tasks.detach_all();
    }
}

/// Size and times of a file, read with the rights of this thread.
pub fn stat(path: &str) -> Result<FileStat, StatFailure> {
    let meta = std::fs::metadata(path).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => StatFailure::Denied,
        _ => StatFailure::Missing,
    })?;
    let ns = |seconds: i64, ns: i64| {
        Ns(u64::try_from(seconds.saturating_mul(1_000_000_000).saturating_add(ns)).unwrap_or(0))
    };
    Ok(FileStat {
        size: meta.size(),
        accessed: ns(meta.atime(), meta.atime_nsec()),
        modified: ns(meta.mtime(), meta.mtime_nsec()),
    })
}
