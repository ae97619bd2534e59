//! Looking at a file with the rights of somebody else, on one thread.
//!
//! `setfsuid(2)` changes whose rights count for file access, of the calling thread alone, and
//! takes away what root may more. It reports no error, so what became of it is asked for.

use rustix::thread::{Gid, Uid};
use std::io;

/// The rights of a thread, as they are put back.
struct Before {
    uid: libc::uid_t,
    gid: libc::gid_t,
    groups: Vec<Gid>,
}

/// The user that this process acts as.
pub fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether this process may look with the rights of other users.
pub fn may_change() -> bool {
    const NOBODY: u32 = 65_534;
    as_user(NOBODY, NOBODY, || ()).is_ok()
}

/// Does something with the rights of a user and his group on files, and no others.
pub fn as_user<T>(uid: u32, gid: u32, act: impl FnOnce() -> T) -> io::Result<T> {
    if Uid::from_raw(uid) == rustix::process::geteuid() {
        return Ok(act());
    }
    let before = become_user(uid, gid)?;
    let done = act();
    before.put_back()?;
    Ok(done)
}

fn become_user(uid: u32, gid: u32) -> io::Result<Before> {
    let groups = rustix::process::getgroups()?;
    // Of this thread alone: the C library's own function changes those of all threads.
    rustix::thread::set_thread_groups(&[])?;
    let before = Before { gid: set_gid(gid), uid: set_uid(uid), groups };
    if set_uid(uid) == uid && set_gid(gid) == gid {
        return Ok(before);
    }
    before.put_back()?;
    Err(io::ErrorKind::PermissionDenied.into())
}

impl Before {
    fn put_back(self) -> io::Result<()> {
        let _ = (set_uid(self.uid), set_gid(self.gid));
        Ok(rustix::thread::set_thread_groups(&self.groups)?)
    }
}

/// Sets it, and says what it was before.
fn set_uid(uid: libc::uid_t) -> libc::uid_t {
    // SAFETY: setfsuid(2) takes a number and reads no memory of ours.
    unsafe { libc::setfsuid(uid) }.cast_unsigned()
}

/// Sets it, and says what it was before.
fn set_gid(gid: libc::gid_t) -> libc::gid_t {
    // SAFETY: setfsgid(2) takes a number and reads no memory of ours.
    unsafe { libc::setfsgid(gid) }.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_a_user_may_not_reach_is_not_reached_for_him() {
        if !rustix::process::geteuid().is_root() {
            return; // Only root may take the rights of others; `may_change` says so.
        }
        let dir = std::env::temp_dir().join(format!("monitor-rights-{}", std::process::id()));
        std::fs::create_dir(&dir).expect("a folder");
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o700)).expect("closed");
        std::fs::write(dir.join("file"), "x").expect("a file");
        let look = || std::fs::metadata(dir.join("file")).is_ok();
        assert!(look());
        assert!(!as_user(65_534, 65_534, look).expect("root may"));
        assert!(look(), "all is as it was");
        std::fs::remove_dir_all(&dir).expect("it was ours");
    }
}
