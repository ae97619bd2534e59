//! Which list is run next: those of a hook in order, then those of the events that were raised.
//!
//! A list runs if it is enabled, the process is in its set, and it has not run too often.

use super::{Frame, Raised, copy, member, tell, unknown_zero};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, PerCpuArray};
use monitor_ebpf::abi::rule::op::Op;
use monitor_ebpf::abi::rule::{
    Burst, Hook, LISTS_PER_HOOK, List, MAX_LISTS, MAX_OPS, MAX_PENDING, MAX_RAISED, NOBODY, Tally,
    hook,
};
use monitor_ebpf::kernel::atomic;

/// Both versions of each list.
#[map]
static LISTS: Array<List> = Array::with_max_entries(2 * MAX_LISTS, 0);
#[map]
static VERSIONS: Array<u32> = Array::with_max_entries(MAX_LISTS, 0);
#[map]
static ENABLED: Array<u32> = Array::with_max_entries(MAX_LISTS, 0);
#[map]
static HOOKS: Array<Hook> = Array::with_max_entries(hook::ROWS, 0);
#[map]
static TALLIES: PerCpuArray<Tally> = PerCpuArray::with_max_entries(MAX_LISTS, 0);
#[map]
static BURSTS: Array<Burst> = Array::with_max_entries(MAX_LISTS, 0);

const SECOND_NS: u64 = 1_000_000_000;

impl Frame {
    /// Makes a list the one that runs; false if it is not to run.
    #[inline(always)]
    pub fn begin(&mut self, number: u32) -> bool {
        let Some(version) = VERSIONS.get_ptr(number) else { return false };
        // SAFETY: elements of an array live as long as the map.
        let version = unsafe { *version } & 1;
        let Some(list) = LISTS.get_ptr(2 * number + version) else { return false };
        // SAFETY: as above; user space does not write the version that is run.
        let List { set, limit, n_ops, switch, eyes, .. } = unsafe { &*list };
        let (set, switch) = (u32::from(*set), u32::from(*switch));
        let Some(enabled) = ENABLED.get_ptr(switch) else { return false };
        // SAFETY: as above.
        if unsafe { *enabled } == 0 {
            return false;
        }
        let is_ours = member::is_in(self.pid, set)
            || (self.other != self.pid && member::is_in(self.other, set));
        if !is_ours || *n_ops == 0 || !self.is_of(*eyes) {
            return false;
        }
        (self.run.list, self.run.number) = (list, number);
        self.run.at = unknown_zero() as u32;
        self.tally(|tally| &mut tally.runs);
        if *limit == 0 || is_within(number, *limit, self.now_ns()) {
            return true;
        }
        self.end_storm(switch);
        false
    }

    /// Whether this is a process of theirs, as it is now: it may have begun a program that has
    /// rights of others since it came into the set.
    #[inline(always)]
    fn is_of(&self, eyes: [u32; 2]) -> bool {
        eyes[0] == NOBODY || self.task.eyes() == eyes
    }

    /// Has nothing to do yet. A null pointer would not do: the verifier forgets what a place holds
    /// that a repeated step finds now empty and now not.
    #[inline(always)]
    pub fn rest(&mut self) -> bool {
        let Some(any) = LISTS.get_ptr(0) else { return false };
        (self.run.list, self.run.at) = (any, MAX_OPS as u32 + unknown_zero() as u32);
        true
    }

    /// The next list of the hook, or of the next event that was raised; false if there is none.
    #[inline(always)]
    pub fn begin_next(&mut self) -> bool {
        let Some(number) = self.next() else { return false };
        if number == 0 || !self.begin(number - 1) {
            // The next step comes back here.
            self.run.at = MAX_OPS as u32 + unknown_zero() as u32;
        }
        true
    }

    /// The number of the next list and 1; 0 at the end of a hook.
    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        let at = self.run.next as usize;
        if at < LISTS_PER_HOOK {
            self.run.next = at as u32 + 1 + unknown_zero() as u32;
            // SAFETY: elements of an array live as long as the map.
            let hook = HOOKS.get_ptr(self.run.hook).map(|hook| unsafe { &*hook })?;
            let number = hook.lists[at];
            if number == 0 {
                self.run.next = LISTS_PER_HOOK as u32 + unknown_zero() as u32;
            }
            return Some(number);
        }
        self.take_raised().then_some(0)
    }

    /// Goes on with the event that was raised first.
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
        (self.run.hook, self.run.next) = (hook as u32, unknown_zero() as u32);
        for (argument, parameter) in self.arguments.iter_mut().zip(parameters) {
            *argument = parameter;
        }
        true
    }

    /// Notes that an event was raised; it happens after this list.
    #[inline(always)]
    pub fn raise(&mut self, it: &Op) {
        let place = self.run.n_pending as usize;
        if place >= MAX_PENDING || self.run.raised >= MAX_RAISED || it.index >= hook::MAX_USER {
            return self.tally(|tally| &mut tally.lost_raises);
        }
        let number = |n: u8| self.value(it.from.wrapping_add(n));
        let parameters = [number(0), number(1), number(2), number(3)];
        let raised = Raised { hook: u64::from(hook::FIRST_USER + it.index), parameters };
        // Two places by name: the verifier follows no pointer that a variable index may have hit.
        if place == 0 {
            self.run.pending[0] = raised;
        } else {
            self.run.pending[1] = raised;
        }
        self.run.n_pending += 1 + unknown_zero() as u32;
        self.run.raised += 1 + unknown_zero() as u32;
    }

    /// Switches the list off that runs, and says so, once.
    #[inline(always)]
    fn end_storm(&mut self, number: u32) {
        switch(number, 0);
        self.tally(|tally| &mut tally.storms);
        tell::storm(self);
    }

    /// Counts something about the list that runs.
    #[inline(always)]
    pub fn tally(&self, what: impl FnOnce(&mut Tally) -> &mut u64) {
        if let Some(tally) = TALLIES.get_ptr_mut(self.run.number) {
            // SAFETY: this CPU's element lives as long as the map, and is only added to.
            atomic::add(what(unsafe { &mut *tally }), 1);
        }
    }
}

/// Enables or disables a list.
#[inline(always)]
pub fn switch(number: u32, enabled: u32) {
    if let Some(place) = ENABLED.get_ptr_mut(number) {
        // SAFETY: elements of an array live as long as the map; the last to write is right.
        unsafe { core::ptr::write_volatile(place, enabled) };
    }
}

/// Whether a list may run once more in this second.
#[inline(always)]
fn is_within(number: u32, limit: u32, now: u64) -> bool {
    let Some(burst) = BURSTS.get_ptr_mut(number) else { return true };
    // SAFETY: elements of an array live as long as the map; two CPUs that begin a second at once
    // may forget a run.
    let burst = unsafe { &mut *burst };
    if now.wrapping_sub(burst.since_ns) >= SECOND_NS {
        (burst.since_ns, burst.runs) = (now, 0);
    }
    atomic::add(&mut burst.runs, 1);
    burst.runs <= u64::from(limit)
}
