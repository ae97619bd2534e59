//! `/proc/<pid>/stat`, of a process or of one of its threads.
//!
//! In: the text of the file. Out: `Stat`, or the field where it stopped making sense.
//! Times stay in clock ticks. Never opens a file; `process` and `thread` do.

use super::scan::{Malformed, Scan, wanted};

/// `PF_KTHREAD` of `include/linux/sched.h`.
const KERNEL_THREAD: u64 = 0x0020_0000;
/// `PF_FORKNOEXEC`: forked, and has not executed a file since.
const FORKED_ONLY: u64 = 0x0000_0040;

/// What is taken of the line, by the numbers of `proc_pid_stat(5)`.
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
    /// 26 and 28 mixed: where the program and its stack lie. Both are random for each execution,
    /// and zero for a reader who may not trace the process.
    pub image: u64,
    /// 39.
    pub processor: u64,
    /// 41.
    pub policy: u64,
}

/// What a line says.
pub fn parse(text: &[u8]) -> Result<Stat, Malformed> {
    let (comm, rest) = split_comm(text).ok_or_else(wanted("comm"))?;
    let mut scan = Scan::new(rest);
    let state = scan.word().and_then(<[u8]>::first).copied().ok_or_else(wanted("state"))?;
    let mut stat = Stat { comm, state, ..Stat::default() };
    numbers(&mut stat, &mut scan)?;
    Ok(stat)
}

fn numbers(stat: &mut Stat, scan: &mut Scan<'_>) -> Result<(), Malformed> {
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
    // Whoever may not see it is given 1, and what has no memory 0.
    stat.image = if start_code > 1 { start_code.rotate_left(17) ^ start_stack } else { 0 };
    scan.skip(10);
    stat.processor = scan.number().ok_or_else(wanted("processor"))?;
    scan.skip(1);
    stat.policy = scan.number().ok_or_else(wanted("policy"))?;
    Ok(())
}

/// The name between the parentheses, and what follows them.
fn split_comm(text: &[u8]) -> Option<([u8; 16], &[u8])> {
    let open = text.iter().position(|&byte| byte == b'(')?;
    // A command name may hold spaces, parentheses and line ends, so the last one closes it.
    let close = text.iter().rposition(|&byte| byte == b')')?;
    let name = text.get(open + 1..close)?;
    let mut comm = [0; 16];
    // The kernel shows up to 63 bytes for its own threads; everybody else has at most 15.
    let len = name.len().min(15);
    comm[..len].copy_from_slice(&name[..len]);
    Some((comm, text.get(close + 1..)?))
}

impl Stat {
    /// Whether it is a thread of the kernel.
    pub const fn kernel_thread(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }

    /// Whether a file was executed since the program lay there; not known of an image we may not
    /// see.
    pub const fn executed_since(&self, image: u64) -> bool {
        image != 0 && self.image != 0 && self.image != image
    }

    /// Changes whenever another file was executed, and so the command line with it.
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
    fn a_strange_name_is_kept_whole() {
        check_comm(b"bash", b"bash");
        check_comm(b"", b"");
        check_comm(b"a) S 1 (b", b"a) S 1 (b");
        check_comm(b"((", b"((");
        check_comm(b"line\nend )", b"line\nend )");
        check_comm(b"\xff\xfe\x80", b"\xff\xfe\x80");
    }

    #[test]
    fn a_long_name_of_the_kernel_is_cut_at_15() {
        check_comm(b"kworker/u8:3-events_unbound", b"kworker/u8:3-ev");
    }

    #[test]
    fn every_field_is_at_its_place() {
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
        assert_eq!(parse(b"7 (x) S 1"), Err(Malformed { want: "flags" }));
        assert_eq!(parse(b"7 x S 1"), Err(Malformed { want: "comm" }));
        assert_eq!(parse(b")("), Err(Malformed { want: "comm" }));
    }

    #[test]
    fn an_execution_changes_the_generation() {
        let before = parse(format!("42 (x){REST}").as_bytes()).unwrap();
        let after = Stat { image: before.image + 1, ..before };
        assert_ne!(before.generation(), after.generation());
    }
}
