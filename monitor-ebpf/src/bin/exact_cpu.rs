//! CPU time counted at each switch, by process and CPU.
//!
//! As a thread is switched out, the kernel has just brought its CPU time up to the present: what
//! it grew by since the thread was switched in is the slice, less what a hypervisor stole where
//! the kernel knows it. Who runs now and since when stays in a slot of the CPU, so that a reader
//! can add the slice that is not over.
//!
//! No program sees every switch: one is skipped where it would nest, and some hosts run none while
//! their first process is current. So what a thread had run as it last left a CPU is remembered,
//! and a slice that began unseen is what it has run more since then.
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
    use monitor_ebpf::abi::exact_cpu::Running;
    use monitor_ebpf::kernel::{loss, queue, task::Task};

    /// The loader sets the size. Preallocated: a row is made while the run queue is locked.
    #[map]
    static ON_CPU: PerCpuHashMap<Owner, u64> = PerCpuHashMap::with_max_entries(4096, 0);
    #[map]
    static RUNNING: PerCpuArray<Running> = PerCpuArray::with_max_entries(1, 0);

    /// What threads had run as they last left a CPU, by id; the later of two that meet stays.
    #[map]
    static LEFT: Array<Left> = Array::with_max_entries(N_LEFT, 0);
    const N_LEFT: u32 = 4096;

    /// Two CPUs may write a place at once, so the numbers prove each other: what is torn fits no
    /// thread.
    #[repr(C)]
    struct Left {
        /// Address of the thread: one that takes over the id of its leader is not the leader.
        task: u64,
        exec_ns: u64,
        /// `exec_ns`, exclusive or the name of the thread.
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
        leave(prev);
        name(slot, 0);
        if let Some((owner, slice_ns)) = slice
            && owner.tgid != 0
        {
            add(&owner, slice_ns);
        }
        slot.owner = next.owner();
        slot.exec_ns = next.exec_ns();
        // SAFETY: the helper has no arguments.
        slot.since_ns = unsafe { bpf_ktime_get_ns() };
        name(slot, next.as_ptr() as u64);
        0
    }

    /// Whose slice is over, and how long it was; `None` if it began before we looked.
    #[inline(always)]
    fn slice(slot: &Running, prev: Task) -> Option<(Owner, u64)> {
        if slot.task == prev.as_ptr() as u64 {
            return Some((slot.owner, prev.exec_ns() - slot.exec_ns));
        }
        if slot.task == 0 {
            return None;
        }
        // The idle task, which is one for each CPU and has no id, is nobody's time.
        if prev.tid() == 0 {
            return None;
        }
        let slice_ns = unseen_slice_ns(prev);
        if slice_ns.is_none() {
            loss::table_full();
        }
        Some((prev.owner(), slice_ns?))
    }

    /// The slice of a thread that was switched in unseen.
    #[inline(always)]
    fn unseen_slice_ns(prev: Task) -> Option<u64> {
        let exec_ns = prev.exec_ns();
        if queue::is_first_slice(prev) {
            return Some(exec_ns);
        }
        if let Some(left) = LEFT.get_ptr(place(prev)) {
            // SAFETY: the element lives as long as the map; what is torn fits no thread.
            let left = unsafe { &*left };
            let is_its_own = left.task == prev.as_ptr() as u64;
            if is_its_own && left.exec_ns ^ left.proof == thread_name(prev) {
                return Some(exec_ns.wrapping_sub(left.exec_ns));
            }
        }
        queue::slice_ns(prev)
    }

    /// Remembers what a thread had run as it left.
    #[inline(always)]
    fn leave(prev: Task) {
        if let Some(left) = LEFT.get_ptr_mut(place(prev)) {
            let (task, exec_ns) = (prev.as_ptr() as u64, prev.exec_ns());
            let proof = exec_ns ^ thread_name(prev);
            // SAFETY: the element lives as long as the map; what is torn fits no thread.
            unsafe { *left = Left { task, exec_ns, proof } };
        }
    }

    #[inline(always)]
    fn place(task: Task) -> u32 {
        task.tid() % N_LEFT
    }

    /// What no other thread is called at its address.
    #[inline(always)]
    fn thread_name(task: Task) -> u64 {
        (u64::from(task.tid()) << 32) ^ task.start_boottime_ns()
    }

    /// Names the task of a slot; none while it changes, so that a reader comes again. Volatile:
    /// the compiler keeps the order.
    #[inline(always)]
    fn name(slot: &mut Running, task: u64) {
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
