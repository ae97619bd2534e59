//! Run-queue waits: a histogram for each process.
//!
//! For a live process it is in task storage of the leader, written by `bin/run_queue.rs` at each
//! switch and read by its iterator; at its end it moves to the table [`ENDED`], from which
//! `loader/run_queue.rs` removes it. A wait without storage is counted in `LOSS`.

use super::Owner;
use super::histogram::Histogram;
use super::offset::offsets;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Task storage: the histogram of a live process, at its leader.
pub const WAITS: &str = "WAITS";
/// Table of histograms of ended processes, by owner.
pub const ENDED: &str = "ENDED";

/// A record of the iterator: the waits of a live process since counting began.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Waits {
    /// The process.
    pub owner: Owner,
    /// Waits of all its threads.
    pub waits: Histogram,
}

const _: () = assert!(size_of::<Waits>() == 16 + size_of::<Histogram>());

offsets! {
    /// What is read of a task that waits for a CPU or is switched in.
    RunQueueOffsets in "RUN_QUEUE" {
        // Without CONFIG_SCHED_INFO (which SCHEDSTATS and TASK_DELAY_ACCT select) it is absent.
        last_queued: "task_struct.sched_info.last_queued",
        last_arrival: "task_struct.sched_info.last_arrival",
        // What the fair class had run when it last picked the task; other classes leave it.
        picked_runtime: "task_struct.se.prev_sum_exec_runtime",
        // Path to the run queue's clock; only with CONFIG_FAIR_GROUP_SCHED.
        cfs_rq: "task_struct.se.cfs_rq",
        rq: "cfs_rq.rq",
        clock: "rq.clock",
    }
}
