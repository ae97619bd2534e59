//! Every task of the node in one pass: `iter/task` programs and the stream that they write.
//!
//! `snapshot` writes a `Process` for each leader and a `Thread` for each other thread.
//! `learn` runs once, before the first snapshot; `empty` only in the bench.
//! Nothing runs between readings.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![allow(unsafe_code, reason = "a BPF program reads kernel memory; the verifier proves each read")]

#[cfg(not(target_arch = "bpf"))]
fn main() {}

#[cfg(target_arch = "bpf")]
mod program {
    use monitor_ebpf::abi::task::{Process, Thread};
    use monitor_ebpf::kernel::{iter, rss, task::Task};

    /// `struct bpf_iter__task`.
    #[repr(C)]
    struct Step {
        meta: *const iter::Meta,
        task: *const u8,
    }

    /// Too large for the 512-byte stack. One reader at a time: the loader's iterator is its own.
    static mut PROCESS: Process = zeroed();

    const fn zeroed() -> Process {
        // SAFETY: all members are integers.
        unsafe { core::mem::zeroed() }
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "iter/task")]
    fn snapshot(step: *const Step) -> i32 {
        // SAFETY: the kernel passes a valid context; `task` is null after the last one.
        let (meta, task) = unsafe { ((*step).meta, (*step).task) };
        let Some(task) = Task::from_kernel(task) else { return 0 };
        if task.is_leader() {
            process(meta, task)
        } else {
            thread(meta, task)
        }
        0
    }

    #[inline(always)]
    fn process(meta: *const iter::Meta, task: Task) {
        // SAFETY: only this function uses it, and no two passes run at once.
        let record = unsafe { &mut *(&raw mut PROCESS) };
        task.read_thread(&mut record.leader);
        task.read_group(record);
        task.read_memory(record);
        iter::write(meta, record);
    }

    #[inline(always)]
    fn thread(meta: *const iter::Meta, task: Task) {
        // SAFETY: all members are integers.
        let mut record: Thread = unsafe { core::mem::zeroed() };
        task.read_thread(&mut record);
        iter::write(meta, &record);
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "iter/task")]
    fn learn(step: *const Step) -> i32 {
        // SAFETY: the kernel passes a valid context.
        if unsafe { (*(*step).meta).seq_num } == 0 {
            rss::learn_cpu_offsets();
        }
        0
    }

    /// What walking over all tasks costs if nobody looks at them: the floor that the bench
    /// compares `snapshot` with. The monitor itself never loads it.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "iter/task")]
    fn empty(_: *const Step) -> i32 {
        0
    }

    monitor_ebpf::object!();
}
