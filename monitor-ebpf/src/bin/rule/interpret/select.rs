//! Selects the next program: those of the hook in order, then those of the raised events.
//!
//! A program runs if it is enabled, the process is in its set, and it is within its rate limit.

use super::frame::{Frame, Raised, copy, unknown_zero};
use super::record;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, PerCpuArray};
use monitor_ebpf::abi::rule::opcode::EncodedInsn;
use monitor_ebpf::abi::rule::{
    EncodedProgram, HookPrograms, MAX_INSNS, MAX_PENDING, MAX_PROGRAMS, MAX_RAISED, NO_CREDENTIALS,
    PROGRAMS_PER_HOOK, RateWindow, RunCounts, hook,
};
use monitor_ebpf::kernel::atomic;

/// Both versions of each program.
#[map]
static PROGRAMS: Array<EncodedProgram> = Array::with_max_entries(2 * MAX_PROGRAMS, 0);
#[map]
static VERSIONS: Array<u32> = Array::with_max_entries(MAX_PROGRAMS, 0);
#[map]
static ENABLED: Array<u32> = Array::with_max_entries(MAX_PROGRAMS, 0);
#[map]
static HOOKS: Array<HookPrograms> = Array::with_max_entries(hook::ROWS, 0);
#[map]
static RUN_COUNTS: PerCpuArray<RunCounts> = PerCpuArray::with_max_entries(MAX_PROGRAMS, 0);
#[map]
static RATE_WINDOWS: Array<RateWindow> = Array::with_max_entries(MAX_PROGRAMS, 0);

const SECOND_NS: u64 = 1_000_000_000;

impl Frame {
    /// Makes a program the current one; false if it must not run.
    #[inline(always)]
    pub fn select(&mut self, number: u32) -> bool {
        let Some(version) = VERSIONS.get_ptr(number) else { return false };
        // SAFETY: elements of an array live as long as the map.
        let version = unsafe { *version } & 1;
        let Some(program) = PROGRAMS.get_ptr(2 * number + version) else { return false };
        // SAFETY: as above; user space does not write the version in use.
        let EncodedProgram { set, limit, n_insns, switch, credentials, .. } = unsafe { &*program };
        let (set, switch) = (u32::from(*set), u32::from(*switch));
        let Some(enabled) = ENABLED.get_ptr(switch) else { return false };
        // SAFETY: as above.
        if unsafe { *enabled } == 0 {
            return false;
        }
        let is_member =
            self.is_in(self.pid, set) || (self.other != self.pid && self.is_in(self.other, set));
        if !is_member || *n_insns == 0 || !self.may_be_read_by(*credentials) {
            return false;
        }
        self.run.start(program, number);
        self.count(|counts| &mut counts.runs);
        if *limit == 0 || is_within(number, *limit, self.now_ns()) {
            return true;
        }
        self.end_storm(switch);
        false
    }

    /// Whether these credentials may read the process now: it may have executed a set-user-ID file
    /// since it joined the set.
    #[inline(always)]
    fn may_be_read_by(&self, credentials: [u32; 2]) -> bool {
        credentials[0] == NO_CREDENTIALS || self.access.credentials() == credentials
    }

    /// Starts without a program. The pointer must not be null: the verifier loses track of a slot
    /// that is null in some iterations only.
    #[inline(always)]
    pub fn idle(&mut self) -> bool {
        let Some(any) = PROGRAMS.get_ptr(0) else { return false };
        (self.run.program, self.run.at) = (any, MAX_INSNS as u32 + unknown_zero() as u32);
        true
    }

    /// Selects the next program of the hook, or of the next raised event; false if there is none.
    #[inline(always)]
    pub fn select_next(&mut self) -> bool {
        let Some(number) = self.next() else { return false };
        if number == 0 || !self.select(number - 1) {
            // The next step calls this again.
            self.run.at = MAX_INSNS as u32 + unknown_zero() as u32;
        }
        true
    }

    /// Id of the next program plus 1; 0 at the end of a hook.
    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        let at = self.run.next as usize;
        if at < PROGRAMS_PER_HOOK {
            self.run.next = at as u32 + 1 + unknown_zero() as u32;
            // SAFETY: elements of an array live as long as the map.
            let hook = HOOKS.get_ptr(self.run.hook).map(|hook| unsafe { &*hook })?;
            let number = hook.programs[at];
            if number == 0 {
                self.run.next = PROGRAMS_PER_HOOK as u32 + unknown_zero() as u32;
            }
            return Some(number);
        }
        self.take_raised().then_some(0)
    }

    /// Continues with the event that was raised first.
    #[inline(always)]
    fn take_raised(&mut self) -> bool {
        if self.run.n_pending == 0 {
            return false;
        }
        let Raised { hook, parameters } = self.run.pending[0];
        let [first, second] = &mut self.run.pending;
        first.hook = second.hook;
        copy(&mut first.parameters, &second.parameters);
        self.run.n_pending -= 1;
        self.run.start_hook(hook as u32);
        for (argument, parameter) in self.arguments.iter_mut().zip(parameters) {
            *argument = parameter;
        }
        true
    }

    /// Queues a raised event; its programs run after this one.
    #[inline(always)]
    pub fn raise(&mut self, insn: &EncodedInsn) {
        let place = self.run.n_pending as usize;
        if place >= MAX_PENDING
            || self.run.raised >= MAX_RAISED
            || insn.index >= hook::MAX_USER_EVENTS
        {
            return self.count(|counts| &mut counts.lost_raises);
        }
        let number = |n: u8| self.reg(insn.src.wrapping_add(n));
        let parameters = [number(0), number(1), number(2), number(3)];
        let raised = Raised { hook: u64::from(hook::FIRST_USER_EVENT + insn.index), parameters };
        // Two constant indices: the verifier loses track of pointers behind a variable index.
        if place == 0 {
            self.run.pending[0] = raised;
        } else {
            self.run.pending[1] = raised;
        }
        self.run.n_pending += 1 + unknown_zero() as u32;
        self.run.raised += 1 + unknown_zero() as u32;
    }

    /// Disables the current program, and reports that once.
    #[inline(always)]
    fn end_storm(&mut self, number: u32) {
        switch(number, 0);
        self.count(|counts| &mut counts.storms);
        record::storm(self);
    }

    /// Increments one of the counts of the current program.
    #[inline(always)]
    pub fn count(&self, which: impl FnOnce(&mut RunCounts) -> &mut u64) {
        if let Some(counts) = RUN_COUNTS.get_ptr_mut(self.run.number) {
            // SAFETY: this CPU's element lives as long as the map, and is only added to.
            atomic::add(which(unsafe { &mut *counts }), 1);
        }
    }
}

/// Enables or disables a program.
#[inline(always)]
pub fn switch(number: u32, enabled: u32) {
    if let Some(place) = ENABLED.get_ptr_mut(number) {
        // SAFETY: elements of an array live as long as the map; the last write wins.
        unsafe { core::ptr::write_volatile(place, enabled) };
    }
}

/// Whether a program may run again in this second.
#[inline(always)]
fn is_within(number: u32, limit: u32, now: u64) -> bool {
    let Some(window) = RATE_WINDOWS.get_ptr_mut(number) else { return true };
    // SAFETY: elements of an array live as long as the map; two CPUs that start a second at once
    // may lose a run.
    let window = unsafe { &mut *window };
    if now.wrapping_sub(window.since_ns) >= SECOND_NS {
        (window.since_ns, window.runs) = (now, 0);
    }
    atomic::add(&mut window.runs, 1);
    window.runs <= u64::from(limit)
}
