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

/// Whether a process of a user may serve the files of a mount, by its number in `/proc/PID`: a file
/// system in user space, or one that was unmounted meanwhile.
pub fn is_of_user_mount(process: &Path, mount: u64) -> bool {
    let mounts =
        |process: &Path| std::fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
    is_of_user([&mounts(process), &mounts(Path::new("/proc/self"))], mount)
}

/// The same, by the mounts of its process and of this one (proc_pid_mountinfo(5)). The file
/// systems below an overlay are not listed: a user can mount FUSE and an overlay above it, but only
/// in a mount namespace of its own, and an overlay of root is also in the one of this process.
fn is_of_user([theirs, own]: [&str; 2], mount: u64) -> bool {
    let all = theirs.lines().chain(own.lines()).filter_map(MountLine::parse);
    let found = all.into_iter().find(|it| it.number == mount);
    let mut own = own.lines().filter_map(MountLine::parse);
    found.is_none_or(|it| match it.kind {
        "overlay" => !own.any(|other| other.device == it.device),
        kind => kind.starts_with("fuse"),
    })
}

/// A line of `mountinfo`.
struct MountLine<'t> {
    number: u64,
    device: &'t str,
    kind: &'t str,
}

impl<'t> MountLine<'t> {
    fn parse(line: &'t str) -> Option<Self> {
        let mut words = line.split(' ');
        let (number, device) = (words.next()?.parse().ok()?, words.nth(1)?);
        let kind = line.split_once(" - ")?.1.split(' ').next()?;
        Some(Self { number, device, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_of_fuse_is_recognised_by_its_number() {
        let fuse = "36 35 0:44 / /mnt rw,nosuid - fuse.sshfs me@host:/ rw,user_id=1000";
        let disk = "37 35 8:1 / /x rw - ext4 /dev/sda1 rw";
        let both = format!("{fuse}\n{disk}");
        assert!(is_of_user([&both, ""], 36) && is_of_user(["", fuse], 36));
        assert!(!is_of_user([&both, ""], 37));
        assert!(is_of_user([&both, ""], 38), "it is not mounted any more");
    }

    #[test]
    fn an_overlay_is_of_a_user_unless_it_is_mounted_here_too() {
        let theirs = "90 80 0:51 / / rw - overlay overlay rw,lowerdir=/a:/b";
        let own = "40 30 0:51 / /containers/1/merged rw - overlay overlay rw,lowerdir=/a:/b";
        assert!(is_of_user([theirs, "41 30 8:1 / / rw - ext4 /dev/sda1 rw"], 90));
        assert!(!is_of_user([theirs, own], 90));
    }
}
