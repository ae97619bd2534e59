//! `/proc/<pid>/stat` of a process or a thread.
//!
//! In: the text of the file. Out: `Stat`, or the field that is malformed. Times stay in clock
//! ticks. Opens no file; `monitor_backends::procfs` does.

use super::scan::{MalformedProc, Scan, wanted};

/// `PF_KTHREAD` of `include/linux/sched.h`.
const KERNEL_THREAD: u64 = 0x0020_0000;
/// `PF_FORKNOEXEC`: forked, and has not executed a file since.
const FORKED_ONLY: u64 = 0x0000_0040;
/// `PF_EXITING`: it ends, though its state may still be another.
const EXITING: u64 = 0x0000_0004;

/// The fields that are used, with their numbers in `proc_pid_stat(5)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// 2, NUL-padded.
    pub comm: [u8; 16],
    /// 3, a letter.
    pub state: u8,
    /// 4.
    pub ppid: u64,
    /// 9.
    pub flags: u64,
    /// 10.
    pub minor_faults: u64,
    /// 12.
    pub major_faults: u64,
    /// 14.
    pub user_ticks: u64,
    /// 15.
    pub system_ticks: u64,
    /// 18.
    pub priority: i64,
    /// 19.
    pub nice: i64,
    /// 20.
    pub threads: u64,
    /// 22, since boot.
    pub start_ticks: u64,
    /// 26 and 28 combined: the addresses of the program and its stack. Both are randomized by each
    /// exec(2); 0 if the reader may not trace the process.
    pub image: u64,
    /// 39.
    pub processor: u64,
    /// 41.
    pub policy: u64,
    /// 52, as wait(2) encodes it; 0 before the end, and if the reader may not trace the process.
    pub exit_code: u32,
}

/// Parses the line.
///
/// # Errors
///
/// Fails at the first missing or malformed field.
pub fn parse(text: &[u8]) -> Result<Stat, MalformedProc> {
    let (comm, rest) = split_comm(text).ok_or_else(wanted("comm"))?;
    let mut scan = Scan::new(rest);
    let state = scan.word().and_then(<[u8]>::first).copied().ok_or_else(wanted("state"))?;
    let mut stat = Stat { comm, state, ..Stat::default() };
    numbers(&mut stat, &mut scan)?;
    Ok(stat)
}

fn numbers(stat: &mut Stat, scan: &mut Scan<'_>) -> Result<(), MalformedProc> {
    stat.ppid = scan.number().ok_or_else(wanted("ppid"))?;
    scan.skip(4);
    stat.flags = scan.number().ok_or_else(wanted("flags"))?;
    stat.minor_faults = scan.number().ok_or_else(wanted("minflt"))?;
    scan.skip(1);
    stat.major_faults = scan.number().ok_or_else(wanted("majflt"))?;
    scan.skip(1);
    stat.user_ticks = scan.number().ok_or_else(wanted("utime"))?;
    stat.system_ticks = scan.number().ok_or_else(wanted("stime"))?;
    scan.skip(2);
    stat.priority = scan.signed().ok_or_else(wanted("priority"))?;
    stat.nice = scan.signed().ok_or_else(wanted("nice"))?;
    stat.threads = scan.number().ok_or_else(wanted("num_threads"))?;
    scan.skip(1);
    stat.start_ticks = scan.number().ok_or_else(wanted("starttime"))?;
    scan.skip(3);
    let start_code = scan.number().ok_or_else(wanted("startcode"))?;
    scan.skip(1);
    let start_stack = scan.number().ok_or_else(wanted("startstack"))?;
    // A reader without ptrace access gets 1, and a process without memory has 0.
    stat.image = if start_code > 1 { start_code.rotate_left(17) ^ start_stack } else { 0 };
    scan.skip(10);
    stat.processor = scan.number().ok_or_else(wanted("processor"))?;
    scan.skip(1);
    stat.policy = scan.number().ok_or_else(wanted("policy"))?;
    if stat.state == b'Z' {
        scan.skip(10);
        let code = scan.number().ok_or_else(wanted("exit_code"))?;
        stat.exit_code = u32::try_from(code).map_err(|_| wanted("exit_code")())?;
    }
    Ok(())
}

/// Returns the name between the parentheses, and the text after them.
fn split_comm(text: &[u8]) -> Option<([u8; 16], &[u8])> {
    let open = text.iter().position(|&byte| byte == b'(')?;
    // A command name may contain spaces, parentheses and line breaks: the last one closes it.
    let close = text.iter().rposition(|&byte| byte == b')')?;
    let name = text.get(open + 1..close)?;
    let mut comm = [0; 16];
    // The kernel prints up to 63 bytes for kernel threads; other names have at most 15.
    let len = name.len().min(15);
    comm[..len].copy_from_slice(&name[..len]);
    Some((comm, text.get(close + 1..)?))
}

impl Stat {
    /// Returns whether it is a kernel thread.
    pub const fn kernel_thread(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }

    /// Returns whether it is a process whose threads have all ended.
    pub const fn is_zombie(&self) -> bool {
        self.state == b'Z' && self.threads <= 1
    }

    /// Returns whether it has ended, or executes nothing more of its program before it does.
    pub const fn is_ending(&self) -> bool {
        matches!(self.state, b'Z' | b'X') || self.flags & EXITING != 0
    }

    /// Returns whether the process has called exec(2) since its `image` was this one; false if
    /// either image is unknown.
    pub const fn executed_since(&self, image: u64) -> bool {
        image != 0 && self.image != 0 && self.image != image
    }

    /// Returns a value that changes with each exec(2), and so with the command line.
    pub fn generation(&self) -> u32 {
        let name = u128::from_le_bytes(self.comm);
        let halves = (name as u64) ^ ((name >> 64) as u64).rotate_left(29);
        let mixed =
            (halves ^ self.image ^ (self.flags & FORKED_ONLY)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: &str = " S 1 42 42 0 -1 4194560 3376 51271 7 18 5 1 31 7 20 -5 3 0 176539 \
        5124096 933 18446744073709551615 11 12 13 0 0 0 65536 4 1132560123 1 0 0 17 1 0 2 0 0 0";

    #[track_caller]
    fn check_comm(name: &[u8], want: &[u8]) {
        let text = [b"42 (", name, b")", REST.as_bytes()].concat();
        let stat = parse(&text).unwrap();
        assert_eq!(&stat.comm[..want.len()], want);
        assert!(stat.comm[want.len()..].iter().all(|&byte| byte == 0));
        assert_eq!((stat.ppid, stat.policy), (1, 2));
    }

    #[test]
    fn a_name_may_contain_any_bytes() {
        check_comm(b"bash", b"bash");
        check_comm(b"", b"");
        check_comm(b"a) S 1 (b", b"a) S 1 (b");
        check_comm(b"((", b"((");
        check_comm(b"line\nend )", b"line\nend )");
        check_comm(b"\xff\xfe\x80", b"\xff\xfe\x80");
    }

    #[test]
    fn the_name_of_a_kernel_thread_is_cut_at_15_bytes() {
        check_comm(b"kworker/u8:3-events_unbound", b"kworker/u8:3-ev");
    }

    #[test]
    fn every_field_is_read_from_its_position() {
        let text = format!("42 (x){REST}");
        let stat = parse(text.as_bytes()).unwrap();
        assert_eq!(
            (stat.state, stat.flags, stat.minor_faults, stat.major_faults),
            (b'S', 4_194_560, 3376, 7)
        );
        assert_eq!((stat.user_ticks, stat.system_ticks, stat.priority, stat.nice), (5, 1, 20, -5));
        assert_eq!((stat.threads, stat.start_ticks, stat.processor), (3, 176_539, 1));
    }

    #[test]
    fn a_short_line_names_the_missing_field() {
        assert_eq!(parse(b"7 (x) S 1"), Err(MalformedProc { want: "flags" }));
        assert_eq!(parse(b"7 x S 1"), Err(MalformedProc { want: "comm" }));
        assert_eq!(parse(b")("), Err(MalformedProc { want: "comm" }));
    }

    #[test]
    fn an_exec_changes_the_generation() {
        let before = parse(format!("42 (x){REST}").as_bytes()).unwrap();
        let after = Stat { image: before.image + 1, ..before };
        assert_ne!(before.generation(), after.generation());
    }
}
