//! Records that the reader of `snapshot` has already, compared with those of now.
//!
//! A record is compared by its mark: 128 bits of all that it is made of. A change of one value
//! always changes it; several changes at once cancel each other in one of 2^64 cases.
//! Counters only grow, so their sum stands for all of them.

use crate::abi::task::{ProcessRecord, SeenTask, Sums, ThreadRecord};

/// Odd numbers without a pattern.
const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];

/// What a record is made of, in 128 bits.
#[derive(Clone, Copy)]
pub struct Mark([u64; 2]);

impl Mark {
    /// The mark of the record of a thread.
    #[inline(always)]
    pub fn of_thread(it: &ThreadRecord) -> Self {
        let counters = sum(&it.sums).wrapping_add(it.run_delay_ns).wrapping_add(it.run_count);
        let comm: [u64; 2] = zerocopy::transmute!(it.comm);
        Self([1, 2])
            .with(it.start_boottime_ns, counters)
            .with(pair(it.kind, it.tid), pair(it.tgid, it.state))
            .with(pair(it.flags, it.priority), pair(it.static_priority, it.policy))
            .with(pair(it.processor, it.exit_code), comm[0])
            .with(comm[1], 0)
    }

    /// With what a process has, apart from its threads: not what only its threads can change.
    #[inline(always)]
    pub fn and_process(self, it: &ProcessRecord, [credentials, memory_flags]: [u64; 2]) -> Self {
        let [file, anonymous, swap, shared] = it.rss_pages.map(i64::cast_unsigned);
        self.with(pair(it.ppid, it.exec_id), it.cgroup_id)
            .with(credentials, memory_flags)
            .with(file, anonymous)
            .with(swap, shared)
            .with(it.vsize_pages, it.peak_vsize_pages)
            .with(it.peak_rss_pages, u64::from(it.has_memory))
    }

    /// With what threads other than the first can change.
    #[inline(always)]
    pub fn and_group(self, it: &ProcessRecord) -> Self {
        self.with(pair(it.threads, it.group_flags), pair(it.group_exit_code, 0))
            .with(sum(&it.dead), 0)
    }

    /// With two values. Each step is a bijection of the value and of the mark before it.
    #[inline(always)]
    fn with(self, one: u64, other: u64) -> Self {
        let step = |mark: u64, value: u64, factor: u64| {
            let product = (mark ^ value).wrapping_mul(factor);
            product ^ product >> 32
        };
        Self([step(self.0[0], one, FACTORS[0]), step(self.0[1], other, FACTORS[1])])
    }
}

#[inline(always)]
fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// The sum of counters, which changes if any of them grows.
#[inline(always)]
fn sum(it: &Sums) -> u64 {
    let words: [u64; 14] = zerocopy::transmute!(*it);
    words.iter().fold(0, |sum, word| sum.wrapping_add(*word))
}

/// What is kept of the last record of a task.
pub struct Seen {
    /// Its row, which one program at a time uses.
    pub row: *mut SeenTask,
    /// The epoch of the records that the reader keeps.
    pub epoch: u32,
}

impl Seen {
    /// Whether the reader has a record with this mark.
    #[inline(always)]
    pub fn has(&self, mark: Mark) -> bool {
        let row = self.row();
        row.mark == mark.0 && row.epoch == self.epoch
    }

    /// Whether the last record was that of a process without other threads.
    #[inline(always)]
    pub fn is_alone(&self) -> bool {
        self.row().is_alone == 1
    }

    /// The reader has a record with this mark from now on.
    #[inline(always)]
    pub fn set(&self, mark: Mark, is_alone: bool) {
        let seen = SeenTask { mark: mark.0, epoch: self.epoch, is_alone: u32::from(is_alone) };
        // SAFETY: a row of the array, which one program at a time uses.
        unsafe { self.row.write(seen) };
    }

    #[inline(always)]
    fn row(&self) -> &SeenTask {
        // SAFETY: a row of the array, which one program at a time uses.
        unsafe { &*self.row }
    }
}
