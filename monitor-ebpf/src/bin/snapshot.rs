//! Every task of the node in one iteration: `iter/task` programs and the stream that they write.
//!
//! `snapshot` writes a `ProcessRecord` for each leader and a `ThreadRecord` for each other thread.
//! `learn` runs once, before the first snapshot; `empty` only in the bench.
//! Nothing runs between readings.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![allow(unsafe_code, reason = "a program's section and its panic handler are unsafe attributes")]

#[cfg(not(target_arch = "bpf"))]
fn main() {}

#[cfg(target_arch = "bpf")]
mod program {
    use monitor_ebpf::abi::task::{ProcessRecord, ThreadRecord};
    use monitor_ebpf::kernel::iter::Step;
    use monitor_ebpf::kernel::scratch::Scratch;
    use monitor_ebpf::kernel::{rss, task::Task};
    use zerocopy::FromZeros;

    /// Too large for the 512-byte stack.
    static PROCESS: Scratch<ProcessRecord> = Scratch::new(ProcessRecord::ZERO);

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "iter/task")]
    fn snapshot(step: &Step) -> i32 {
        match step.task() {
            Some(task) if task.is_leader() => process(step, task),
            Some(task) => thread(step, task),
            None => {}
        }
        0
    }

    #[inline(always)]
    fn process(step: &Step, task: Task) {
        let record = PROCESS.get();
        let parts = task.parts();
        task.fetch(parts);
        task.read_thread(&mut record.leader);
        // Its loops first: after branches the verifier of 6.1 checks them once for each way there.
        task.read_memory(parts, record);
        task.read_group(parts, record);
        step.meta.write(record);
    }

    #[inline(always)]
    fn thread(step: &Step, task: Task) {
        let mut record = ThreadRecord::new_zeroed();
        task.read_thread(&mut record);
        step.meta.write(&record);
    }

    #[unsafe(no_mangle)]
    #[unsafe(link_section = "iter/task")]
    fn learn(step: &Step) -> i32 {
        if step.meta.seq_num == 0 {
            rss::learn_cpu_offsets();
        }
        0
    }

    /// Cost of the iteration itself, without reading tasks: the baseline of the bench for
    /// `snapshot`. Never loaded by the monitor itself.
    #[unsafe(no_mangle)]
    #[unsafe(link_section = "iter/task")]
    fn empty(_: &Step) -> i32 {
        0
    }

    monitor_ebpf::object!();
}
