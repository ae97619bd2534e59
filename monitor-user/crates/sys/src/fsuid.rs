//! File access as another user, on the calling thread only.
//!
//! setfsuid(2) sets the user whose permissions apply to file access. It reports no error, so the
//! result is read back. Capabilities that pass permissions and quotas are dropped beside it.

use rustix::thread::{CapabilitySet, Gid, Uid, capabilities, set_capabilities};
use std::io;

/// Capabilities that pass permissions of files, quotas and reserved blocks.
const ACCESS: CapabilitySet = CapabilitySet::SYS_RESOURCE
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::LINUX_IMMUTABLE);

/// The ids to restore afterwards.
struct SavedIds {
    uid: libc::uid_t,
    gid: libc::gid_t,
    groups: Vec<Gid>,
    /// The capabilities in effect.
    capabilities: CapabilitySet,
}

/// The effective user of this process.
pub fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether this process can access files as other users.
pub fn can_change() -> bool {
    /// The overflow uid and gid of the kernel.
    const UNPRIVILEGED: u32 = 65_534;
    as_user(UNPRIVILEGED, UNPRIVILEGED, || ()).is_ok()
}

/// Runs a closure with the file permissions of a user and a group, without supplementary groups.
///
/// # Errors
///
/// `PermissionDenied` if this process cannot change to that user.
pub fn as_user<T>(uid: u32, gid: u32, access: impl FnOnce() -> T) -> io::Result<T> {
    if Uid::from_raw(uid) == rustix::process::geteuid() {
        return Ok(access());
    }
    let saved = become_user(uid, gid)?;
    let result = access();
    saved.restore()?;
    Ok(result)
}

fn become_user(uid: u32, gid: u32) -> io::Result<SavedIds> {
    let groups = rustix::process::getgroups()?;
    // The system call affects this thread only; the wrapper of the C library affects all threads.
    rustix::thread::set_thread_groups(&[])?;
    let capabilities = match without_access() {
        Ok(before) => before,
        Err(error) => {
            rustix::thread::set_thread_groups(&groups)?;
            return Err(error);
        }
    };
    let saved = SavedIds { gid: set_gid(gid), uid: set_uid(uid), groups, capabilities };
    if set_uid(uid) == uid && set_gid(gid) == gid {
        return Ok(saved);
    }
    saved.restore()?;
    Err(io::ErrorKind::PermissionDenied.into())
}

impl SavedIds {
    fn restore(self) -> io::Result<()> {
        let _ = (set_uid(self.uid), set_gid(self.gid));
        let mut sets = capabilities(None)?;
        sets.effective = self.capabilities;
        set_capabilities(None, sets)?;
        Ok(rustix::thread::set_thread_groups(&self.groups)?)
    }
}

/// Drops what passes the permissions of files, quotas and reserved blocks: setfsuid(2) does it for
/// root alone. Returns what was in effect.
fn without_access() -> io::Result<CapabilitySet> {
    let mut sets = capabilities(None)?;
    let before = sets.effective;
    sets.effective = before.difference(ACCESS);
    if sets.effective != before {
        set_capabilities(None, sets)?;
    }
    Ok(before)
}

/// Sets the id and returns the previous one.
fn set_uid(uid: libc::uid_t) -> libc::uid_t {
    // SAFETY: setfsuid(2) takes an integer and reads no memory of ours.
    unsafe { libc::setfsuid(uid) }.cast_unsigned()
}

/// Sets the id and returns the previous one.
fn set_gid(gid: libc::gid_t) -> libc::gid_t {
    // SAFETY: setfsgid(2) takes an integer and reads no memory of ours.
    unsafe { libc::setfsgid(gid) }.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_that_a_user_cannot_access_is_not_accessed_for_that_user() {
        if !rustix::process::geteuid().is_root() {
            return; // Only root can change to another user.
        }
        let dir = std::env::temp_dir().join(format!("monitor-fsuid-{}", std::process::id()));
        std::fs::create_dir(&dir).expect("a folder");
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o700))
            .expect("its mode is set");
        std::fs::write(dir.join("file"), "x").expect("a file");
        let look = || std::fs::metadata(dir.join("file")).is_ok();
        assert!(look());
        assert!(!as_user(65_534, 65_534, look).expect("root can change"));
        assert!(look(), "the ids are restored");
        std::fs::remove_dir_all(&dir).expect("this test created it");
    }
}
