//! The records of the last reading, of which the kernel half writes only those that changed.
//!
//! In: the stream of a reading. Out: the record of each task in it. Reads nothing.

use monitor_ebpf::abi::task::{KIND_PROCESS, KIND_SAME_PROCESS, KIND_SAME_THREAD, KIND_THREAD};
use monitor_ebpf::abi::task::{ProcessRecord, SameRecord, ThreadRecord};
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// The records of a reading.
#[derive(Default)]
pub struct KeptRecords {
    processes: RecordList<ProcessRecord>,
    threads: RecordList<ThreadRecord>,
}

/// The stream refers to a record that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotKept;

impl KeptRecords {
    /// Replaces the records of the last reading by those of this one, up to the first malformed
    /// record.
    pub fn update(&mut self, mut stream: &[u8]) -> Result<(), NotKept> {
        while let Ok((kind, _)) = u32::read_from_prefix(stream) {
            let rest = match kind {
                KIND_PROCESS => take(stream, |record| self.processes.set(record)),
                KIND_THREAD => take(stream, |record| self.threads.set(record)),
                KIND_SAME_PROCESS => {
                    take(stream, |SameRecord { tid, .. }| self.processes.keep(*tid))
                }
                KIND_SAME_THREAD => take(stream, |SameRecord { tid, .. }| self.threads.keep(*tid)),
                _ => None,
            };
            let Some((rest, outcome)) = rest else { break };
            outcome?;
            stream = rest;
        }
        self.processes.end_reading();
        self.threads.end_reading();
        Ok(())
    }

    /// The processes, in the order of their ids.
    pub fn processes(&self) -> impl ExactSizeIterator<Item = &ProcessRecord> {
        self.processes.records.iter().map(|it| &it.record)
    }

    /// The threads besides the leaders, grouped by process and in the order of their ids.
    pub fn threads(&self) -> Vec<&ThreadRecord> {
        let mut threads: Vec<_> = self.threads.records.iter().map(|it| &it.record).collect();
        threads.sort_by_key(|thread| thread.tgid);
        threads
    }
}

/// Passes the first record of a stream on; returns the rest.
fn take<'s, T: FromBytes + KnownLayout + Immutable + 's>(
    stream: &'s [u8],
    mut record: impl FnMut(&T) -> Result<(), NotKept>,
) -> Option<(&'s [u8], Result<(), NotKept>)> {
    let (first, rest) = T::ref_from_prefix(stream).ok()?;
    Some((rest, record(first)))
}

/// A record of the kernel half with the id of its task.
trait TaskRecord: Copy {
    fn tid(&self) -> u32;
}

impl TaskRecord for ProcessRecord {
    fn tid(&self) -> u32 {
        self.leader.tid
    }
}

impl TaskRecord for ThreadRecord {
    fn tid(&self) -> u32 {
        self.tid
    }
}

/// Records in the order of ids, which is that of the stream, mostly.
struct RecordList<T> {
    records: Vec<KeptRecord<T>>,
    /// Records of tasks that the last reading did not have.
    new: Vec<KeptRecord<T>>,
    /// Number of the reading.
    reading: u64,
    /// Number of records that this reading has.
    n_present: usize,
    /// Where the next record of the stream probably is.
    next: usize,
}

struct KeptRecord<T> {
    /// The last reading that had it.
    reading: u64,
    record: T,
}

impl<T> Default for RecordList<T> {
    fn default() -> Self {
        Self { records: Vec::new(), new: Vec::new(), reading: 1, n_present: 0, next: 0 }
    }
}

impl<T: TaskRecord> RecordList<T> {
    /// The record of this task is that of the last reading.
    fn keep(&mut self, tid: u32) -> Result<(), NotKept> {
        if let Some(at) = self.find(tid) {
            self.mark(at);
            return Ok(());
        }
        // A reading can come to a task twice.
        self.new.iter().any(|it| it.record.tid() == tid).then_some(()).ok_or(NotKept)
    }

    /// The new record of a task; an id that is used twice in a reading has the last one.
    fn set(&mut self, record: &T) -> Result<(), NotKept> {
        if let Some(at) = self.find(record.tid()) {
            self.mark(at);
            self.records[at].record = *record;
        } else {
            self.new.push(KeptRecord { reading: self.reading, record: *record });
        }
        Ok(())
    }

    fn mark(&mut self, at: usize) {
        let kept = &mut self.records[at];
        self.n_present += usize::from(kept.reading != self.reading);
        kept.reading = self.reading;
        self.next = at + 1;
    }

    fn find(&self, tid: u32) -> Option<usize> {
        if self.records.get(self.next).is_some_and(|it| it.record.tid() == tid) {
            return Some(self.next);
        }
        self.records.binary_search_by_key(&tid, |it| it.record.tid()).ok()
    }

    /// Removes records that the reading does not have.
    fn end_reading(&mut self) {
        if self.n_present < self.records.len() {
            self.records.retain(|it| it.reading == self.reading);
        }
        if !self.new.is_empty() {
            self.records.append(&mut self.new);
            // The last of an id is its first after the reversal.
            self.records.reverse();
            self.records.sort_by_key(|it| it.record.tid());
            self.records.dedup_by_key(|it| it.record.tid());
        }
        (self.reading, self.n_present, self.next) = (self.reading + 1, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;

    fn process(tid: u32, ppid: u32) -> Vec<u8> {
        let mut record = ProcessRecord { ppid, ..ProcessRecord::default() };
        (record.leader.kind, record.leader.tid, record.leader.tgid) = (KIND_PROCESS, tid, tid);
        record.as_bytes().to_vec()
    }

    fn thread(tid: u32, tgid: u32) -> Vec<u8> {
        let record = ThreadRecord { kind: KIND_THREAD, tid, tgid, ..ThreadRecord::default() };
        record.as_bytes().to_vec()
    }

    fn same(kind: u32, tid: u32) -> Vec<u8> {
        SameRecord { kind, tid }.as_bytes().to_vec()
    }

    /// Updates with these records; ids and parents of the processes, and ids of threads.
    fn update(kept: &mut KeptRecords, parts: &[Vec<u8>]) -> (Vec<(u32, u32)>, Vec<u32>) {
        let bytes = parts.concat();
        let mut words = vec![0u64; bytes.len() / 8];
        words.as_mut_bytes().copy_from_slice(&bytes);
        kept.update(words.as_bytes()).unwrap();
        let processes = kept.processes().map(|it| (it.leader.tid, it.ppid)).collect();
        (processes, kept.threads().iter().map(|it| it.tid).collect())
    }

    #[test]
    fn a_task_that_did_not_change_has_its_last_record_and_one_that_is_not_named_has_none() {
        let kept = &mut KeptRecords::default();
        let all = [process(3, 1), process(5, 1), thread(6, 5), thread(8, 5), process(9, 5)];
        assert_eq!(update(kept, &all), (vec![(3, 1), (5, 1), (9, 5)], vec![6, 8]));

        let second =
            [same(KIND_SAME_PROCESS, 3), process(5, 2), same(KIND_SAME_THREAD, 8), process(7, 5)];
        assert_eq!(update(kept, &second), (vec![(3, 1), (5, 2), (7, 5)], vec![8]));

        let third = [same(KIND_SAME_PROCESS, 5), same(KIND_SAME_PROCESS, 7)];
        assert_eq!(update(kept, &third), (vec![(5, 2), (7, 5)], vec![]));
    }

    #[test]
    fn the_stream_need_not_be_in_the_order_of_ids() {
        let kept = &mut KeptRecords::default();
        let _ = update(kept, &[process(9, 1), process(3, 1), process(5, 1)]);
        let again = [9, 3, 5].map(|tid| same(KIND_SAME_PROCESS, tid));
        assert_eq!(update(kept, &again).0, [(3, 1), (5, 1), (9, 1)]);
    }

    #[test]
    fn an_id_that_is_used_twice_in_a_reading_has_the_last_record() {
        let kept = &mut KeptRecords::default();
        assert_eq!(update(kept, &[process(3, 1), process(3, 2)]).0, [(3, 2)]);
        assert_eq!(update(kept, &[process(3, 4), process(3, 5)]).0, [(3, 5)]);
        assert_eq!(update(kept, &[same(KIND_SAME_PROCESS, 3), process(3, 6)]).0, [(3, 6)]);
        assert_eq!(update(kept, &[process(4, 1), same(KIND_SAME_PROCESS, 4)]).0, [(4, 1)]);
    }

    #[test]
    fn a_reference_to_a_record_that_is_not_kept_is_an_error() {
        let mut kept = KeptRecords::default();
        let _ = update(&mut kept, &[process(3, 1)]);
        let words = [u64::from(KIND_SAME_PROCESS) | 4 << 32];
        assert_eq!(kept.update(words.as_bytes()), Err(NotKept));
    }
}
