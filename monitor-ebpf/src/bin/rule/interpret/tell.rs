//! Records of rules: what a run knew, for user space.
//!
//! A record is short, or long if texts or a stack are asked for. The reader is woken at once if
//! the rule says so; else when a quarter of the ring is used, and comes by itself before that.

use super::{Frame, clock, copy};
use aya_ebpf::bindings::{BPF_F_USER_STACK, BPF_RB_FORCE_WAKEUP};
use aya_ebpf::helpers::generated::{bpf_get_stack, bpf_probe_read_user_str};
use aya_ebpf::macros::map;
use aya_ebpf::maps::RingBuf;
use monitor_ebpf::abi::rule::NOBODY;
use monitor_ebpf::abi::rule::op::{Op, told};
use monitor_ebpf::abi::rule::record::{
    Event, FRAMES, KIND_STORM, KIND_TOLD, LongEvent, TEXT_BYTES, TEXTS,
};
use monitor_ebpf::kernel::ring;

/// The loader sets the size.
#[map]
static HAPPENED: RingBuf = RingBuf::with_byte_size(1 << 20, 0);

const UNREADABLE: u32 = u32::MAX;

impl Frame {
    /// Tells what this run knows.
    #[inline(always)]
    pub fn tell(&mut self, it: &Op) {
        if it.from == 0 && it.how & told::STACK == 0 {
            let Some(mut slot) = HAPPENED.reserve::<Event>(0) else { return self.lost_record() };
            // SAFETY: `fill` writes every member.
            let event = unsafe { &mut *slot.as_mut_ptr() };
            self.fill(event, KIND_TOLD);
            event.kind = self.held(it);
            return slot.submit(wake_flags(it.how));
        }
        let Some(mut slot) = HAPPENED.reserve::<LongEvent>(0) else { return self.lost_record() };
        // SAFETY: every member is written below.
        let long = unsafe { &mut *slot.as_mut_ptr() };
        self.fill(&mut long.event, KIND_TOLD);
        self.read_texts(long, it.from);
        self.read_stack(long, it.how);
        long.event.kind = self.held(it);
        slot.submit(wake_flags(it.how));
    }

    /// Who is held is told of: there is a place in the ring for it.
    #[inline(always)]
    fn held(&self, it: &Op) -> u32 {
        if it.how & told::HOLDS != 0 { self.hold(it) } else { KIND_TOLD }
    }

    #[inline(always)]
    fn lost_record(&self) {
        self.tally(|tally| &mut tally.lost_records);
    }

    #[inline(always)]
    fn fill(&mut self, event: &mut Event, kind: u32) {
        event.kind = kind;
        event.list = self.run.number;
        (event.pid, event.tid) = (self.pid, self.tid);
        event.cpu = clock::processor();
        event.stack_bytes = 0;
        // What only is at a probe is within the process; at tracepoints nobody asks.
        event.eyes = if self.ip == 0 { [NOBODY; 2] } else { self.task.eyes() };
        event.at_boottime_ns = self.now_ns();
        event.start_boottime_ns = self.task.leader().start_boottime_ns();
        (event.ip, event.sp) = (self.ip, self.sp);
        copy(&mut event.values, &self.run.values);
    }

    /// The texts of the first values of the mask.
    #[inline(always)]
    fn read_texts(&self, long: &mut LongEvent, mask: u8) {
        let mut left = mask;
        for n in 0..TEXTS {
            long.text_bytes[n] = UNREADABLE;
            if left == 0 {
                continue;
            }
            let number = lowest_bit(left);
            left &= left - 1;
            let (to, from) = (long.texts[n].as_mut_ptr().cast(), self.value(number) as *const _);
            // SAFETY: the helper writes at most `TEXT_BYTES`, and a zero at the end.
            let length = unsafe { bpf_probe_read_user_str(to, TEXT_BYTES as u32, from) };
            if length > 0 {
                long.text_bytes[n] = length as u32 - 1;
            }
        }
    }

    #[inline(always)]
    fn read_stack(&self, long: &mut LongEvent, how: u8) {
        if how & told::STACK == 0 {
            return;
        }
        let (to, bytes) = (long.stack.as_mut_ptr().cast(), 8 * FRAMES as u32);
        // SAFETY: the helper writes at most these bytes.
        let got = unsafe { bpf_get_stack(self.context, to, bytes, u64::from(BPF_F_USER_STACK)) };
        if got > 0 {
            long.event.stack_bytes = got as u32;
        }
    }
}

/// Says that the list that runs was switched off. The tally says so too, should the ring be full.
#[inline(always)]
pub fn storm(frame: &mut Frame) {
    let Some(mut slot) = HAPPENED.reserve::<Event>(0) else { return frame.lost_record() };
    // SAFETY: `fill` writes every member.
    frame.fill(unsafe { &mut *slot.as_mut_ptr() }, KIND_STORM);
    slot.submit(u64::from(BPF_RB_FORCE_WAKEUP));
}

#[inline(always)]
fn wake_flags(how: u8) -> u64 {
    if how & told::WAKES != 0 {
        u64::from(BPF_RB_FORCE_WAKEUP)
    } else {
        ring::wake_flags(&HAPPENED)
    }
}

/// The number of the lowest bit that is set; without an instruction for it, three comparisons.
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
