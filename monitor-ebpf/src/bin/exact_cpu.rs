//! CPU time counted at each switch, by process and CPU.
//!
//! When a thread is switched out, the kernel has just updated its CPU time: the increase since it
//! was switched in is the slice, minus stolen time if the kernel knows it. The running task and its
//! start are kept in a slot per CPU, so that a reader can add the running slice.
//!
//! No program sees every switch: one is skipped if it would nest, and some hosts run none while
//! their first process is current. So the CPU time of a thread when it last left a CPU is stored,
//! and a slice whose start was not seen is the increase since then.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![allow(unsafe_code, reason = "a BPF program reads kernel memory; the verifier proves each read")]

#[cfg(not(target_arch = "bpf"))]
fn main() {}

#[cfg(target_arch = "bpf")]
mod program {
    use aya_ebpf::bindings::BPF_NOEXIST;
    use aya_ebpf::helpers::generated::bpf_ktime_get_ns;
    use aya_ebpf::macros::map;
    use aya_ebpf::maps::{Array, PerCpuArray, PerCpuHashMap};
    use core::ptr::write_volatile;
    use monitor_ebpf::abi::Owner;
    use monitor_ebpf::abi::exact_cpu::RunningTask;
    use monitor_ebpf::kernel::{loss, queue, task::Task};

    /// The loader sets the size. Preallocated: a row is made while the run queue is locked.
    #[map]
    static ON_CPU: PerCpuHashMap<Owner, u64> = PerCpuHashMap::with_max_entries(4096, 0);
    #[map]
    static RUNNING: PerCpuArray<RunningTask> = PerCpuArray::with_max_entries(1, 0);

    /// CPU time of threads when they last left a CPU, by id; the later of two colliding threads
    /// stays.
    #[map]
    static LAST_RUNS: Array<LastRun> = Array::with_max_entries(N_LAST_RUNS, 0);
    const N_LAST_RUNS: u32 = 4096;

    /// Two CPUs may write an element at once, so the fields verify each other: a torn element
    /// matches no thread.
    #[repr(C)]
    struct LastRun {
        /// Address of the thread: one that takes over the id of its leader is not the leader.
        task: u64,
        exec_ns: u64,
        /// `exec_ns` XOR the thread's tag.
        proof: u64,
    }

    /// `(preempt, prev, next, …)`, with the run queue locked.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "tp_btf/sched_switch")]
    fn switch(&[_, prev, next]: &[u64; 3]) -> i32 {
        let (Some(prev), Some(next)) = (Task::from_argument(prev), Task::from_argument(next))
        else {
            return 0;
        };
        let Some(slot) = RUNNING.get_ptr_mut(0) else { return 0 };
        loss::event();
        // SAFETY: only this CPU writes its slot, and a switch does not happen within a switch.
        let slot = unsafe { &mut *slot };
        let slice = slice(slot, prev);
        save_last_run(prev);
        set_task(slot, 0);
        if let Some((owner, slice_ns)) = slice
            && owner.tgid != 0
        {
            add(&owner, slice_ns);
        }
        slot.owner = next.owner();
        slot.exec_ns = next.exec_ns();
        // SAFETY: the helper has no arguments.
        slot.since_ns = unsafe { bpf_ktime_get_ns() };
        set_task(slot, next.as_ptr() as u64);
        0
    }

    /// Owner and length of the slice that ends; `None` if it started before the hook was attached.
    #[inline(always)]
    fn slice(slot: &RunningTask, prev: Task) -> Option<(Owner, u64)> {
        if slot.task == prev.as_ptr() as u64 {
            return Some((slot.owner, prev.exec_ns() - slot.exec_ns));
        }
        if slot.task == 0 {
            return None;
        }
        // The idle tasks, one per CPU with id 0, are not counted.
        if prev.tid() == 0 {
            return None;
        }
        let slice_ns = unseen_slice_ns(prev);
        if slice_ns.is_none() {
            loss::table_full();
        }
        Some((prev.owner(), slice_ns?))
    }

    /// The slice of a thread whose start was not seen.
    #[inline(always)]
    fn unseen_slice_ns(prev: Task) -> Option<u64> {
        let exec_ns = prev.exec_ns();
        if queue::is_first_slice(prev) {
            return Some(exec_ns);
        }
        if let Some(left) = LAST_RUNS.get_ptr(index(prev)) {
            // SAFETY: the element lives as long as the map; a torn element matches no thread.
            let left = unsafe { &*left };
            let is_same_task = left.task == prev.as_ptr() as u64;
            if is_same_task && left.exec_ns ^ left.proof == thread_tag(prev) {
                return Some(exec_ns.wrapping_sub(left.exec_ns));
            }
        }
        queue::slice_ns(prev)
    }

    /// Stores the CPU time of a thread that leaves the CPU.
    #[inline(always)]
    fn save_last_run(prev: Task) {
        if let Some(left) = LAST_RUNS.get_ptr_mut(index(prev)) {
            let (task, exec_ns) = (prev.as_ptr() as u64, prev.exec_ns());
            let proof = exec_ns ^ thread_tag(prev);
            // SAFETY: the element lives as long as the map; a torn element matches no thread.
            unsafe { *left = LastRun { task, exec_ns, proof } };
        }
    }

    #[inline(always)]
    fn index(task: Task) -> u32 {
        task.tid() % N_LAST_RUNS
    }

    /// Tag that distinguishes a thread from others at its address.
    #[inline(always)]
    fn thread_tag(task: Task) -> u64 {
        (u64::from(task.tid()) << 32) ^ task.start_boottime_ns()
    }

    /// Sets the task of a slot; zero while it changes, so that a reader retries. Volatile, so that
    /// the compiler keeps the order.
    #[inline(always)]
    fn set_task(slot: &mut RunningTask, task: u64) {
        // SAFETY: a `&mut u64` is valid.
        unsafe { write_volatile(&raw mut slot.task, task) }
    }

    #[inline(always)]
    fn add(owner: &Owner, slice_ns: u64) {
        if let Some(row) = ON_CPU.get_ptr_mut(owner) {
            // SAFETY: this CPU's own number; rows are removed only after their process ended.
            unsafe { *row += slice_ns };
            return;
        }
        // Another CPU may make the row at the same time: its number there, ours here.
        if ON_CPU.insert(owner, &slice_ns, u64::from(BPF_NOEXIST)).is_ok() {
            return;
        }
        match ON_CPU.get_ptr_mut(owner) {
            // SAFETY: as above.
            Some(row) => unsafe { *row += slice_ns },
            None => loss::table_full(),
        }
    }

    monitor_ebpf::object!();
}
