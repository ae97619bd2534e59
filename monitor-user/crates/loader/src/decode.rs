//! Decodes records of the kernel half into rows of the model: fields, units, and sums over threads.
//! Pure functions.

use monitor_ebpf::abi::Owner;
use monitor_ebpf::abi::lifecycle::{ExitRecord, KIND_EXIT, KIND_FREE, ReleasedRecord, ThreadWaits};
use monitor_ebpf::abi::task::{self, GROUP_EXIT, ON_CPU, Sums, ThreadRecord};
use monitor_model::{Identity, Ns, Pid, Process, ProcessRow, field::ProcessField as F};
use monitor_sys::pidfd;

/// `PF_EXITING` of include/linux/sched.h.
const PF_EXITING: u32 = 4;
/// `EXIT_DEAD | EXIT_ZOMBIE` of include/linux/sched.h.
const EXITED: u32 = 0x30;
/// `PF_KTHREAD` of include/linux/sched.h.
const PF_KTHREAD: u32 = 0x20_0000;
/// A thread that ran without ticks is counted once a second.
const LONGEST_TICK_NS: u64 = 1_000_000_000;
/// Kernel priorities below this are real-time (`MAX_RT_PRIO`).
const MAX_RT_PRIO: i64 = 100;
/// `static_prio` of nice 0 (`DEFAULT_PRIO`).
const DEFAULT_PRIO: i64 = 120;

/// Whether rows of threads are returned, or only their sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadRows {
    /// A row for each.
    Kept,
    /// Only sums.
    Summed,
}

/// Identity of the owner in a record of the kernel half.
pub const fn identity(owner: Owner) -> Identity {
    Identity { pid: Pid(owner.tgid), start: Ns(owner.start_boottime_ns) }
}

/// A live process: the sums of its ended threads plus those of its live ones. `threads` are those
/// besides the leader, in the order of their ids.
pub fn living(
    record: &task::ProcessRecord,
    threads: &[&ThreadRecord],
    keep: ThreadRows,
) -> Process {
    let leader = &record.leader;
    let (mut used, mut waited) = (record.dead, add_waits(&ThreadWaits::NONE, leader));
    // Of a process that was released meanwhile, the leader is among the ended threads.
    if record.threads > 0 {
        used.add(&leader.sums);
    }
    for thread in threads {
        used.add(&thread.sums);
        // The waits of an ended one were added to those of its process as it ended.
        if thread.state & EXITED == 0 {
            waited = add_waits(&waited, thread);
        }
    }
    let mut it = process(record, &used, &waited);
    if it.is_zombie() {
        it.row.set(F::ExitCode, exit_code(record));
        it.row.set(F::PeakRss, record.peak_rss_pages * page_bytes());
    }
    if keep == ThreadRows::Kept {
        // After a wrap-around an id can be lower than the leader's.
        let (lower, higher) = threads.split_at(threads.partition_point(|it| it.tid < leader.tid));
        it.threads = lower.iter().chain([&leader]).chain(higher).map(|it| thread(it)).collect();
    }
    it
}

/// A process with these totals.
fn process(record: &task::ProcessRecord, used: &Sums, waited: &ThreadWaits) -> Process {
    let leader = &record.leader;
    let mut it = Process {
        id: identity(leader.owner()),
        comm: leader.comm,
        readable_by_owner: record.readable_by_owner == 1,
        exiting: leader.flags & PF_EXITING != 0,
        ..Process::default()
    };
    let row = &mut it.row;
    row.set(F::Pid, u64::from(leader.tgid));
    row.set(F::Ppid, u64::from(record.ppid));
    row.set(F::Uid, u64::from(record.uid));
    row.set(F::Gid, u64::from(record.gid));
    row.set(F::Threads, u64::from(record.threads));
    row.set(F::CgroupId, record.cgroup_id);
    row.set(F::ExecId, u64::from(record.exec_id));
    if record.ns_pid != 0 {
        row.set(F::NsPid, u64::from(record.ns_pid));
    }
    schedule(row, leader);
    memory(row, record);
    usage(row, used, waited);
    it
}

/// Adds a thread's waits.
const fn add_waits(waited: &ThreadWaits, thread: &ThreadRecord) -> ThreadWaits {
    ThreadWaits {
        run_delay_ns: waited.run_delay_ns.wrapping_add(thread.run_delay_ns),
        run_count: waited.run_count.wrapping_add(thread.run_count),
    }
}

/// An ended process with its totals, from its final record or its exit record.
pub fn ended(end: &ExitRecord) -> Process {
    let record = &end.process;
    let is_exit_record = end.kind == KIND_EXIT;
    let mut used = record.dead;
    if is_exit_record {
        used.add(&record.leader.sums);
    }
    let mut it = process(record, &used, &add_waits(&end.waited, &record.leader));
    if is_exit_record {
        it.row.set(F::Approximate, 1);
    }
    it.row.add(F::CpuTime, end.missing_ns);
    it.row.set(F::EndedThreads, end.ended_threads);
    it.row.set(F::Ended, 1);
    it.row.set(F::ExitCode, exit_code(record));
    it.row.set(F::PeakRss, end.max_rss_pages * page_bytes());
    it.row.clear(F::Threads);
    it
}

/// Sets the totals of a process that its parent has waited for, and that was not freed at this
/// time. A total that its threads cannot have reached since its exit is of reused memory, which is
/// possible if the program that reports the end did not run.
pub fn set_released(exit: &mut ExitRecord, released: &ReleasedRecord, at: Ns) {
    let mut before = exit.process.dead;
    before.add(&exit.process.leader.sums);
    let each = at.since(Ns(exit.at_boottime_ns)).0.saturating_add(LONGEST_TICK_NS);
    let most = each.saturating_mul(u64::from(exit.process.threads.max(1)));
    let grown = released.sums.exec_ns.checked_sub(before.exec_ns);
    if exit.kind == KIND_EXIT && grown.is_some_and(|grown| grown <= most) {
        exit.kind = KIND_FREE;
        exit.process.dead = released.sums;
        exit.process.leader.run_delay_ns = released.waited.run_delay_ns;
        exit.process.leader.run_count = released.waited.run_count;
    }
}

/// The row of a thread.
fn thread(record: &ThreadRecord) -> Process {
    let id = Identity { pid: Pid(record.tid), start: Ns(record.start_boottime_ns) };
    let mut it = Process { id, comm: record.comm, ..Process::default() };
    it.row.set(F::Pid, u64::from(record.tgid));
    it.row.set(F::Tid, u64::from(record.tid));
    schedule(&mut it.row, record);
    usage(&mut it.row, &record.sums, &add_waits(&ThreadWaits::NONE, record));
    it
}

fn usage(row: &mut ProcessRow, used: &Sums, waited: &ThreadWaits) {
    row.set(F::CpuTime, used.exec_ns);
    row.set(F::UserTime, used.user_ns);
    row.set(F::SystemTime, used.system_ns);
    row.set(F::VoluntarySwitches, used.voluntary_switches);
    row.set(F::InvoluntarySwitches, used.involuntary_switches);
    row.set(F::MinorFaults, used.minor_faults);
    row.set(F::MajorFaults, used.major_faults);
    for (field, amount) in F::IO.into_iter().zip(used.io) {
        row.set(field, amount);
    }
    row.set(F::RunDelay, waited.run_delay_ns);
    row.set(F::RunCount, waited.run_count);
}

fn schedule(row: &mut ProcessRow, thread: &ThreadRecord) {
    row.set(F::StartTime, thread.start_boottime_ns);
    row.set(F::State, u64::from(state_letter(thread.state)));
    row.set_signed(F::Priority, i64::from(thread.priority.cast_signed()) - MAX_RT_PRIO);
    row.set_signed(F::Nice, i64::from(thread.static_priority) - DEFAULT_PRIO);
    row.set(F::Policy, u64::from(thread.policy));
    row.set(F::Processor, u64::from(thread.processor));
    row.set(F::KernelThread, u64::from(thread.flags & PF_KTHREAD != 0));
}

fn memory(row: &mut ProcessRow, record: &task::ProcessRecord) {
    if record.has_memory == 0 {
        return; // A kernel thread, or ended: absent, not zero.
    }
    let page = page_bytes();
    let [file, anon, swap, shmem] =
        record.rss_pages.map(|pages| u64::try_from(pages).unwrap_or(0) * page);
    let rss = file + anon + shmem;
    row.set(F::Rss, rss);
    row.set(F::RssFile, file);
    row.set(F::RssAnon, anon);
    row.set(F::RssShmem, shmem);
    row.set(F::Swap, swap);
    let vsize = record.vsize_pages * page;
    row.set(F::Vsize, vsize);
    // The kernel updates the peak only when memory shrinks, so the current size may be higher.
    row.set(F::PeakVsize, vsize.max(record.peak_vsize_pages * page));
    row.set(F::PeakRss, rss.max(record.peak_rss_pages * page));
}

fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// Exit code as reported by `wait(2)`: the group's if the whole group was ended.
fn exit_code(record: &task::ProcessRecord) -> u64 {
    let grouped = record.group_flags & GROUP_EXIT != 0;
    pidfd::exit_code(if grouped { record.group_exit_code } else { record.leader.exit_code })
}

/// The letter of `task_state_to_char` (include/linux/sched.h).
fn state_letter(state: u32) -> u8 {
    /// `TASK_UNINTERRUPTIBLE | TASK_NOLOAD`: idle kernel threads.
    const IDLE: u32 = 0x402;
    /// `TASK_RTLOCK_WAIT | TASK_FROZEN`: waiting, whatever the other bits say.
    const WAITING: u32 = 0x9000;
    const EXIT_ZOMBIE: u32 = 0x20;
    if state & IDLE == IDLE {
        return b'I';
    }
    // A zombie runs until it leaves its processor for the last time.
    if state & ON_CPU != 0 && state & EXIT_ZOMBIE != 0 {
        return b'R';
    }
    if state & WAITING != 0 {
        return b'D';
    }
    // The highest of the seven reported bits counts; none of them is running.
    match (state & 0x7f).checked_ilog2() {
        None => b'R',
        Some(bit) => b"SDTtXZP"[bit as usize],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_spelled_as_ps_spells_them() {
        let letters = [0, 1, 2, 4, 8, 0x10, 0x20, 0x402, 0x8000].map(state_letter);
        assert_eq!(&letters, b"RSDTtXZID");
        assert_eq!([1, 0xa0].map(|state| state_letter(state | ON_CPU)), *b"SR");
    }

    #[test]
    fn a_zombie_has_its_exit_code_when_its_last_thread_has_left_the_processor() {
        let zombie = |threads, state| {
            let mut record = task::ProcessRecord { threads, ..Default::default() };
            (record.leader.state, record.leader.exit_code) = (state, 7 << 8);
            let it = living(&record, &[], ThreadRows::Summed);
            (it.is_zombie(), it.row.get(F::ExitCode))
        };
        assert_eq!(zombie(1, 0xa0), (true, Some(7)));
        assert_eq!(zombie(1, 0xa0 | ON_CPU), (false, None));
        assert_eq!(zombie(2, 0xa0), (false, None));
        assert_eq!(zombie(1, 0), (false, None));
    }

    #[test]
    fn a_deadline_thread_has_the_priority_that_proc_shows() {
        let mut row = ProcessRow::default();
        // `MAX_DL_PRIO` - 1 of include/linux/sched/deadline.h.
        let thread = ThreadRecord { priority: (-1_i32).cast_unsigned(), ..ThreadRecord::default() };
        schedule(&mut row, &thread);
        assert_eq!(row.value(F::Priority), Some(monitor_model::FieldValue::Signed(-101)));
    }

    #[test]
    fn totals_of_a_released_process_are_those_that_it_can_have_reached() {
        let mut exit = ExitRecord { kind: KIND_EXIT, at_boottime_ns: 100, ..ExitRecord::ZERO };
        (exit.process.dead.exec_ns, exit.process.leader.sums.exec_ns) = (30, 12);
        let cpu = |released_ns| {
            let sums = Sums { exec_ns: released_ns, ..Sums::default() };
            let released =
                ReleasedRecord { owner: Owner::default(), sums, waited: ThreadWaits::NONE };
            let mut exit = exit;
            set_released(&mut exit, &released, Ns(150));
            ended(&exit).row.get(F::CpuTime)
        };
        assert_eq!(cpu(60), Some(60));
        assert_eq!(cpu(41), Some(42));
        assert_eq!(cpu(42 + 50 + LONGEST_TICK_NS + 1), Some(42));
    }

    #[test]
    fn a_signal_gives_128_and_its_number() {
        let mut record = task::ProcessRecord::default();
        record.leader.exit_code = 3 << 8;
        assert_eq!(exit_code(&record), 3);
        record.group_flags = GROUP_EXIT;
        record.group_exit_code = 9;
        assert_eq!(exit_code(&record), 137);
    }
}
