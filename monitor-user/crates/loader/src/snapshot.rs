//! An iteration over every task, and the decoding of its records.
//!
//! In: the byte stream of `iter/task`. Out: processes with their totals: the sums of ended threads
//! plus each live thread. A reading costs one iteration; nothing runs in between. The kernel half
//! writes a record only for a task that changed since the last iteration; the others are kept here.

use crate::decode::{self, ThreadRows};
use crate::iter_reader::{IterBuffer, IterProgram};
use crate::{kept_records::KeptRecords, kernel::Kernel, object::Object};
use monitor_backend::Error;
use monitor_ebpf::abi::task::{self, EPOCH, RSS_CPUS, SEEN, SEEN_ROWS};
use monitor_model::{Ns, Pid, Process, field::ProcessField as F};
use monitor_sys::clock;

/// Determines the per-CPU offsets of resident page counts; for every object that reads them.
pub const LEARN: IterProgram = IterProgram { name: "learn", walks: "task", map: None };
/// Number of tasks whose last records the kernel half compares with, 24 bytes each. A power of two.
static SEEN_TASKS: u32 = 1 << 16;
const SNAPSHOT: IterProgram = IterProgram { name: "snapshot", walks: "task", map: None };

/// The loaded iterator and the buffer it is read into.
pub struct Snapshot {
    /// The loaded object.
    pub object: Object,
    buffer: IterBuffer,
    /// The records of the last full iteration, all of this epoch; none after an error.
    kept: Option<KeptRecords>,
    epoch: u32,
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
/// In place of an epoch: each record is written, whatever was written before.
const NO_EPOCH: u32 = 0;

impl Snapshot {
    /// Loads the iterator and prepares what it needs once.
    pub fn load(kernel: &Kernel) -> Result<Self, Error> {
        let constants = [(RSS_CPUS, &kernel.facts.rss_cpus), (SEEN_ROWS, &SEEN_TASKS)];
        let mut object = Object::load("snapshot", kernel, &constants, &[(SEEN, SEEN_TASKS)])?;
        LEARN.run(&mut object, kernel)?;
        SNAPSHOT.load(&mut object, &kernel.btf)?;
        object.hooks.push(SNAPSHOT.hook());
        let exact_rss = !kernel.facts.counts_rss_per_cpu() || kernel.facts.rss_cpus > 0;
        let (buffer, found) = (IterBuffer::new(), 0);
        Ok(Self { object, buffer, kept: None, epoch: 0, exact_rss, found, iterates_one: true })
    }

    /// Reads every process, from this time on; the list is in the order of identities.
    pub fn read(&mut self, keep: ThreadRows, at: Ns) -> Result<Vec<Process>, Error> {
        let kept = match self.kept.take() {
            Some(kept) => self.update(kept)?,
            None => None,
        };
        let kept = match kept {
            Some(kept) => kept,
            None => self.read_all()?,
        };
        let (mut processes, mut torn) = processes(&kept, keep, at);
        self.kept = Some(kept);
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

    /// Reads the records that changed. None if the kernel half refers to one that is not kept:
    /// it missed that task in an iteration.
    fn update(&mut self, mut kept: KeptRecords) -> Result<Option<KeptRecords>, Error> {
        let stream = self.buffer.read(&mut self.object, &SNAPSHOT)?;
        Ok(kept.update(stream).is_ok().then_some(kept))
    }

    /// Reads all records, in a new epoch.
    fn read_all(&mut self) -> Result<KeptRecords, Error> {
        self.epoch = self.epoch.checked_add(1).unwrap_or(NO_EPOCH + 1);
        self.object.set_number(EPOCH, self.epoch)?;
        let kept = self.update(KeptRecords::default())?;
        // The next streams are short.
        self.buffer = IterBuffer::new();
        kept.ok_or_else(|| Error::malformed(SNAPSHOT.hook(), "records of all tasks"))
    }

    /// Reads only these, if that costs less than reading all.
    pub fn read_few(&mut self, pids: &[Pid]) -> Option<Vec<Process>> {
        if !self.iterates_one || pids.len() * COST_OF_ONE > self.found {
            return None;
        }
        let (mut processes, torn) = self.read_each(pids, ThreadRows::Summed)?;
        set_approximate(torn.iter(), &mut processes);
        Some(processes)
    }

    /// Reads each of these at once, and names those that are torn. None, and never again, if this
    /// kernel iterates over all or none, as before 6.1, or over others: it looks them up in our pid
    /// namespace, and returns pids of the initial one.
    fn read_each(&mut self, pids: &[Pid], keep: ThreadRows) -> Option<(Vec<Process>, Vec<Pid>)> {
        let at = clock::boot();
        // What it writes is not kept.
        self.object.set_number(EPOCH, NO_EPOCH).ok()?;
        let stream = self.buffer.read_each(&self.object, &SNAPSHOT, pids);
        let mut few = KeptRecords::default();
        let are_read = stream.is_ok_and(|stream| few.update(stream).is_ok());
        if self.object.set_number(EPOCH, self.epoch).is_err() {
            self.kept = None;
        }
        let read = processes(&few, keep, at);
        let is_requested = |it: &Process| pids.binary_search(&it.id.pid).is_ok();
        self.iterates_one = are_read && read.0.iter().all(is_requested);
        self.iterates_one.then_some(read)
    }
}

/// Turns records into processes, and names those that are torn, in the order of their ids.
fn processes(kept: &KeptRecords, keep: ThreadRows, at: Ns) -> (Vec<Process>, Vec<Pid>) {
    let threads = kept.threads();
    let mut threads = &threads[..];
    let mut torn = Vec::new();
    let living = |record: &task::ProcessRecord| {
        let tgid = record.leader.tgid;
        threads = &threads[threads.partition_point(|thread| thread.tgid < tgid)..];
        let own = &threads[..threads.partition_point(|it| it.tgid == tgid)];
        torn.extend(is_torn(record, own, at).then_some(Pid(tgid)));
        decode::living(record, own, keep)
    };
    // The order of ids is that of identities.
    let all = kept.processes().map(living).collect();
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

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "says why a test is skipped")]
mod tests {
    use super::*;
    use monitor_ebpf::abi::task::{KIND_PROCESS, KIND_SAME_PROCESS, KIND_THREAD};
    use monitor_model::field::ProcessField;
    use std::process::{Child, Command};
    use zerocopy::{FromBytes, IntoBytes};

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

    /// The processes of a stream that has all records.
    fn decoded(stream: &[u8], keep: ThreadRows) -> Vec<Process> {
        let mut kept = KeptRecords::default();
        kept.update(stream).unwrap();
        processes(&kept, keep, Ns(1)).0
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
        let all = decoded(stream.as_bytes(), ThreadRows::Kept);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].row.get(ProcessField::CpuTime), Some(135));
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
            let mut kept = KeptRecords::default();
            kept.update(aligned(&parts).as_bytes()).unwrap();
            processes(&kept, ThreadRows::Summed, Ns(50)).1
        };
        assert_eq!(torn(&[started(8, 2), started(9, 3)]), []);
        assert_eq!(torn(&[started(8, 2)]), [Pid(7)]);
        // Another one has started meanwhile.
        assert_eq!(torn(&[started(8, 2), started(10, 60)]), [Pid(7)]);
    }

    #[test]
    fn a_process_that_stays_torn_is_marked() {
        let stream = aligned(&[process(7, 1, 0).as_bytes(), process(9, 1, 0).as_bytes()]);
        let mut all = decoded(stream.as_bytes(), ThreadRows::Summed);
        set_approximate([Pid(8), Pid(9)].iter(), &mut all);
        let marked: Vec<_> = all.iter().map(|it| it.row.get(F::Approximate)).collect();
        assert_eq!(marked, [None, Some(1)]);
    }

    #[test]
    fn a_process_seen_twice_is_one() {
        let twice = process(7, 100, 0);
        let stream = aligned(&[twice.as_bytes(), twice.as_bytes()]);
        assert_eq!(decoded(stream.as_bytes(), ThreadRows::Summed).len(), 1);
    }

    #[test]
    fn a_truncated_or_malformed_stream_ends_at_the_first_bad_record() {
        let mut stream = aligned(&[process(7, 1, 0).as_bytes(), process(8, 1, 0).as_bytes()]);
        assert_eq!(decoded(&stream.as_bytes()[..500], ThreadRows::Summed).len(), 1);
        stream[51] = u64::MAX;
        assert_eq!(decoded(stream.as_bytes(), ThreadRows::Summed).len(), 1);
    }

    /// The sleeping children, ended with the test.
    struct Sleepers(Vec<Child>);

    impl Drop for Sleepers {
        fn drop(&mut self) {
            for child in &mut self.0 {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }

    /// Numbers of their records, and of references to their records, in a stream.
    fn counted(mut stream: &[u8], sleepers: &Sleepers) -> (usize, usize) {
        let (mut n_records, mut n_same) = (0, 0);
        while let Ok((kind, _)) = u32::read_from_prefix(stream) {
            let [size, records, same] = match kind {
                KIND_PROCESS => [size_of::<task::ProcessRecord>(), 1, 0],
                KIND_THREAD => [size_of::<task::ThreadRecord>(), 0, 0],
                KIND_SAME_PROCESS => [size_of::<task::SameRecord>(), 0, 1],
                _ => [size_of::<task::SameRecord>(), 0, 0],
            };
            let tid = u32::read_from_prefix(&stream[4..]).unwrap().0;
            if sleepers.0.iter().any(|it| it.id() == tid) {
                (n_records, n_same) = (n_records + records, n_same + same);
            }
            stream = &stream[size..];
        }
        (n_records, n_same)
    }

    #[test]
    fn root_the_kernel_half_writes_a_record_of_a_sleeping_process_once() {
        let name = "root_the_kernel_half_writes_a_record_of_a_sleeping_process_once";
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var_os("MONITOR_REQUIRE_ROOT").is_none(), "{name} needs root");
            println!("SKIP {name}: needs root");
            return;
        }
        let mut snapshot = Snapshot::load(&Kernel::read(0).unwrap()).unwrap();
        let sleep = |_| Command::new("sleep").arg("1000").spawn().unwrap();
        let sleepers = Sleepers((0..23).map(sleep).collect());
        let _ = snapshot.read(ThreadRows::Summed, clock::boot()).unwrap();
        let mut next = || {
            let stream = snapshot.buffer.read(&mut snapshot.object, &SNAPSHOT).unwrap();
            counted(stream, &sleepers)
        };
        // They start, and then sleep.
        let asleep = (0..100_000).find(|_| next() == (0, 23));
        assert!(asleep.is_some(), "{:?} of 23 that sleep", next());

        let pid = i32::try_from(sleepers.0[11].id()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        assert!((0..100_000).any(|_| next() == (1, 22)), "{:?} after a stop", next());
        assert!((0..100_000).any(|_| next() == (0, 23)), "{:?} after the stop", next());
    }
}
