//! What a process has mapped: `/proc/<pid>/maps` (proc_pid_maps(5)).
//!
//! In: the root of a `/proc` and a pid. Out: the mappings of files and of nothing, in the order of
//! addresses. One line that makes no sense is left out, not the others: a path may hold anything.
//! Opens no mapped file and knows nothing of their formats.

use monitor_model::id::Pid;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// What the kernel adds to the path of a file that nobody can name any more.
const DELETED: &[u8] = b" (deleted)";

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its first address.
    pub start: u64,
    /// The address behind its last.
    pub end: u64,
    /// Whether code in it can run.
    pub is_executable: bool,
    /// Whether it can be written.
    pub is_writable: bool,
    /// Where in the file it begins.
    pub offset: u64,
    /// The number of the file on its device; 0 where there is no file.
    pub inode: u64,
    /// The path as the process sees it, or a name in brackets; absent for plain memory.
    pub path: Option<PathBuf>,
    /// Whether the file is not to be found there any more.
    pub is_deleted: bool,
}

/// The mappings of a process.
pub fn mappings(proc: &Path, pid: Pid) -> io::Result<Vec<Mapping>> {
    let text = std::fs::read(proc.join(pid.0.to_string()).join("maps"))?;
    Ok(text.split(|byte| *byte == b'\n').filter_map(from_line).collect())
}

/// A mapping, of its line.
fn from_line(line: &[u8]) -> Option<Mapping> {
    let mut words = line.splitn(6, |byte| *byte == b' ');
    let mut word = || words.next().and_then(|word| std::str::from_utf8(word).ok());
    let (start, end) = word()?.split_once('-')?;
    let rights = word()?.as_bytes();
    let (offset, _device, inode) = (word()?, word()?, word()?);
    let path = words.next().map(<[u8]>::trim_ascii_start).filter(|path| !path.is_empty());
    let is_deleted = path.is_some_and(|path| path.ends_with(DELETED));
    let path = path.map(|path| path.strip_suffix(DELETED).unwrap_or(path));
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        is_executable: rights.get(2) == Some(&b'x'),
        is_writable: rights.get(1) == Some(&b'w'),
        offset: u64::from_str_radix(offset, 16).ok()?,
        inode: inode.parse().ok()?,
        path: path.map(|path| PathBuf::from(OsString::from_vec(unescaped(path)))),
        is_deleted,
    })
}

/// A line break in a path is written as `\012`, and nothing else is.
fn unescaped(path: &[u8]) -> Vec<u8> {
    const WRITTEN: &[u8] = br"\012";
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&first, behind)) = rest.split_first() {
        let is_break = rest.starts_with(WRITTEN);
        bytes.push(if is_break { b'\n' } else { first });
        rest = if is_break { &rest[WRITTEN.len()..] } else { behind };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, want: Option<(u64, u64, bool, Option<&str>, bool)>) {
        let it = from_line(line.as_bytes());
        let seen = it.as_ref().map(|it| {
            let path = it.path.as_deref().and_then(Path::to_str);
            (it.start, it.offset, it.is_executable, path, it.is_deleted)
        });
        assert_eq!(seen, want, "{line}");
    }

    #[test]
    fn a_line_is_a_mapping_with_its_file() {
        check(
            "7f00-7f10 r-xp 00001000 fe:00 77                         /usr/lib/libc.so.6",
            Some((0x7f00, 0x1000, true, Some("/usr/lib/libc.so.6"), false)),
        );
        check("7f00-7f10 rw-p 00000000 00:00 0 ", Some((0x7f00, 0, false, None, false)));
    }

    #[test]
    fn a_path_may_hold_anything() {
        let line = r"7f00-7f10 r-xp 00000000 fe:00 7   /srv/a b\012c (deleted)";
        check(line, Some((0x7f00, 0, true, Some("/srv/a b\nc"), true)));
    }

    #[test]
    fn a_line_that_makes_no_sense_is_left_out() {
        check("", None);
        check("7f00 r-xp", None);
        check("x-y r-xp 0 0 0 /a", None);
    }

    #[test]
    fn our_own_code_is_mapped_executable() {
        let all = mappings(Path::new("/proc"), Pid(std::process::id())).unwrap();
        let here = our_own_code_is_mapped_executable as *const () as u64;
        let it = all.iter().find(|it| (it.start..it.end).contains(&here)).unwrap();
        assert!(it.is_executable && it.inode != 0 && it.path.is_some());
    }
}
