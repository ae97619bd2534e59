//! A root folder without files, for one thread.

use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::io;

/// A folder of each process in which nothing can be created, and whose files have numbers as names.
const EMPTY: &str = "/proc/self/fdinfo";

/// From now on the calling thread, and those that it starts, find no file by its path.
///
/// # Errors
///
/// Without CAP_SYS_CHROOT; then nothing has changed.
pub fn leave_files() -> io::Result<()> {
    // SAFETY: the thread gets a root and a working folder of its own; no descriptors change.
    unsafe { unshare_unsafe(UnshareFlags::FS) }?;
    Ok(rustix::process::chroot(EMPTY)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_leaves_the_files_and_the_others_keep_them() {
        let is_there = || std::path::Path::new("/proc/self/status").exists();
        let left = std::thread::spawn(move || leave_files().map(|()| is_there())).join();
        let has_left = left.expect("the thread does not panic");
        assert!(has_left.is_err() || !has_left.unwrap_or(true));
        assert!(is_there());
    }
}
