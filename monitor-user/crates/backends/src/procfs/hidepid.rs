//! Detects `hidepid`, and a `/proc` that is not a proc file system.
//!
//! In: `self/mountinfo` and `self/status` of a `/proc`. Out: the option, whether it hides processes
//! from us, and a note. Only informs; readings handle refused files themselves.

use monitor_model::{HiddenProcess, Note, NoteAbout};
use monitor_proc::status::effective_capabilities;
use procfs::process::MountInfo;
use std::path::Path;

/// `CAP_SYS_PTRACE` of capabilities(7): with it, `hidepid` hides nothing.
const CAP_SYS_PTRACE: u32 = 19;

/// Why `/proc` cannot be read, if something else is mounted there. A copy at another path is
/// accepted.
pub fn not_proc(proc: &Path) -> Option<&'static str> {
    let is_proc = |stat: rustix::fs::StatFs| stat.f_type == rustix::fs::PROC_SUPER_MAGIC;
    let is_other = proc == Path::new("/proc") && !rustix::fs::statfs(proc).is_ok_and(is_proc);
    is_other.then_some("/proc is not a proc file system")
}

/// Advice for that case.
pub const MOUNT_PROC: &str = "mount one: mount -t proc proc /proc";

/// The `hidepid` option of the mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hidepid {
    /// Value of the option, if it is enabled.
    pub level: Option<String>,
    /// Group that sees all processes.
    pub except: Option<u32>,
    /// Whether processes of other users may be hidden from us.
    pub from_us: bool,
}

impl Hidepid {
    /// Reads the files of `proc`, which is mounted at `at`.
    pub fn read(proc: &Path, at: &Path) -> Self {
        let mounts = std::fs::read(proc.join("self/mountinfo")).unwrap_or_default();
        let mount = mount(&mounts, at);
        let level = mount.as_ref().and_then(hidepid).map(str::to_owned);
        // With `ptraceable` the group has no effect.
        let group_applies = !matches!(level.as_deref(), Some("4" | "ptraceable"));
        let group = mount.and_then(|it| option(&it, "gid")?.parse().ok());
        let except = group.filter(|_| group_applies);
        let status = std::fs::read(proc.join("self/status")).unwrap_or_default();
        let from_us = level.is_some() && !may_trace(&status);
        Self { level, except, from_us }
    }
}

/// The hidden processes, if any.
pub fn hidden(proc: &Path) -> Option<HiddenProcess> {
    let Hidepid { level: Some(level), from_us: true, .. } = Hidepid::read(proc, proc) else {
        return None;
    };
    let why = format!(
        "{} is mounted with hidepid={level}; use CAP_SYS_PTRACE or the group of its option gid= \
         to see them",
        proc.display()
    );
    Some(HiddenProcess { pid: None, why })
}

/// The note on hidden processes.
pub fn note(hidden: &HiddenProcess) -> Note {
    Note::missing(format!("processes of other users may be missing: {}", hidden.why))
        .about(NoteAbout::Processes)
}

/// The proc file system mounted at a path; the last mount on a directory is the visible one.
fn mount(mounts: &[u8], at: &Path) -> Option<MountInfo> {
    let text = String::from_utf8_lossy(mounts);
    let mut mounts = text.lines().rev().filter_map(|line| MountInfo::from_line(line).ok());
    mounts.find(|it| it.fs_type == "proc" && it.mount_point == at)
}

/// The value of `hidepid`, if it is enabled (proc(5)).
fn hidepid(mount: &MountInfo) -> Option<&str> {
    option(mount, "hidepid").filter(|level| !matches!(*level, "0" | "off"))
}

fn option<'m>(mount: &'m MountInfo, key: &str) -> Option<&'m str> {
    mount.super_options.get(key)?.as_deref()
}

fn may_trace(status: &[u8]) -> bool {
    effective_capabilities(status).is_some_and(|held| held & (1 << CAP_SYS_PTRACE) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &str, want: Option<&str>) {
        let text = format!(
            "27 1 254:0 / / rw - ext4 /dev/vda rw\n22 27 0:21 / /proc rw - proc proc {written}\n"
        );
        let mount = mount(text.as_bytes(), Path::new("/proc")).unwrap();
        assert_eq!(hidepid(&mount), want);
    }

    #[test]
    fn the_option_is_found_by_number_and_by_name() {
        check("rw", None);
        check("rw,hidepid=off", None);
        check("rw,hidepid=0", None);
        check("rw,gid=10,hidepid=invisible", Some("invisible"));
        check("rw,hidepid=2", Some("2"));
    }

    #[test]
    fn the_last_mount_on_a_directory_is_the_visible_one() {
        let text = b"1 1 0:1 / /proc rw - proc proc rw,hidepid=2\n\
            2 1 0:2 / /proc rw shared:5 - proc proc rw\n";
        assert_eq!(hidepid(&mount(text, Path::new("/proc")).unwrap()), None);
    }

    #[test]
    fn the_capability_is_bit_19() {
        assert!(may_trace(b"Name:\tx\nCapEff:\t0000000000080000\n"));
        assert!(!may_trace(b"CapEff:\t0000000000000000\n"));
        assert!(!may_trace(b"CapEff:\tzz\n"));
    }
}
