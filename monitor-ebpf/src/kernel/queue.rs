//! Reader of `sched_info` times and of the run queue's clock.
//!
//! Times are on the clock of the task's run queue: only their differences are meaningful, and only
//! while the task stays on that queue.

use super::task::Task;
use super::{constant, load};
use crate::abi::offset::ABSENT;
use crate::abi::run_queue::RunQueueOffsets;

/// Set by the loader.
#[unsafe(no_mangle)]
static RUN_QUEUE: RunQueueOffsets = RunQueueOffsets::ABSENT;

/// Time that a task being switched in has waited; `None` for the idle task.
#[inline(always)]
pub fn wait_ns(next: Task) -> Option<u64> {
    since(next, load(next.as_ptr(), constant!(RUN_QUEUE.last_queued)))
}

/// Upper bound of the slice of a task being switched out; `None` if unknown.
///
/// The fair class keeps what a task had run as it was picked, and has brought its sum up to the
/// present as it is put away, before the tracepoint (`set_next_entity` and `put_prev_entity` of
/// kernel/sched/fair.c, 5.10 to 6.18). A running task that changes its group is picked again,
/// and other classes leave an older sum there; so this is used only if nothing else is known.
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

/// Whether this is the first slice of a task; false if the kernel does not count slices.
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
