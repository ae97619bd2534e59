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

/// What a task ran at most since it was given the CPU that it is leaving; `None` where nobody
/// knows.
///
/// The fair class keeps what a task had run as it was picked, and has brought its sum up to the
/// present as it is put away, before the tracepoint (`set_next_entity` and `put_prev_entity` of
/// kernel/sched/fair.c, 5.10 to 6.18). A running task that changes its group is picked anew, and
/// other classes leave an older sum there; so this is for those of whom nothing else is known.
#[inline(always)]
pub fn slice_ns(prev: Task) -> Option<u64> {
    if constant!(RUN_QUEUE.last_arrival) == ABSENT || constant!(RUN_QUEUE.cfs_rq) == ABSENT {
        return None;
    }
    let by_wall = since(prev, load(prev.as_ptr(), constant!(RUN_QUEUE.last_arrival)))?;
    let picked_ns: u64 = load(prev.as_ptr(), constant!(RUN_QUEUE.picked_runtime));
    let ran_ns = prev.exec_ns().wrapping_sub(picked_ns);
    Some(if ran_ns < by_wall { ran_ns } else { by_wall })
}

/// Whether this is the first time that a task has a CPU; nobody knows where it is not counted.
#[inline(always)]
pub fn is_first_slice(task: Task) -> bool {
    constant!(RUN_QUEUE.last_arrival) != ABSENT && task.run_count() == 1
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
