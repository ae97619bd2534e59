//! `/proc/<pid>/status`: owner, memory and context switches.
//!
//! In: the text of the file. Out: `Status`, sizes in bytes. Kernel threads and zombies have no
//! memory lines. Opens no file; `monitor_backends::procfs` does.

use super::scan::{MalformedProc, Scan, key_and_values, lines, wanted};

/// The values that are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The process id, also in the file of a thread.
    pub tgid: u64,
    /// The process id in the innermost pid namespace, if it is not that of `/proc`.
    pub ns_pid: Option<u64>,
    /// Real user id.
    pub uid: u64,
    /// Real group id.
    pub gid: u64,
    /// Whether the real, effective and saved ids are equal, and it has no capabilities.
    pub plain: bool,
    /// Memory sizes.
    pub memory: Memory,
    /// Context switches of this thread.
    pub switches: Switches,
}

/// Memory sizes in bytes; absent for a process without memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// `VmPeak`.
    pub peak_vsize: Option<u64>,
    /// `VmSize`.
    pub vsize: Option<u64>,
    /// `VmHWM`.
    pub peak_rss: Option<u64>,
    /// `VmRSS`.
    pub rss: Option<u64>,
    /// `RssAnon`.
    pub rss_anon: Option<u64>,
    /// `RssFile`.
    pub rss_file: Option<u64>,
    /// `RssShmem`.
    pub rss_shmem: Option<u64>,
    /// `VmSwap`.
    pub swap: Option<u64>,
}

/// Context switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// `voluntary_ctxt_switches`.
    pub voluntary: u64,
    /// `nonvoluntary_ctxt_switches`.
    pub involuntary: u64,
}

/// Parses the file.
///
/// # Errors
///
/// Fails if an id or the context switches are missing.
pub fn parse(text: &[u8]) -> Result<Status, MalformedProc> {
    let mut status = Status { switches: switches(text)?, ..Status::default() };
    let (mut tgid, mut uid, mut gid) = (None, None, None);
    status.plain = true;
    for line in lines(text) {
        let Some((key, mut values)) = key_and_values(line) else { continue };
        match key {
            b"Tgid" => tgid = values.number(),
            b"Uid" => (uid, status.plain) = owner(values, status.plain),
            b"Gid" => (gid, status.plain) = owner(values, status.plain),
            b"NSpid" => status.ns_pid = innermost(values),
            // No line after this one is used, except the switches at the end.
            b"Threads" => break,
            _ => size(&mut status.memory, key, values),
        }
    }
    status.tgid = tgid.ok_or_else(wanted("Tgid"))?;
    status.uid = uid.ok_or_else(wanted("Uid"))?;
    status.gid = gid.ok_or_else(wanted("Gid"))?;
    // A process of root is never plain, with or without capabilities.
    status.plain &= status.uid != 0 && has_line(text, NO_CAPABILITY);
    Ok(status)
}

/// The line of a process without capabilities. A name cannot contain it: the kernel writes a line
/// break in a name as `\n`.
const NO_CAPABILITY: &[u8] = b"\nCapPrm:\t0000000000000000\n";

fn has_line(text: &[u8], line: &[u8]) -> bool {
    text.windows(line.len()).any(|window| window == line)
}

/// Returns the real id, and whether the effective and the saved id are equal to it.
fn owner(mut ids: Scan<'_>, plain: bool) -> (Option<u64>, bool) {
    let real = ids.number();
    (real, plain && ids.number() == real && ids.number() == real)
}

/// Parses only the context switches, searching from the end, as they are the last lines.
///
/// # Errors
///
/// Fails if one of the two lines is missing.
pub fn switches(text: &[u8]) -> Result<Switches, MalformedProc> {
    let (mut voluntary, mut involuntary) = (None, None);
    for line in lines(text).rev() {
        let Some((key, mut values)) = key_and_values(line) else { continue };
        match key {
            b"voluntary_ctxt_switches" => voluntary = values.number(),
            b"nonvoluntary_ctxt_switches" => involuntary = values.number(),
            _ => {}
        }
        if let (Some(voluntary), Some(involuntary)) = (voluntary, involuntary) {
            return Ok(Switches { voluntary, involuntary });
        }
    }
    Err(MalformedProc { want: "ctxt_switches" })
}

/// Parses only the effective capabilities, a bit for each.
pub fn effective_capabilities(text: &[u8]) -> Option<u64> {
    let mut found = lines(text).filter_map(key_and_values);
    let (_, mut values) = found.find(|(key, _)| *key == b"CapEff")?;
    u64::from_str_radix(std::str::from_utf8(values.word()?).ok()?, 16).ok()
}

fn size(memory: &mut Memory, key: &[u8], mut values: Scan<'_>) {
    let slot = match key {
        b"VmPeak" => &mut memory.peak_vsize,
        b"VmSize" => &mut memory.vsize,
        b"VmHWM" => &mut memory.peak_rss,
        b"VmRSS" => &mut memory.rss,
        b"RssAnon" => &mut memory.rss_anon,
        b"RssFile" => &mut memory.rss_file,
        b"RssShmem" => &mut memory.rss_shmem,
        b"VmSwap" => &mut memory.swap,
        _ => return,
    };
    *slot = values.number().and_then(|kib| kib.checked_mul(1024));
}

/// Returns the last of the ids, one for each pid namespace from that of `/proc` inwards.
fn innermost(mut values: Scan<'_>) -> Option<u64> {
    let _outermost = values.number()?;
    let mut inner = None;
    while let Some(pid) = values.number() {
        inner = Some(pid);
    }
    inner
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_other_effective_ids_or_capabilities_is_not_plain() {
        assert!(!parse(USER.as_bytes()).unwrap().plain);
        let own = USER.replace("1000\t0\t0\t0", "1000\t1000\t1000\t1000");
        assert!(!parse(own.as_bytes()).unwrap().plain, "its effective group differs");
        let own = own.replace("100\t0\t0\t0", "100\t100\t100\t100");
        assert!(!parse(own.as_bytes()).unwrap().plain, "it may have capabilities");
        let bare = own.replacen("volun", "CapPrm:\t0000000000000000\nvolun", 1);
        assert!(parse(bare.as_bytes()).unwrap().plain);
        let able = own.replacen("volun", "CapPrm:\t0000000000000001\nvolun", 1);
        assert!(!parse(able.as_bytes()).unwrap().plain);
    }

    const USER: &str = "Name:\tx\nTgid:\t7\nUid:\t1000\t0\t0\t0\nGid:\t100\t0\t0\t0\n\
        NSpid:\t7\t3\t1\nVmPeak:\t    8 kB\nVmRSS:\t    4 kB\nRssAnon:\t 1 kB\nThreads:\t2\n\
        voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n";

    #[test]
    fn sizes_are_in_bytes_and_the_innermost_pid_is_used() {
        let status = parse(USER.as_bytes()).unwrap();
        assert_eq!((status.tgid, status.uid, status.gid, status.ns_pid), (7, 1000, 100, Some(1)));
        assert_eq!((status.memory.rss, status.memory.peak_vsize), (Some(4096), Some(8192)));
        assert_eq!(status.memory.swap, None);
        assert_eq!(status.switches, Switches { voluntary: 5, involuntary: 6 });
    }

    #[test]
    fn a_kernel_thread_has_no_memory() {
        let text = b"Tgid:\t2\nUid:\t0\nGid:\t0\nNSpid:\t2\nThreads:\t1\n\
            voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n";
        let status = parse(text).unwrap();
        assert_eq!((status.memory, status.ns_pid), (Memory::default(), None));
    }

    #[test]
    fn a_name_cannot_forge_a_line() {
        // The kernel escapes a line break in a name as `\n`.
        let text = format!("Name:\ta\\nUid:\t5\n{USER}");
        assert_eq!(parse(text.as_bytes()).unwrap().uid, 1000);
    }

    #[test]
    fn a_truncated_text_names_the_missing_key() {
        assert_eq!(parse(b""), Err(MalformedProc { want: "ctxt_switches" }));
        let text = b"voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n";
        assert_eq!(parse(text), Err(MalformedProc { want: "Tgid" }));
    }
}
