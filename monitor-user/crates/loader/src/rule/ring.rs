//! Decodes the records of rule programs: the ring buffer of `bin/rule`.
//!
//! In: ring records. Out: [`RuleRecord`]s, in the order of the ring. A truncated record, or one of
//! an unknown kind from a newer object, is skipped.

use super::record_shares::ShareCounts;
use aya::maps::{MapData, RingBuf};
use monitor_backend::rule::rule_record::{RecordReason, RuleRecord, StopScope};
use monitor_backend::rule::{ProgramId, RecordReader};
use monitor_ebpf::abi::rule::NO_CREDENTIALS;
use monitor_ebpf::abi::rule::record::{
    FRAMES, KIND_PROCESS_STOP, KIND_RECORD, KIND_STORM, KIND_THREAD_STOP, LongRecord, ShortRecord,
};
use monitor_ebpf::abi::rule::record_share::ring_bytes;
use monitor_model::{Credentials, Identity, Ns, Pid};
use monitor_sys::mmapped_array::MmappedArray;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use zerocopy::FromBytes;

/// The consumer of the ring.
pub struct Ring {
    /// The ring.
    pub records: RingBuf<MapData>,
    /// The shares that what is read is credited to.
    pub shares: Arc<ShareCounts>,
    /// Whether a program has woken the reader since it began to read.
    pub wakes: MmappedArray,
}

impl RecordReader for Ring {
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.records.as_fd())
    }

    fn read(&mut self, max: usize, take: &mut dyn FnMut(RuleRecord)) -> usize {
        // Before the first record: one that is added from now on wakes again.
        self.wakes.at(0).into_iter().for_each(|woken| woken.store(0, SeqCst));
        let mut n_read = 0;
        while n_read < max
            && let Some(item) = self.records.next()
        {
            n_read += 1;
            let record = decode(&item);
            let freed = share_and_bytes(&item);
            drop(item);
            if let Some((share, bytes)) = freed {
                self.shares.add_read(share, bytes);
            }
            if let Some(record) = record {
                take(record);
            }
        }
        n_read
    }
}

/// The share that a record is counted in, and its bytes in the ring.
fn share_and_bytes(bytes: &[u8]) -> Option<(u16, u64)> {
    let (record, _) = ShortRecord::read_from_prefix(bytes).ok()?;
    let is_long = bytes.len() > size_of::<ShortRecord>();
    let in_ring = if is_long { ring_bytes::<LongRecord>() } else { ring_bytes::<ShortRecord>() };
    Some((record.share, in_ring))
}

fn decode(bytes: &[u8]) -> Option<RuleRecord> {
    let (event, _) = ShortRecord::read_from_prefix(bytes).ok()?;
    let (reason, stopped) = match event.kind {
        KIND_RECORD => (RecordReason::Requested, StopScope::None),
        KIND_THREAD_STOP => (RecordReason::Requested, StopScope::Thread),
        KIND_PROCESS_STOP => (RecordReason::Requested, StopScope::Process),
        KIND_STORM => (RecordReason::Storm, StopScope::None),
        _ => return None,
    };
    let mut record = RuleRecord {
        reason,
        stopped,
        program: ProgramId(event.program),
        at: Ns(event.at_boottime_ns),
        process: Identity { pid: Pid(event.pid), start: Ns(event.start_boottime_ns) },
        credentials: credentials(event.credentials),
        tid: Pid(event.tid),
        cpu: event.cpu,
        ip: event.ip,
        sp: event.sp,
        regs: event.regs,
        texts: Vec::new(),
        stack: Vec::new(),
    };
    if let Ok((long, _)) = LongRecord::ref_from_prefix(bytes) {
        record.texts =
            long.text_bytes.iter().zip(&long.texts).map(|(n, text)| truncate(*n, text)).collect();
        let n_frames = (long.head.stack_bytes as usize / 8).min(FRAMES);
        record.stack = long.stack[..n_frames].to_vec();
    }
    Some(record)
}

/// The credentials that may read the process, unless there are none.
fn credentials([uid, gid]: [u32; 2]) -> Option<Credentials> {
    (uid != NO_CREDENTIALS).then_some(Credentials { uid, gid })
}

fn truncate(length: u32, text: &[u8]) -> Option<Vec<u8>> {
    text.get(..usize::try_from(length).ok()?).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::{FromZeros, IntoBytes};

    #[test]
    fn a_truncated_or_unknown_record_is_skipped() {
        let event = ShortRecord {
            kind: KIND_RECORD,
            program: 5,
            credentials: [7, 8],
            ..ShortRecord::default()
        };
        let whole = decode(event.as_bytes()).unwrap();
        assert_eq!(
            (whole.program, whole.credentials),
            (ProgramId(5), Some(Credentials { uid: 7, gid: 8 }))
        );
        assert_eq!(decode(&event.as_bytes()[..127]), None);
        assert_eq!(decode(ShortRecord { kind: 77, ..event }.as_bytes()), None);
    }

    #[test]
    fn an_unreadable_text_is_none_and_a_long_stack_is_truncated() {
        let mut long = LongRecord::new_zeroed();
        long.head.kind = KIND_RECORD;
        long.head.stack_bytes = u32::MAX;
        long.text_bytes = [3, u32::MAX];
        long.texts[0][..4].copy_from_slice(b"abcd");
        let record = decode(long.as_bytes()).unwrap();
        assert_eq!(record.texts, [Some(b"abc".to_vec()), None]);
        assert_eq!(record.stack.len(), FRAMES);
    }
}
