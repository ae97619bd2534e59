//! Sends records of rule programs to user space.
//!
//! A record is short, or long if texts or a stack are requested. The reader is woken immediately if
//! the program requests it, once until it reads, otherwise when a quarter of the ring is used. A
//! record that its user has no room for is lost.

use super::clock;
use super::frame::{Frame, copy};
use super::record_share::{self, RULE_RECORDS};
use aya_ebpf::bindings::{BPF_F_USER_STACK, BPF_RB_FORCE_WAKEUP};
use aya_ebpf::helpers::generated::{bpf_get_stack, bpf_probe_read_user_str};
use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use aya_ebpf::maps::ring_buf::RingBufEntry;
use monitor_ebpf::abi::rule::MMAPABLE;
use monitor_ebpf::abi::rule::opcode::{EncodedInsn, record_flags};
use monitor_ebpf::abi::rule::record::{
    FRAMES, KIND_RECORD, KIND_STORM, LongRecord, MAX_TEXTS, ShortRecord, TEXT_BYTES,
};
use monitor_ebpf::abi::rule::record_share::{OF_PROCESS, ring_bytes};
use monitor_ebpf::kernel::ring;

const UNREADABLE: u32 = u32::MAX;

#[map]
static WAKES: Array<u64> = Array::with_max_entries(1, MMAPABLE);

impl Frame {
    /// Sends a record of this run.
    #[inline(always)]
    pub fn record(&mut self, insn: &EncodedInsn) {
        let share = self.share(insn.dst);
        if insn.src == 0 && insn.mode & record_flags::STACK == 0 {
            let Some(mut slot) = self.reserve::<ShortRecord>(share) else { return };
            // SAFETY: `fill` writes every member.
            let record = unsafe { &mut *slot.as_mut_ptr() };
            self.fill(record, KIND_RECORD, share);
            record.kind = self.stop_kind(insn);
            return slot.submit(wake_flags(insn.mode));
        }
        let Some(mut slot) = self.reserve::<LongRecord>(share) else { return };
        // SAFETY: every member is written below.
        let long = unsafe { &mut *slot.as_mut_ptr() };
        self.fill(&mut long.head, KIND_RECORD, share);
        self.read_texts(long, insn.src);
        self.read_stack(long, insn.mode);
        long.head.kind = self.stop_kind(insn);
        slot.submit(wake_flags(insn.mode));
    }

    /// Stops the thread if requested; only after the record has its slot in the ring.
    #[inline(always)]
    fn stop_kind(&self, insn: &EncodedInsn) -> u16 {
        if insn.mode & record_flags::STOP_THREAD != 0 { self.stop(insn) } else { KIND_RECORD }
    }

    #[inline(always)]
    fn reserve<T>(&self, share: u32) -> Option<RingBufEntry<T>> {
        if record_share::has_room(share, ring_bytes::<T>()) {
            return self.reserve_over_share(share);
        }
        self.lost_record(share);
        None
    }

    #[inline(always)]
    fn reserve_over_share<T>(&self, share: u32) -> Option<RingBufEntry<T>> {
        let slot = RULE_RECORDS.reserve::<T>(0);
        match slot {
            Some(_) => record_share::add(share, ring_bytes::<T>()),
            None => self.lost_record(share),
        }
        slot
    }

    #[inline(always)]
    fn lost_record(&self, share: u32) {
        record_share::lose(share);
        self.count(|counts| &mut counts.lost_records);
    }

    #[inline(always)]
    fn fill(&mut self, record: &mut ShortRecord, kind: u16, share: u32) {
        (record.kind, record.share) = (kind, share as u16);
        record.program = self.run.number;
        (record.pid, record.tid) = (self.pid, self.tid);
        record.cpu = clock::processor();
        record.stack_bytes = 0;
        record.credentials = self.access.credentials();
        record.at_boottime_ns = self.now_ns();
        record.start_boottime_ns = self.start_ns;
        (record.ip, record.sp) = (self.ip, self.sp);
        copy(&mut record.regs, &self.run.regs);
    }

    /// Reads the texts of the first registers of the mask.
    #[inline(always)]
    fn read_texts(&self, long: &mut LongRecord, mask: u8) {
        let mut left = mask;
        for n in 0..MAX_TEXTS {
            long.text_bytes[n] = UNREADABLE;
            if left == 0 {
                continue;
            }
            let number = lowest_bit(left);
            left &= left - 1;
            let (to, from) = (long.texts[n].as_mut_ptr().cast(), self.reg(number) as *const _);
            // SAFETY: the helper writes at most `TEXT_BYTES`, and a zero at the end.
            let length = unsafe { bpf_probe_read_user_str(to, TEXT_BYTES as u32, from) };
            if length > 0 {
                long.text_bytes[n] = length as u32 - 1;
            }
        }
    }

    #[inline(always)]
    fn read_stack(&self, long: &mut LongRecord, how: u8) {
        if how & record_flags::STACK == 0 {
            return;
        }
        let (to, bytes) = (long.stack.as_mut_ptr().cast(), 8 * FRAMES as u32);
        // SAFETY: the helper writes at most these bytes.
        let got = unsafe { bpf_get_stack(self.context, to, bytes, u64::from(BPF_F_USER_STACK)) };
        if got > 0 {
            long.head.stack_bytes = got as u32;
        }
    }
}

/// Reports that the current program was disabled, also if its share is used up. The run counts
/// report it too if the ring is full.
#[inline(always)]
pub fn storm(frame: &mut Frame) {
    let share = frame.share(OF_PROCESS);
    let Some(mut slot) = frame.reserve_over_share::<ShortRecord>(share) else { return };
    // SAFETY: `fill` writes every member.
    frame.fill(unsafe { &mut *slot.as_mut_ptr() }, KIND_STORM, share);
    slot.submit(u64::from(BPF_RB_FORCE_WAKEUP));
}

#[inline(always)]
fn wake_flags(how: u8) -> u64 {
    // A stopped thread waits for its reader.
    let is_awaited = how & record_flags::STOP_THREAD != 0;
    if how & record_flags::WAKE != 0 && (is_awaited || takes_wake()) {
        u64::from(BPF_RB_FORCE_WAKEUP)
    } else {
        ring::wake_flags(&RULE_RECORDS)
    }
}

/// Whether the reader has begun to read since it was woken; then it is to be woken for this record.
/// One that comes just before that may wait until the reader looks again by itself.
#[inline(always)]
fn takes_wake() -> bool {
    let Some(woken) = WAKES.get_ptr_mut(0) else { return true };
    // SAFETY: it is an element of the map, an aligned word: each access is one instruction.
    let is_first = unsafe { woken.read_volatile() } == 0;
    if is_first {
        // SAFETY: see above; two programs that write at once both wake the reader.
        unsafe { woken.write_volatile(1) };
    }
    is_first
}

/// Index of the lowest set bit, by three comparisons: there is no instruction for it.
#[inline(always)]
fn lowest_bit(mask: u8) -> u8 {
    let (mut mask, mut number) = (mask, 0);
    if mask & 0x0f == 0 {
        (mask, number) = (mask >> 4, 4);
    }
    if mask & 0x03 == 0 {
        (mask, number) = (mask >> 2, number + 2);
    }
    if mask & 0x01 == 0 { number + 1 } else { number }
}
