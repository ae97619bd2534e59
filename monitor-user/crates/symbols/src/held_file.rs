//! A file that a process has mapped, held open to attach probes to it.
//!
//! In: what another process found out about the file. Out: a descriptor that reads nothing. The
//! file is neither opened nor asked for anything: a file system in user space, or a server on the
//! network, might never reply.

use super::SymbolError;
use monitor_model::Pid;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags, statx};
use serde::{Deserialize, Serialize};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

/// A file that a process has mapped.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct FileRef {
    /// Its path as the process sees it.
    pub path: PathBuf,
    /// The addresses of the mapping.
    pub range: (u64, u64),
    /// Device and inode.
    pub identity: (u64, u64),
}

/// A held file.
#[derive(Debug)]
pub struct HeldFile {
    descriptor: OwnedFd,
    /// Device and inode.
    pub identity: (u64, u64),
}

impl FileRef {
    /// The file name.
    pub fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or("?")
    }

    /// Holds the file: through `map_files`, or, for processes of the same user without the
    /// privilege for that, by its path.
    ///
    /// # Errors
    ///
    /// If it is not this file any more, is none that can be probed, or may not be opened.
    pub fn hold(&self, proc: &Path, pid: Pid) -> Result<HeldFile, SymbolError> {
        let process = proc.join(pid.0.to_string());
        let link = process.join(format!("map_files/{:x}-{:x}", self.range.0, self.range.1));
        let by_path =
            || process.join("root").join(self.path.strip_prefix("/").unwrap_or(&self.path));
        let opened = match open(&link) {
            Err(error)
                if is_own(&process) && error.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                open(&by_path()).or_else(|_| open(&self.path))
            }
            opened => opened,
        };
        let descriptor = opened.map_err(|source| SymbolError::File {
            call: "open",
            path: self.path.clone(),
            source,
        })?;
        let facts = statx(
            &descriptor,
            "",
            AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC,
            StatxFlags::BASIC_STATS | StatxFlags::MNT_ID,
        );
        let facts = facts.map_err(|errno| SymbolError::File {
            call: "statx",
            path: self.path.clone(),
            source: errno.into(),
        })?;
        let refuse = |why| Err(SymbolError::Unsupported { path: self.path.clone(), why });
        if !FileType::from_raw_mode(facts.stx_mode.into()).is_file() {
            return refuse("not a regular file; name a program or a library");
        }
        let device = rustix::fs::makedev(facts.stx_dev_major, facts.stx_dev_minor);
        let identity = (device, facts.stx_ino);
        if identity != self.identity {
            return refuse("the file was replaced meanwhile; retry");
        }
        if !is_own(&process) && is_of_user_mount(&process, facts.stx_mnt_id) {
            return refuse(
                "its file system is in user space, or unmounted: to set a probe, the kernel would \
                 wait for a process of a user; copy the file to another file system",
            );
        }
        Ok(HeldFile { descriptor, identity })
    }
}

impl HeldFile {
    /// A path to this file, valid in this process only.
    pub fn attach_path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.descriptor.as_raw_fd()).into()
    }
}

/// Without reading anything; a path is looked up, but a link of `/proc` is not.
fn open(path: &Path) -> std::io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Whether a process belongs to the user of this one, which is not root.
fn is_own(process: &Path) -> bool {
    let own = rustix::process::geteuid();
    let owner = rustix::fs::stat(process).map(|facts| facts.st_uid);
    !own.is_root() && owner == Ok(own.as_raw())
}

/// Whether a mount is of a file system in user space, or known to neither process.
fn is_of_user_mount(process: &Path, mount: u64) -> bool {
    let is_listed = |folder: &Path| {
        let text = std::fs::read_to_string(folder.join("mountinfo")).unwrap_or_default();
        text.lines().find_map(|line| kind_of_mount(line, mount))
    };
    let kind = is_listed(process).or_else(|| is_listed(Path::new("/proc/self")));
    kind.is_none_or(|is_fuse| is_fuse)
}

/// Whether a line of `mountinfo` is of FUSE, if it is of this mount (proc_pid_mountinfo(5)).
fn kind_of_mount(line: &str, mount: u64) -> Option<bool> {
    if line.split(' ').next()?.parse() != Ok(mount) {
        return None;
    }
    let kind = line.split_once(" - ")?.1.split(' ').next()?;
    Some(kind.starts_with("fuse"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_of_fuse_is_recognised_by_its_number() {
        let line = "36 35 0:44 / /mnt rw,nosuid - fuse.sshfs me@host:/ rw,user_id=1000";
        assert_eq!(kind_of_mount(line, 36), Some(true));
        assert_eq!(kind_of_mount(line, 35), None);
        assert_eq!(kind_of_mount("36 35 0:44 / /x rw - ext4 /dev/sda1 rw", 36), Some(false));
    }
}
