//! `/proc/<pid>/maps`: the memory mappings of a process (proc_pid_maps(5)).
//!
//! In: the root of a `/proc` and a pid. Out: file mappings and anonymous mappings, in the order of
//! addresses. Malformed lines are skipped, since a path may contain anything.
//! Opens no mapped file.

use monitor_model::id::Pid;
use std::path::{Path, PathBuf};
use std::{ffi::OsString, io, os::unix::ffi::OsStringExt as _};

/// The suffix that the kernel adds to the path of a deleted file.
const DELETED: &[u8] = b" (deleted)";

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The first address.
    pub start: u64,
    /// The address after the last one.
    pub end: u64,
    /// Whether it is executable.
    pub is_executable: bool,
    /// Whether it is writable.
    pub is_writable: bool,
    /// Offset of its beginning in the file.
    pub offset: u64,
    /// The device of the file, major and minor number.
    pub device: (u32, u32),
    /// The inode number of the file; 0 for an anonymous mapping.
    pub inode: u64,
    /// The path in the process's mount namespace, or a name in brackets; absent if anonymous.
    pub path: Option<PathBuf>,
    /// Whether the file was deleted.
    pub is_deleted: bool,
}

/// Reads the mappings of a process.
///
/// # Errors
///
/// Fails if the file cannot be read: the process has ended, or it may not be traced.
pub fn mappings(proc: &Path, pid: Pid) -> io::Result<Vec<Mapping>> {
    let text = std::fs::read(proc.join(pid.0.to_string()).join("maps"))?;
    Ok(text.split(|byte| *byte == b'\n').filter_map(from_line).collect())
}

/// Parses a line.
fn from_line(line: &[u8]) -> Option<Mapping> {
    let mut words = line.splitn(6, |byte| *byte == b' ');
    let mut word = || words.next().and_then(|word| std::str::from_utf8(word).ok());
    let (start, end) = word()?.split_once('-')?;
    let permissions = word()?.as_bytes();
    let (offset, device, inode) = (word()?, word()?, word()?);
    let (major, minor) = device.split_once(':')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    let path = words.next().map(<[u8]>::trim_ascii_start).filter(|path| !path.is_empty());
    let is_deleted = path.is_some_and(|path| path.ends_with(DELETED));
    let path = path.map(|path| path.strip_suffix(DELETED).unwrap_or(path));
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        is_executable: permissions.get(2) == Some(&b'x'),
        is_writable: permissions.get(1) == Some(&b'w'),
        offset: u64::from_str_radix(offset, 16).ok()?,
        device: (number(major)?, number(minor)?),
        inode: inode.parse().ok()?,
        path: path.map(|path| PathBuf::from(OsString::from_vec(unescaped(path)))),
        is_deleted,
    })
}

/// Replaces `\012` by a line break, the only character that the kernel escapes in a path.
fn unescaped(path: &[u8]) -> Vec<u8> {
    const ESCAPED: &[u8] = br"\012";
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&first, behind)) = rest.split_first() {
        let is_break = rest.starts_with(ESCAPED);
        bytes.push(if is_break { b'\n' } else { first });
        rest = if is_break { &rest[ESCAPED.len()..] } else { behind };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, want: Option<(u64, u64, bool, Option<&str>, bool)>) {
        let mapping = from_line(line.as_bytes());
        let seen = mapping.as_ref().map(|mapping| {
            let path = mapping.path.as_deref().and_then(Path::to_str);
            (mapping.start, mapping.offset, mapping.is_executable, path, mapping.is_deleted)
        });
        assert_eq!(seen, want, "{line}");
    }

    #[test]
    fn a_line_parses_to_a_mapping() {
        check(
            "7f00-7f10 r-xp 00001000 fe:00 77                         /usr/lib/libc.so.6",
            Some((0x7f00, 0x1000, true, Some("/usr/lib/libc.so.6"), false)),
        );
        check("7f00-7f10 rw-p 00000000 00:00 0 ", Some((0x7f00, 0, false, None, false)));
    }

    #[test]
    fn a_file_has_a_device_and_an_inode() {
        let it = from_line(b"7f00-7f10 r-xp 00001000 fe:1a 77   /a").unwrap();
        assert_eq!((it.device, it.inode), ((0xfe, 0x1a), 77));
    }

    #[test]
    fn a_path_may_contain_spaces_and_line_breaks() {
        let line = r"7f00-7f10 r-xp 00000000 fe:00 7   /srv/a b\012c (deleted)";
        check(line, Some((0x7f00, 0, true, Some("/srv/a b\nc"), true)));
    }

    #[test]
    fn a_malformed_line_is_skipped() {
        check("", None);
        check("7f00 r-xp", None);
        check("x-y r-xp 0 0 0 /a", None);
    }

    #[test]
    fn this_function_is_in_an_executable_mapping() {
        let all = mappings(Path::new("/proc"), Pid(std::process::id())).unwrap();
        let here = this_function_is_in_an_executable_mapping as *const () as u64;
        let it = all.iter().find(|it| (it.start..it.end).contains(&here)).unwrap();
        assert!(it.is_executable && it.inode != 0 && it.path.is_some());
    }
}
