//! Detects `hidepid`, and a `/proc` that is not a proc file system.
//!
//! In: `self/mountinfo` and `self/status` of a `/proc`. Out: the option, whether it hides processes
//! from us, and a note. Only informs; readings handle refused files themselves.

use monitor_model::hidden::HiddenProcess;
use monitor_model::sample::Note;
use monitor_proc::scan::{key_and_values, lines};
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
        let options = options(&mounts, at.as_os_str().as_encoded_bytes());
        let level = options.and_then(hidepid);
        // With `ptraceable` the group has no effect.
        let group_applies = !matches!(level.as_deref(), Some("4" | "ptraceable"));
        let except = options.and_then(|it| number(value(it, b"gid=")?)).filter(|_| group_applies);
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
}

/// The options of the mount. See proc(5) and the format of mountinfo in
/// `proc_pid_mountinfo(5)`; the last mount on a directory is the visible one.
fn options<'m>(mounts: &'m [u8], proc: &[u8]) -> Option<&'m [u8]> {
    lines(mounts).filter_map(|line| proc_options(line, proc)).next_back()
}

/// The value of `hidepid`, if it is enabled.
fn hidepid(options: &[u8]) -> Option<String> {
    let level = value(options, b"hidepid=")?;
    let off = level == b"0" || level == b"off";
    (!off).then(|| String::from_utf8_lossy(level).into_owned())
}

fn value<'o>(options: &'o [u8], key: &[u8]) -> Option<&'o [u8]> {
    options.split(|&byte| byte == b',').find_map(|option| option.strip_prefix(key))
}

fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The options of a line that mounts proc at this path.
fn proc_options<'a>(line: &'a [u8], proc: &[u8]) -> Option<&'a [u8]> {
    let mut words = line.split(|&byte| byte == b' ');
    if words.nth(4)? != proc {
        return None;
    }
    let mut rest = words.skip_while(|word| *word != b"-").skip(1);
    (rest.next()? == b"proc").then_some(())?;
    rest.nth(1)
}

fn may_trace(status: &[u8]) -> bool {
    let line = lines(status).filter_map(key_and_values).find(|(key, _)| *key == b"CapEff");
    let hex = line.and_then(|(_, mut values)| values.word());
    let text = hex.and_then(|hex| std::str::from_utf8(hex).ok());
    let bits = text.and_then(|text| u64::from_str_radix(text, 16).ok());
    bits.is_some_and(|bits| bits & (1 << CAP_SYS_PTRACE) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &str, want: Option<&str>) {
        let text = format!(
            "27 1 254:0 / / rw - ext4 /dev/vda rw\n22 27 0:21 / /proc rw - proc proc {written}\n"
        );
        let level = options(text.as_bytes(), b"/proc").and_then(hidepid);
        assert_eq!(level.as_deref(), want);
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
        assert_eq!(options(text, b"/proc").and_then(hidepid), None);
    }

    #[test]
    fn the_capability_is_bit_19() {
        assert!(may_trace(b"Name:\tx\nCapEff:\t0000000000080000\n"));
        assert!(!may_trace(b"CapEff:\t0000000000000000\n"));
        assert!(!may_trace(b"CapEff:\tzz\n"));
    }
}
