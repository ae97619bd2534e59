//! CPU times of control groups, as the scheduler accounts them.
//!
//! In: texts of `cpuacct.usage_percpu` (version 1) and `cpu.stat` (version 2). Out: nanoseconds.
//! Both count to the nanosecond what tasks ran, unlike `/proc/stat`, whose busy times are samples
//! of the timer. Opens no file.

use super::scan::{Scan, lines};

/// The time on each possible processor.
pub fn usage_percpu(text: &[u8]) -> Option<Vec<u64>> {
    let mut scan = Scan::new(text);
    let times: Vec<u64> = std::iter::from_fn(|| scan.number()).collect();
    (!times.is_empty()).then_some(times)
}

/// The time of a group with all groups below it: `usage_usec`.
pub fn stat_usage(text: &[u8]) -> Option<u64> {
    let mut words = lines(text).map(Scan::new);
    let mut line = words.find_map(|mut it| (it.word()? == b"usage_usec").then_some(it))?;
    line.number()?.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_processor_has_its_time() {
        assert_eq!(usage_percpu(b"555873104962 557924206332 \n"), {
            Some(vec![555_873_104_962, 557_924_206_332])
        });
        assert_eq!(usage_percpu(b""), None);
    }

    #[test]
    fn the_time_of_a_group_is_in_nanoseconds() {
        let text = b"usage_usec 75\nuser_usec 50\nsystem_usec 25\nnice_usec 0\n";
        assert_eq!(stat_usage(text), Some(75_000));
        assert_eq!(stat_usage(b"user_usec 50\n"), None);
    }
}
