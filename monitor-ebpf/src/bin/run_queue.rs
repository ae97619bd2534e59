//! Run-queue waits, as a histogram of each process: one hook where a thread is switched in.
//!
//! The kernel stores when a waiting thread was queued, and the run queue has a clock; the
//! difference is the wait. So there is no hook at wake-up, no clock to read and no table of
//! timestamps. The wait before a thread was moved to another queue is not included: the kernel adds
//! it to `run_delay` when it moves the thread.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![allow(unsafe_code, reason = "a BPF program reads kernel memory; the verifier proves each read")]

#[cfg(not(target_arch = "bpf"))]
fn main() {}

#[cfg(target_arch = "bpf")]
mod program {
    use aya_ebpf::bindings::{BPF_F_NO_PREALLOC, BPF_NOEXIST};
    use aya_ebpf::macros::{btf_map, map};
    use aya_ebpf::maps::HashMap;
    use monitor_ebpf::abi::Owner;
    use monitor_ebpf::abi::histogram::{BUCKETS, Histogram, bucket};
    use monitor_ebpf::kernel::iter::Step;
    use monitor_ebpf::kernel::storage::TaskStorage;
    use monitor_ebpf::kernel::{atomic, loss, queue, task::Task, without_bounds};

    /// Waits of a live process, stored with its leader.
    #[btf_map]
    static WAITS: TaskStorage<Histogram> = TaskStorage::new();

    /// Waits of ended processes, until they were read. The loader sets the size.
    #[map]
    static ENDED: HashMap<Owner, Histogram> = HashMap::with_max_entries(4096, BPF_F_NO_PREALLOC);

    /// `(preempt, prev, next, …)`, with the run queue locked.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/sched_switch")]
    fn switch(&[_, _, next]: &[u64; 3]) -> i32 {
        let Some(next) = Task::from_argument(next) else { return 0 };
        // The idle task never waits.
        let Some(wait_ns) = queue::wait_ns(next) else { return 0 };
        // No event is counted here: the histograms are the count, and this path is hot.
        let Some(waits) = WAITS.existing(next.leader()) else {
            loss::table_full();
            return 0;
        };
        let index = without_bounds(bucket(wait_ns));
        if index < BUCKETS {
            // SAFETY: the storage lives as long as the leader, and the leader as its threads.
            atomic::add(unsafe { &mut (*waits).counts[index] }, 1);
        }
        0
    }

    /// Allocates storage for a process before it first runs, so that `switch` never has to:
    /// `(parent, child)`, in the parent's context.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/sched_process_fork")]
    fn fork(&[_, child]: &[u64; 2]) -> i32 {
        Task::from_argument(child).map_or(0, prepare_leader)
    }

    /// A thread that executes a program becomes the leader: `(task, …)`, in its own context.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/sched_process_exec")]
    fn exec(&[changed]: &[u64; 1]) -> i32 {
        Task::from_argument(changed).map_or(0, prepare_leader)
    }

    /// Runs once over the processes that exist before the hooks are attached.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "iter/task")]
    fn prepare(step: &Step) -> i32 {
        step.task().map_or(0, prepare_leader)
    }

    #[inline(always)]
    fn prepare_leader(task: Task) -> i32 {
        if task.is_leader() && WAITS.get_or_create(task).is_none() {
            loss::table_full();
        }
        0
    }

    /// Saves the histogram that is freed with the task. The owner is read through the leader: a
    /// leader that another thread replaced in `execve` then adds to the process that continues.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/sched_process_free")]
    fn free(&[freed]: &[u64; 1]) -> i32 {
        let Some(task) = Task::from_argument(freed) else { return 0 };
        let Some(waits) = WAITS.existing(task) else { return 0 };
        // SAFETY: the storage lives as long as the task.
        let waits = unsafe { &*waits };
        let owner = task.owner();
        if ENDED.insert(&owner, waits, u64::from(BPF_NOEXIST)).is_ok() {
            return 0;
        }
        let Some(row) = ENDED.get_ptr_mut(&owner) else {
            loss::table_full();
            return 0;
        };
        for index in 0..BUCKETS {
            // SAFETY: rows are removed only after their process has ended.
            atomic::add(unsafe { &mut (*row).counts[index] }, waits.counts[index]);
        }
        0
    }

    /// Writes a `ProcessWaits` for each live process.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "iter/task")]
    fn waits(step: &Step) -> i32 {
        let Some(task) = step.task() else { return 0 };
        if task.is_leader()
            && let Some(waits) = WAITS.existing(task)
        {
            step.meta.write(&task.owner());
            // SAFETY: the storage lives as long as the task.
            step.meta.write(unsafe { &*waits });
        }
        0
    }

    monitor_ebpf::object!();
}
