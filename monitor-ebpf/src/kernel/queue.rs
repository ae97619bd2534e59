//! A task on its run queue: the one reader of `sched_info` times and of the run queue's clock.
//!
//! Times are those of the run queue that the task is on, which has its own clock: only their
//! differences mean something, and only while the task stays there.

use super::task::Task;
use super::{constant, load};
use crate::abi::offset::ABSENT;
use crate::abi::run_queue::RunQueueOffsets;

/// Set by the loader.
#[unsafe(no_mangle)]
static RUN_QUEUE: RunQueueOffsets = RunQueueOffsets::ABSENT;

/// How long a task has waited that is being given a CPU; `None` for one that never waits.
#[inline(always)]
pub fn wait_ns(next: Task) -> Option<u64> {
    since(next, load(next.as_ptr(), constant!(RUN_QUEUE.last_queued)))
}

/// How long ago a task was given the CPU that it has, by the wall; `None` where nobody knows.
#[inline(always)]
pub fn slice_ns(prev: Task) -> Option<u64> {
    if constant!(RUN_QUEUE.last_arrival) == ABSENT || constant!(RUN_QUEUE.cfs_rq) == ABSENT {
        return None;
    }
    since(prev, load(prev.as_ptr(), constant!(RUN_QUEUE.last_arrival)))
}

#[inline(always)]
fn since(task: Task, then: u64) -> Option<u64> {
    if then == 0 {
        return None;
    }
    let cfs_rq: *const u8 = load(task.as_ptr(), constant!(RUN_QUEUE.cfs_rq));
    let rq: *const u8 = load(cfs_rq, constant!(RUN_QUEUE.rq));
    let now: u64 = load(rq, constant!(RUN_QUEUE.clock));
    Some(now.saturating_sub(then))
}
