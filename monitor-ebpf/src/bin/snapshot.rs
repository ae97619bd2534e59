//! Every task of the node in one pass: `iter/task` programs and the stream that they write.
//!
//! `snapshot` writes a `Process` for each leader and a `Thread` for each other thread.
//! `learn` runs once, before the first snapshot. Nothing runs between readings.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![allow(unsafe_code, reason = "a BPF program reads kernel memory; the verifier proves each read")]

#[cfg(not(target_arch = "bpf"))]
fn main() {}

#[cfg(target_arch = "bpf")]
mod program {
    use monitor_ebpf::abi::task::{Process, Thread};
    use monitor_ebpf::kernel::{iterator::Step, rss, task::Task};

    /// Too large for the 512-byte stack. One reader at a time: the loader's iterator is its own.
    static mut PROCESS: Process = zeroed();

    const fn zeroed() -> Process {
        // SAFETY: all members are integers.
        unsafe { core::mem::zeroed() }
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "iter/task")]
    fn snapshot(step: &Step) -> i32 {
        let Some(task) = step.task() else { return 0 };
        if task.is_leader() {
            process(step, task)
        } else {
            thread(step, task)
        }
        0
    }

    #[inline(always)]
    fn process(step: &Step, task: Task) {
        // SAFETY: only this function uses it, and no two passes run at once.
        let record = unsafe { &mut *(&raw mut PROCESS) };
        task.read_thread(&mut record.leader);
        task.read_group(record);
        task.read_memory(record);
        step.write(record);
    }

    #[inline(always)]
    fn thread(step: &Step, task: Task) {
        // SAFETY: all members are integers.
        let mut record: Thread = unsafe { core::mem::zeroed() };
        task.read_thread(&mut record);
        step.write(&record);
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "iter/task")]
    fn learn(step: &Step) -> i32 {
        if step.is_first() {
            rss::learn_cpu_offsets();
        }
        0
    }

    monitor_ebpf::object!();
}
