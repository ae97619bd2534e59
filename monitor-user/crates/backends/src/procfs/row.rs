//! Sets the fields of a row from parsed texts of `/proc`.
//!
//! In: parsed texts. Out: slots set in a `ProcessRow`, or a new row with its identity; what is not
//! in the text stays absent. Reads and stores nothing.

use super::sums::Sums;
use monitor_model::{Identity, Ns, Pid, Process, ProcessRow, field::ProcessField as F};
use monitor_proc::{io::Io, stat::Stat, status::Status};

/// A process or thread with its identity and name.
pub fn named(id: u32, stat: &Stat, tick_ns: u64) -> Process {
    let start = Ns(stat.start_ticks.saturating_mul(tick_ns));
    let mut it =
        Process { id: Identity { pid: Pid(id), start }, comm: stat.comm, ..Process::default() };
    it.row.set(F::Pid, u64::from(id));
    it
}

/// Sets what processes and threads have in `stat`; times in ticks of `tick_ns`.
pub fn set_stat(row: &mut ProcessRow, stat: &Stat, tick_ns: u64) {
    row.set(F::Ppid, stat.ppid);
    row.set(F::State, u64::from(stat.state));
    row.set_signed(F::Priority, stat.priority);
    row.set_signed(F::Nice, stat.nice);
    row.set(F::Policy, stat.policy);
    row.set(F::Processor, stat.processor);
    row.set(F::KernelThread, u64::from(stat.kernel_thread()));
    row.set(F::StartTime, stat.start_ticks.saturating_mul(tick_ns));
    row.set(F::UserTime, stat.user_ticks.saturating_mul(tick_ns));
    row.set(F::SystemTime, stat.system_ticks.saturating_mul(tick_ns));
    row.set(F::MinorFaults, stat.minor_faults);
    row.set(F::MajorFaults, stat.major_faults);
}

/// Sets owner and memory.
pub fn set_status(row: &mut ProcessRow, status: &Status) {
    row.set(F::Uid, status.uid);
    row.set(F::Gid, status.gid);
    row.set_some(F::NsPid, status.ns_pid);
    let memory = &status.memory;
    row.set_some(F::Rss, memory.rss);
    row.set_some(F::RssAnon, memory.rss_anon);
    row.set_some(F::RssFile, memory.rss_file);
    row.set_some(F::RssShmem, memory.rss_shmem);
    row.set_some(F::Swap, memory.swap);
    row.set_some(F::Vsize, memory.vsize);
    row.set_some(F::PeakRss, memory.peak_rss);
    row.set_some(F::PeakVsize, memory.peak_vsize);
}

/// Sets I/O counters.
pub fn set_io(row: &mut ProcessRow, io: &Io) {
    row.set(F::ReadBytes, io.read_bytes);
    row.set(F::WrittenBytes, io.written_bytes);
    row.set(F::CancelledBytes, io.cancelled_bytes);
    row.set(F::ReadCalls, io.read_calls);
    row.set(F::WriteCalls, io.write_calls);
    row.set(F::ReadChars, io.read_chars);
    row.set(F::WrittenChars, io.written_chars);
}

/// Sets the run-queue delay.
pub fn set_delay(row: &mut ProcessRow, sums: &Sums) {
    row.set(F::RunDelay, sums.sched.delay_ns);
    row.set(F::RunCount, sums.sched.runs);
}

/// Sets context switches.
pub fn set_switches(row: &mut ProcessRow, sums: &Sums) {
    row.set(F::VoluntarySwitches, sums.switches.voluntary);
    row.set(F::InvoluntarySwitches, sums.switches.involuntary);
}
