//! Every task of the node in one iteration: `iter/task` programs and the stream that they write.
//!
//! `snapshot` writes a `ProcessRecord` for each leader and a `ThreadRecord` for each other thread;
//! a `SameRecord`, if the reader has that record since its last reading.
//! `learn` runs once, before the first snapshot; `empty` only in the bench.
//! Nothing runs between readings.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![allow(unsafe_code, reason = "a program's section and its panic handler are unsafe attributes")]

#[cfg(not(target_arch = "bpf"))]
fn main() {}

#[cfg(target_arch = "bpf")]
mod program {
    use aya_ebpf::{macros::map, maps::Array};
    use monitor_ebpf::abi::task::{KIND_SAME_PROCESS, KIND_SAME_THREAD};
    use monitor_ebpf::abi::task::{ProcessRecord, SameRecord, SeenTask, ThreadRecord};
    use monitor_ebpf::kernel::constant;
    use monitor_ebpf::kernel::iter::Step;
    use monitor_ebpf::kernel::scratch::Scratch;
    use monitor_ebpf::kernel::seen::{Mark, Seen};
    use monitor_ebpf::kernel::{rss, task::Task};
    use zerocopy::FromZeros;

    /// Too large for the 512-byte stack.
    static PROCESS: Scratch<ProcessRecord> = Scratch::new(ProcessRecord::ZERO);

    /// Set by the loader: the number of rows of [`SEEN`], a power of two.
    #[unsafe(no_mangle)]
    static SEEN_ROWS: u32 = 1;

    #[map]
    static SEEN: Array<SeenTask> = Array::with_max_entries(1, 0);
    #[map]
    static EPOCH: Array<u32> = Array::with_max_entries(1, 0);

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

    /// What only its own threads can change is not read of a process without other threads that has
    /// not run.
    #[inline(always)]
    fn process(step: &Step, task: Task) {
        let record = PROCESS.get();
        let parts = task.parts();
        task.fetch(parts);
        task.read_thread(&mut record.leader);
        // Pointers and loops first: after a branch the verifier checks them for each way there.
        task.read_place(record);
        task.read_memory(parts, record);
        let mark = Mark::of_thread(&record.leader).and_process(record, parts.access.mark());
        let tid = record.leader.tid;
        let seen = seen(tid);
        if seen.as_ref().is_some_and(|it| it.is_alone() && it.has(mark)) {
            return write_same(step, KIND_SAME_PROCESS, tid);
        }
        Task::read_group(parts, record);
        let is_alone = record.threads == 1;
        let mark = if is_alone { mark } else { mark.and_group(record) };
        if seen.as_ref().is_some_and(|it| !is_alone && it.has(mark)) {
            return write_same(step, KIND_SAME_PROCESS, tid);
        }
        if step.meta.write(record)
            && let Some(seen) = seen
        {
            seen.set(mark, is_alone);
        }
    }

    #[inline(always)]
    fn thread(step: &Step, task: Task) {
        let mut record = ThreadRecord::new_zeroed();
        task.read_thread(&mut record);
        let mark = Mark::of_thread(&record);
        let seen = seen(record.tid);
        if seen.as_ref().is_some_and(|it| it.has(mark)) {
            return write_same(step, KIND_SAME_THREAD, record.tid);
        }
        if step.meta.write(&record)
            && let Some(seen) = seen
        {
            seen.set(mark, false);
        }
    }

    /// What is kept of the task with this id, if the reader keeps records.
    #[inline(always)]
    fn seen(tid: u32) -> Option<Seen> {
        let epoch = *EPOCH.get(0)?;
        if epoch == 0 {
            return None;
        }
        let row = SEEN.get_ptr_mut(tid & constant!(SEEN_ROWS).wrapping_sub(1))?;
        Some(Seen { row, epoch })
    }

    /// The reader has this record.
    #[inline(always)]
    fn write_same(step: &Step, kind: u32, tid: u32) {
        let _ = step.meta.write(&SameRecord { kind, tid });
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
