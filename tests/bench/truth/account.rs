//! What the kernel accounts for the whole node: CPU time, block bytes, and the processes that a
//! backend does not see.

use crate::load::{ids, pids};
use std::collections::HashSet;
use std::path::PathBuf;

/// The file with the CPU time of all processes, which the scheduler counts; version 1 only: the
/// root of version 2 has what `/proc/stat` samples.
pub fn usage_file() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
    let is_accounting = |line: &&str| {
        let mut words = line.split(' ').skip(2);
        words.next() == Some("cgroup")
            && words.next().is_some_and(|it| it.split(',').any(|it| it == "cpuacct"))
    };
    let root = mounts.lines().find(is_accounting)?.split(' ').nth(1)?;
    Some(PathBuf::from(root).join("cpuacct.usage"))
}

/// Nanoseconds of CPU time.
pub fn usage_ns(file: &PathBuf) -> u64 {
    std::fs::read_to_string(file).unwrap().trim().parse().unwrap()
}

/// CPU time of the processes that are not among these.
pub fn hidden_ns(shown: &HashSet<u32>) -> u64 {
    let hidden = pids().filter(|pid| !shown.contains(pid));
    let exec = |pid: u32| {
        let tasks = format!("/proc/{pid}/task");
        let threads = ids(&tasks).map(|tid| format!("{tasks}/{tid}/schedstat"));
        let texts = threads.filter_map(|path| std::fs::read_to_string(path).ok());
        texts.filter_map(|text| text.split(' ').next()?.parse::<u64>().ok()).sum::<u64>()
    };
    hidden.map(exec).sum()
}

/// Bytes that whole disks have read and written, of Documentation/admin-guide/iostats.rst.
pub fn disk_bytes() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/diskstats").unwrap();
    let mut sum = [0; 2];
    for line in text.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        // A partition has no folder of its own here.
        if !PathBuf::from(format!("/sys/block/{}", words[2])).exists() {
            continue;
        }
        let sectors = |at: usize| words[at].parse::<u64>().unwrap() * 512;
        sum[0] += sectors(5);
        sum[1] += sectors(9);
    }
    sum
}
