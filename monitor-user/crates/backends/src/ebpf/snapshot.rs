//! A pass over every task, and what its records mean.
//!
//! In: the byte stream of `iter/task`. Out: processes with their totals: what ended threads used,
//! plus each live thread. Reading costs one pass; nothing runs between passes.

use super::decode;
use super::kernel::Kernel;
use super::object::{Object, Settings};
use super::pass::{Buffer, IterProgram};
use monitor_backend::Error;
use monitor_ebpf::abi::task::{self, KIND_PROCESS, KIND_THREAD, RSS_CPUS};
use monitor_model::id::Pid;
use monitor_model::sample::Process;
use zerocopy::FromBytes;

/// Learns where each CPU counts its share of resident pages; of every object that reads them.
pub const LEARN: IterProgram = IterProgram { name: "learn", walks: "task", map: None };
const SNAPSHOT: IterProgram = IterProgram { name: "snapshot", walks: "task", map: None };

/// The loaded iterator and the buffer it is read into.
pub struct Snapshot {
    object: Object,
    buffer: Buffer,
    exact_rss: bool,
    /// Processes that the last pass over all has found.
    found: usize,
    /// Whether this kernel walks one process alone, by the ids that we know it by.
    walks_one: bool,
}

/// A pass over one process alone costs as much as one over so many (`cargo xtask bench service`).
const COST_OF_ONE: usize = 16;

impl Snapshot {
    /// Loads the iterator and prepares what it needs once.
    pub fn load(kernel: &Kernel) -> Result<Self, Error> {
        let settings = Settings { constants: &[(RSS_CPUS, kernel.rss_cpus())], sizes: &[] };
        let mut object = Object::load("snapshot", kernel, &settings)?;
        LEARN.run(&mut object, kernel)?;
        SNAPSHOT.load(&mut object, &kernel.btf)?;
        object.hooked(SNAPSHOT.hook());
        let exact_rss = !kernel.counts_rss_per_cpu() || *kernel.rss_cpus() > 0;
        Ok(Self { object, buffer: Buffer::new(), exact_rss, found: 0, walks_one: true })
    }

    /// Whether resident sizes include what each CPU has not handed over.
    pub const fn exact_rss(&self) -> bool {
        self.exact_rss
    }

    /// The loaded object, for its health.
    pub const fn object(&self) -> &Object {
        &self.object
    }

    /// Reads every process; the list is in the order of identities.
    pub fn read(&mut self, keep_threads: Threads) -> Result<Vec<Process>, Error> {
        let stream = self.buffer.pass(&mut self.object, &SNAPSHOT)?;
        let processes = processes(stream, keep_threads);
        self.found = processes.len();
        Ok(processes)
    }

    /// Reads these alone, if that costs less than reading all.
    pub fn glance(&mut self, pids: &[Pid]) -> Option<Vec<Process>> {
        if !self.walks_one || pids.len() * COST_OF_ONE > self.found {
            return None;
        }
        // Before 6.1 the kernel walks all or nobody; then it is not asked again.
        let stream = self.buffer.pass_each(&self.object, &SNAPSHOT, pids);
        let processes = stream.ok().map(|stream| processes(stream, Threads::Summed));
        // It looks for them in our pid namespace, and answers with ids of the first one.
        let meant =
            |all: &Vec<Process>| all.iter().all(|it| pids.binary_search(&it.id.pid).is_ok());
        self.walks_one = processes.as_ref().is_some_and(meant);
        processes.filter(|_| self.walks_one)
    }
}

/// Whether the rows of threads are wanted, or only their sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// A row for each.
    Kept,
    /// Only added up.
    Summed,
}

/// Turns a stream of records into processes.
fn processes(stream: &[u8], keep: Threads) -> Vec<Process> {
    let threads = threads(stream);
    let mut all = Vec::with_capacity(stream.len() / size_of::<task::Process>());
    each_process(stream, |record| {
        let of = |tgid: u32| threads.partition_point(|thread| thread.tgid < tgid);
        let own = &threads[of(record.leader.tgid)..];
        let own = &own[..own.iter().take_while(|it| it.tgid == record.leader.tgid).count()];
        all.push(decode::living(record, own, keep));
    });
    // The kernel walks ids upwards, so this finds it in order. An id that was reused during the
    // pass, or a process whose pid moved to another thread by exec, can appear twice.
    all.sort_by_key(|process| process.id);
    all.dedup_by_key(|process| process.id);
    all
}

/// The threads that lead no process, those of a process together and in the order of their ids.
fn threads(stream: &[u8]) -> Vec<&task::Thread> {
    let mut threads = Vec::new();
    each(stream, |kind, at| {
        if kind == KIND_THREAD
            && let Ok((record, _)) = task::Thread::ref_from_prefix(at)
        {
            threads.push(record);
        }
    });
    threads.sort_by_key(|thread| thread.tgid);
    threads
}

fn each_process(stream: &[u8], mut take: impl FnMut(&task::Process)) {
    each(stream, |kind, at| {
        if kind == KIND_PROCESS
            && let Ok((record, _)) = task::Process::ref_from_prefix(at)
        {
            take(record);
        }
    });
}

/// Every record: its kind, and the stream from there.
fn each<'a>(mut stream: &'a [u8], mut take: impl FnMut(u32, &'a [u8])) {
    while let Some((kind, rest)) = next(stream) {
        take(kind, stream);
        stream = rest;
    }
}

/// The kind of the first record, and what follows it; `None` at the end, or where the stream
/// does not make sense.
fn next(stream: &[u8]) -> Option<(u32, &[u8])> {
    let (kind, _) = u32::read_from_prefix(stream).ok()?;
    let bytes = match kind {
        KIND_PROCESS => size_of::<task::Process>(),
        KIND_THREAD => size_of::<task::Thread>(),
        _ => return None,
    };
    Some((kind, stream.get(bytes..)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::field::ProcessField;
    use zerocopy::IntoBytes;

    fn process(tgid: u32, exec_ns: u64, dead_ns: u64) -> task::Process {
        let mut record = task::Process::default();
        record.leader.kind = KIND_PROCESS;
        (record.leader.tid, record.leader.tgid) = (tgid, tgid);
        record.leader.sums.exec_ns = exec_ns;
        record.dead.exec_ns = dead_ns;
        record
    }

    fn thread(tid: u32, tgid: u32, exec_ns: u64) -> task::Thread {
        let mut record = task::Thread { kind: KIND_THREAD, tid, tgid, ..Default::default() };
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
            thread(3, 7, 10).as_bytes(), // An id that wrapped: before its leader.
            process(7, 100, 5).as_bytes(),
            thread(8, 7, 20).as_bytes(),
        ]);
        let all = processes(stream.as_bytes(), Threads::Kept);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].row.get(ProcessField::CpuTime), Some(135));
        let tids: Vec<_> = all[0].threads.iter().map(|it| it.id.pid.0).collect();
        assert_eq!(tids, [3, 7, 8]);
    }

    #[test]
    fn a_process_seen_twice_is_one() {
        let twice = process(7, 100, 0);
        let stream = aligned(&[twice.as_bytes(), twice.as_bytes()]);
        assert_eq!(processes(stream.as_bytes(), Threads::Summed).len(), 1);
    }

    #[test]
    fn a_cut_or_senseless_stream_ends_where_it_stops_making_sense() {
        let mut stream = aligned(&[process(7, 1, 0).as_bytes(), process(8, 1, 0).as_bytes()]);
        assert_eq!(processes(&stream.as_bytes()[..500], Threads::Summed).len(), 1);
        stream[51] = u64::MAX;
        assert_eq!(processes(stream.as_bytes(), Threads::Summed).len(), 1);
    }
}
