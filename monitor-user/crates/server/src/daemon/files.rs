//! Looks at files for those who watch them, with the rights of who asked.
//!
//! Each look is on a thread that may wait: a file system that does not answer holds up one
//! watch, and neither a call nor a reading.

use monitor_model::id::Ns;
use monitor_monitors::{Input, LookAt};
use monitor_sampling::file::{Stat, Unseen};
use monitor_sys::rights;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use tokio::task::JoinSet;

/// Looks that are on their way.
#[derive(Default)]
pub struct Files {
    looks: JoinSet<Input>,
}

impl Files {
    /// Looks at a file.
    pub fn look(&mut self, at: LookAt) {
        self.looks.spawn_blocking(move || {
            let stat = rights::as_user(at.uid, at.gid, || stat(&at.path));
            if let Err(error) = &stat {
                tracing::warn!(uid = at.uid, "cannot look with the rights of a user: {error}");
            }
            Input::Looked(at.key, stat.unwrap_or(Err(Unseen::Denied)))
        });
    }

    /// Waits for the next that has come back; for ever, if none is on its way.
    pub async fn next(&mut self) -> Input {
        match self.looks.join_next().await {
            Some(Ok(input)) => input,
            // A look that panicked was told as it happened; its watch waits for ever.
            Some(Err(_)) | None => std::future::pending().await,
        }
    }

    /// Waits for nobody.
    pub fn stop(&mut self) {
        self.looks.detach_all();
    }
}

/// What is to be seen of it with the rights of this thread.
pub fn stat(path: &str) -> Result<Stat, Unseen> {
    let meta = std::fs::metadata(path).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => Unseen::Denied,
        _ => Unseen::Missing,
    })?;
    let ns = |seconds: i64, ns: i64| {
        Ns(u64::try_from(seconds.saturating_mul(1_000_000_000).saturating_add(ns)).unwrap_or(0))
    };
    Ok(Stat {
        size: meta.size(),
        accessed: ns(meta.atime(), meta.atime_nsec()),
        modified: ns(meta.mtime(), meta.mtime_nsec()),
    })
}
