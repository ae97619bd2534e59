//! An iteration over every task, and the decoding of its records.
//!
//! In: the byte stream of `iter/task`. Out: processes with their totals: the sums of ended threads
//! plus each live thread. A reading costs one iteration; nothing runs in between.

use crate::decode::{self, ThreadRows};
use crate::iter_reader::{IterBuffer, IterProgram};
use crate::{kernel::Kernel, object::Object};
use monitor_backend::Error;
use monitor_ebpf::abi::task::{self, KIND_PROCESS, KIND_THREAD, RSS_CPUS};
use monitor_model::{Ns, Pid, Process, field::ProcessField as F};
use monitor_sys::clock;
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// Determines the per-CPU offsets of resident page counts; for every object that reads them.
pub const LEARN: IterProgram = IterProgram { name: "learn", walks: "task", map: None };
const SNAPSHOT: IterProgram = IterProgram { name: "snapshot", walks: "task", map: None };

/// The loaded iterator and the buffer it is read into.
pub struct Snapshot {
    /// The loaded object.
    pub object: Object,
    buffer: IterBuffer,
    /// Whether resident sizes include the per-CPU parts.
    pub exact_rss: bool,
    /// Number of processes in the last full iteration.
    found: usize,
    /// Whether this kernel can iterate over a single process, with the pids that we use.
    iterates_one: bool,
}

/// How often a process is read again whose threads end meanwhile.
const AGAIN: usize = 2;

/// Number of processes in a full iteration that cost as much as one alone (`cargo xtask bench
/// service`).
const COST_OF_ONE: usize = 16;

impl Snapshot {
    /// Loads the iterator and prepares what it needs once.
    pub fn load(kernel: &Kernel) -> Result<Self, Error> {
        let mut object =
            Object::load("snapshot", kernel, &[(RSS_CPUS, &kernel.facts.rss_cpus)], &[])?;
        LEARN.run(&mut object, kernel)?;
        SNAPSHOT.load(&mut object, &kernel.btf)?;
        object.hooks.push(SNAPSHOT.hook());
        let exact_rss = !kernel.facts.counts_rss_per_cpu() || kernel.facts.rss_cpus > 0;
        Ok(Self { object, buffer: IterBuffer::new(), exact_rss, found: 0, iterates_one: true })
    }

    /// Reads every process, from this time on; the list is in the order of identities.
    pub fn read(&mut self, keep: ThreadRows, at: Ns) -> Result<Vec<Process>, Error> {
        let stream = self.buffer.read(&mut self.object, &SNAPSHOT)?;
        let (mut processes, mut torn) = processes(stream, keep, at);
        self.found = processes.len();
        // More would cost as much as another iteration.
        let rest = torn.split_off(torn.len().min(processes.len() / COST_OF_ONE));
        for _ in 0..AGAIN {
            if torn.is_empty() || !self.iterates_one {
                break;
            }
            torn = self.read_again(&torn, keep, &mut processes);
        }
        set_approximate(torn.iter().chain(&rest), &mut processes);
        Ok(processes)
    }

    /// Reads these again, each at once; returns those that were torn again.
    fn read_again(&mut self, torn: &[Pid], keep: ThreadRows, all: &mut [Process]) -> Vec<Pid> {
        let Some((again, mut still)) = self.read_each(torn, keep) else { return torn.to_vec() };
        // A process that has ended is not there: its last row is kept.
        let is_there = |pid: &&Pid| again.iter().any(|it| it.id.pid == **pid);
        still.extend(torn.iter().filter(|pid| !is_there(pid)));
        for process in again {
            if let Ok(index) = all.binary_search_by_key(&process.id, |it| it.id) {
                all[index] = process;
            }
        }
        still.sort_unstable();
        still
    }

    /// Whether reading only these is possible, and costs less than reading all.
    pub const fn reads_few(&self, pids: &[Pid]) -> bool {
        self.iterates_one && pids.len() * COST_OF_ONE <= self.found
    }

    /// Reads only these.
    pub fn read_few(&mut self, pids: &[Pid]) -> Option<Vec<Process>> {
        let (mut processes, torn) = self.read_each(pids, ThreadRows::Summed)?;
        set_approximate(torn.iter(), &mut processes);
        Some(processes)
    }

    /// Reads each of these at once, and names those that are torn. None, and never again, if this
    /// kernel iterates over all or none, as before 6.1, or over others.
    fn read_each(&mut self, pids: &[Pid], keep: ThreadRows) -> Option<(Vec<Process>, Vec<Pid>)> {
        let at = clock::boot();
        let stream = self.buffer.read_each(&self.object, &SNAPSHOT, pids);
        let read = stream.ok().map(|stream| processes(stream, keep, at));
        self.iterates_one = read.as_ref().is_some_and(|it| are_requested(&it.0, pids));
        read.filter(|_| self.iterates_one)
    }
}

/// Whether only requested processes are in the list. The kernel looks them up in our pid namespace,
/// and returns pids of the initial one.
fn are_requested(all: &[Process], pids: &[Pid]) -> bool {
    all.iter().all(|it| pids.binary_search(&it.id.pid).is_ok())
}

/// Turns a stream of records into processes, and names those that are torn.
fn processes(stream: &[u8], keep: ThreadRows, at: Ns) -> (Vec<Process>, Vec<Pid>) {
    let (records, threads) = records(stream);
    let mut all = Vec::with_capacity(records.len());
    let mut torn = Vec::new();
    for record in records {
        let tgid = record.leader.tgid;
        let own = &threads[threads.partition_point(|thread| thread.tgid < tgid)..];
        let own = &own[..own.iter().take_while(|it| it.tgid == tgid).count()];
        torn.extend(is_torn(record, own, at).then_some(Pid(tgid)));
        all.push(decode::living(record, own, keep));
    }
    // The kernel iterates in ascending order of ids, so this is nearly sorted. An id reused during
    // the iteration, or a process whose pid moved to another thread by exec, can appear twice.
    all.sort_by_key(|process| process.id);
    all.dedup_by_key(|process| process.id);
    torn.sort_unstable();
    torn.dedup();
    (all, torn)
}

/// Marks these: their totals lack what threads used that ended while they were read. The next
/// reading has it.
fn set_approximate<'a>(torn: impl Iterator<Item = &'a Pid>, all: &mut [Process]) {
    for pid in torn {
        if let Ok(index) = all.binary_search_by_key(pid, |it| it.id.pid) {
            all[index].row.set(F::Approximate, 1);
        }
    }
}

/// Whether threads of a process ended between its record and theirs: then their counters are
/// neither among those of ended threads nor in a record. `threads` are those besides the leader,
/// and some may have started since the reading began.
fn is_torn(record: &task::ProcessRecord, threads: &[&task::ThreadRecord], at: Ns) -> bool {
    let older = threads.iter().filter(|it| it.start_boottime_ns < at.0).count();
    record.threads > 0 && older + 1 != record.threads as usize
}

/// The processes, and the threads besides their leaders, grouped by process and in the order of
/// their ids; those before the first malformed record.
fn records(mut stream: &[u8]) -> (Vec<&task::ProcessRecord>, Vec<&task::ThreadRecord>) {
    let (mut processes, mut threads) = (Vec::new(), Vec::new());
    while let Ok((kind, _)) = u32::read_from_prefix(stream) {
        let rest = match kind {
            KIND_PROCESS => take(stream, &mut processes),
            KIND_THREAD => take(stream, &mut threads),
            _ => None,
        };
        let Some(rest) = rest else { break };
        stream = rest;
    }
    threads.sort_by_key(|thread: &&task::ThreadRecord| thread.tgid);
    (processes, threads)
}

/// Moves the first record of a stream to the others; returns the rest.
fn take<'s, T: FromBytes + KnownLayout + Immutable>(
    stream: &'s [u8],
    others: &mut Vec<&'s T>,
) -> Option<&'s [u8]> {
    let (record, rest) = T::ref_from_prefix(stream).ok()?;
    others.push(record);
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;

    fn process(tgid: u32, exec_ns: u64, dead_ns: u64) -> task::ProcessRecord {
        let mut record = task::ProcessRecord::default();
        record.leader.kind = KIND_PROCESS;
        (record.leader.tid, record.leader.tgid) = (tgid, tgid);
        record.leader.sums.exec_ns = exec_ns;
        record.dead.exec_ns = dead_ns;
        record.threads = 1;
        record
    }

    fn thread(tid: u32, tgid: u32, exec_ns: u64) -> task::ThreadRecord {
        let mut record = task::ThreadRecord { kind: KIND_THREAD, tid, tgid, ..Default::default() };
        record.sums.exec_ns = exec_ns;
        record
    }

    fn aligned(parts: &[&[u8]]) -> Vec<u64> {
        let bytes = parts.concat();
        let mut words = vec![0u64; bytes.len() / 8];
        words.as_mut_bytes().copy_from_slice(&bytes);
        words
    }

    #[test]
    fn a_process_is_its_ended_threads_and_its_live_ones() {
        let stream = aligned(&[
            thread(3, 7, 10).as_bytes(), // An id after a wrap-around: before its leader.
            process(7, 100, 5).as_bytes(),
            thread(8, 7, 20).as_bytes(),
        ]);
        let all = processes(stream.as_bytes(), ThreadRows::Kept, Ns(1)).0;
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].row.get(F::CpuTime), Some(135));
        let tids: Vec<_> = all[0].threads.iter().map(|it| it.id.pid.0).collect();
        assert_eq!(tids, [3, 7, 8]);
    }

    #[test]
    fn a_process_whose_thread_ended_meanwhile_is_torn() {
        let mut leader = process(7, 100, 5);
        leader.leader.start_boottime_ns = 1;
        leader.threads = 3;
        let started = |tid, at| task::ThreadRecord { start_boottime_ns: at, ..thread(tid, 7, 1) };
        let torn = |threads: &[task::ThreadRecord]| {
            let mut parts = vec![leader.as_bytes()];
            parts.extend(threads.iter().map(IntoBytes::as_bytes));
            processes(aligned(&parts).as_bytes(), ThreadRows::Summed, Ns(50)).1
        };
        assert_eq!(torn(&[started(8, 2), started(9, 3)]), []);
        assert_eq!(torn(&[started(8, 2)]), [Pid(7)]);
        // Another one has started meanwhile.
        assert_eq!(torn(&[started(8, 2), started(10, 60)]), [Pid(7)]);
    }

    #[test]
    fn a_process_that_stays_torn_is_marked() {
        let stream = aligned(&[process(7, 1, 0).as_bytes(), process(9, 1, 0).as_bytes()]);
        let mut all = processes(stream.as_bytes(), ThreadRows::Summed, Ns(1)).0;
        set_approximate([Pid(8), Pid(9)].iter(), &mut all);
        let marked: Vec<_> = all.iter().map(|it| it.row.get(F::Approximate)).collect();
        assert_eq!(marked, [None, Some(1)]);
    }

    #[test]
    fn a_process_seen_twice_is_one() {
        let twice = process(7, 100, 0);
        let stream = aligned(&[twice.as_bytes(), twice.as_bytes()]);
        assert_eq!(processes(stream.as_bytes(), ThreadRows::Summed, Ns(1)).0.len(), 1);
    }

    #[test]
    fn a_truncated_or_malformed_stream_ends_at_the_first_bad_record() {
        let mut stream = aligned(&[process(7, 1, 0).as_bytes(), process(8, 1, 0).as_bytes()]);
        assert_eq!(processes(&stream.as_bytes()[..500], ThreadRows::Summed, Ns(1)).0.len(), 1);
        stream[51] = u64::MAX;
        assert_eq!(processes(stream.as_bytes(), ThreadRows::Summed, Ns(1)).0.len(), 1);
    }
}
