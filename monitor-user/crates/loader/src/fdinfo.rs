//! `/proc/self/fdinfo` of programs and maps (kernel/bpf/syscall.c, `bpf_prog_show_fdinfo`).
//!
//! In: a descriptor. Out: the numbers that the kernel prints for it.

use std::os::fd::{AsRawFd, BorrowedFd};

/// Memory of a map.
pub fn memory(map: BorrowedFd<'_>) -> u64 {
    number(&read(map), "memlock")
}

/// The text of the file.
pub fn read(fd: BorrowedFd<'_>) -> String {
    std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).unwrap_or_default()
}

/// The number after a key; 0 if the kernel does not print it.
pub fn number(info: &str, key: &str) -> u64 {
    let value = |line: &str| {
        line.strip_prefix(key)?.strip_prefix(':').and_then(|text| text.trim().parse().ok())
    };
    info.lines().find_map(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn a_key_is_found_and_a_longer_one_is_not() {
        let info = "run_cnt_x:\t1\nrun_cnt:\t7\n";
        assert_eq!(number(info, "run_cnt"), 7);
        assert_eq!(number(info, "run_time_ns"), 0);
    }
}
