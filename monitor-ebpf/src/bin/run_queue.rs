//! Waits for a CPU, as a histogram of each process: one hook where a thread is given its CPU.
//!
//! The kernel keeps when a waiting thread was queued, and its run queue what time it is now; the
//! difference is the wait. So there is no hook at wake-up, no clock to read and no table of
//! timestamps. What a thread waited before it was moved to another queue is not in the wait that
//! ends here: the kernel adds that to `run_delay` as it moves the thread.
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
    use monitor_ebpf::kernel::{atomic, forgotten, loss, queue, task::Task};

    /// Waits of a living process, with its leader.
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
        let index = forgotten(bucket(wait_ns));
        if index < BUCKETS {
            // SAFETY: the storage lives as long as the leader, and the leader as its threads.
            atomic::add(unsafe { &mut (*waits).counts[index] }, 1);
        }
        0
    }

    /// Gives storage to a process before it first runs, so that `switch` never has to: `(parent,
    /// child)`, in the parent's context.
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

    /// Runs once over the processes that are there before the hooks are.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "iter/task")]
    fn prepare(step: &Step) -> i32 {
        step.task().map_or(0, prepare_leader)
    }

    #[inline(always)]
    fn prepare_leader(task: Task) -> i32 {
        if task.is_leader() && WAITS.made(task).is_none() {
            loss::table_full();
        }
        0
    }

    /// Keeps what ends with the task. Its owner is asked for by way of its leader: a leader that
    /// another thread replaced in `execve` then adds to the process that goes on.
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

    /// Writes a `Waits` for each living process.
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
