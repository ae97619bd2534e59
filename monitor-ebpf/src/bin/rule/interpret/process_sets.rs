//! Process sets: they restrict a rule on a library to some of the processes that use it.
//!
//! User space adds processes; a child joins the inherited sets of its parent; a process that ends
//! is removed. Should that be missed, a later process with its pid is no member: it started later.
//!
//! A membership found in the table is cached, so that the next call of the same process reads one
//! word instead. Any removal from a set invalidates earlier cache entries.

use super::frame::{Frame, unknown_zero};
use super::register::is_x86;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap};
use monitor_ebpf::abi::rule::{BY_EXIT, BY_USER_SPACE, MAX_SETS, SetMembership};
use monitor_ebpf::kernel::{atomic, loss};

/// By thread group id. The loader sets the size.
#[map]
static MEMBERS: HashMap<u32, SetMembership> = HashMap::with_max_entries(4096, 0);
#[map]
static INHERITED_SETS: Array<u64> = Array::with_max_entries(1, 0);
#[map]
static DEPARTURES: Array<u64> = Array::with_max_entries(2, 0);

/// Entries of the cache; a process and set maps to one, which others may share.
const CACHE_ENTRIES: u32 = 1024;
/// Each with the start of the process.
#[map]
static MEMBER_CACHE: Array<[u64; 2]> = Array::with_max_entries(CACHE_ENTRIES, 0);

/// Bits of a process id: `PID_MAX_LIMIT` of include/linux/threads.h.
const PID_BITS: u32 = 22;
/// The process of an event is never above it. Not a comparison: the verifier would check the
/// interpreter for each result.
const PID_MASK: u32 = (1 << PID_BITS) - 1;

/// Whether a value can be a process id.
#[inline(always)]
pub fn is_id(value: u64) -> bool {
    value >> PID_BITS == 0
}

/// Bits of a set id.
const SET_BITS: u32 = 7;
const _: () = assert!(MAX_SETS < 1 << SET_BITS);

impl Frame {
    /// Whether a process is in a set; every process is in set 0. Of one that is neither of the
    /// event's processes, the pid alone is known.
    #[inline(always)]
    pub fn is_in(&self, process: u32, set: u32) -> bool {
        if set == 0 {
            return true;
        }
        let start_ns = match process {
            own if own == self.pid => self.start_ns,
            other if other == self.other => self.other_start_ns,
            _ => 0,
        };
        is_in((process, start_ns), set)
    }
}

#[inline(always)]
fn is_in((process, start_ns): (u32, u64), set: u32) -> bool {
    // On other architectures later loads may return older values.
    if !is_x86() {
        return is_member((process, start_ns), set);
    }
    let Some(slot) = MEMBER_CACHE.get_ptr_mut((process ^ set) % CACHE_ENTRIES) else {
        return false;
    };
    let Some(entry) = cache_entry(process, set) else { return false };
    // SAFETY: elements of an array live as long as the map.
    let slot = unsafe { &mut *slot };
    // SAFETY: a reference is valid. Words of two entries may be read together; then no start is
    // that of the process, because each was written with its pid.
    let cached = unsafe { core::ptr::read_volatile(&raw const slot[0]) };
    // SAFETY: as above.
    let cached_start = unsafe { core::ptr::read_volatile(&raw const slot[1]) };
    if [cached, cached_start] == [entry, start_ns] {
        return true;
    }
    let is_member = is_member((process, start_ns), set);
    if is_member {
        // SAFETY: as above.
        unsafe { core::ptr::write_volatile(&raw mut slot[1], start_ns) };
        // SAFETY: so is this.
        unsafe { core::ptr::write_volatile(&raw mut slot[0], entry) };
    }
    is_member
}

/// The cache entry of a process and set at this time; computed before the table is read.
#[inline(always)]
fn cache_entry(process: u32, set: u32) -> Option<u64> {
    let (by_exit, by_user) = (DEPARTURES.get_ptr(BY_EXIT)?, DEPARTURES.get_ptr(BY_USER_SPACE)?);
    // SAFETY: as above.
    let by_exit = unsafe { core::ptr::read_volatile(by_exit) };
    // SAFETY: so is this.
    let departures = by_exit + unsafe { core::ptr::read_volatile(by_user) };
    Some(
        u64::from(process & PID_MASK)
            | u64::from(set) << PID_BITS
            | departures << (PID_BITS + SET_BITS),
    )
}

#[inline(always)]
fn is_member(process: (u32, u64), set: u32) -> bool {
    set <= MAX_SETS && sets_of(process) >> ((set - 1) & 63) & 1 == 1
}

/// The sets of a process; none, if the row is that of an earlier process with its pid.
#[inline(always)]
fn sets_of((process, start_ns): (u32, u64)) -> u64 {
    let Some(member) = MEMBERS.get_ptr_mut(&process) else { return 0 };
    // SAFETY: a row has whole words; one that is being removed may be read once more.
    let member = unsafe { &mut *member };
    let SetMembership { sets, start_ns: known_ns, .. } = *member;
    if known_ns == 0 {
        // SAFETY: a reference is valid; all events of the process write the same.
        unsafe { core::ptr::write_volatile(&raw mut member.start_ns, start_ns) };
        return sets;
    }
    if start_ns == 0 || start_ns == known_ns { sets } else { 0 }
}

/// Where a process has `errno`: [`SetMembership::errno_word`] and its offset; zeroes, if that is
/// not known.
#[inline(always)]
pub fn errno_place(process: u32) -> (u64, u64) {
    let Some(member) = MEMBERS.get_ptr(&process) else { return (unknown_zero(), unknown_zero()) };
    // SAFETY: as above.
    let member = unsafe { &*member };
    (member.errno_word, member.errno_offset as u64)
}

/// Forgets where a process has `errno`: it executes another program.
#[inline(never)]
pub fn forget_errno(process: u32) {
    let Some(member) = MEMBERS.get_ptr_mut(&process) else { return };
    // SAFETY: as above.
    let member = unsafe { &mut *member };
    member.errno_word = 0;
    member.errno_offset = 0;
}

/// Adds a new child to the inherited sets of its parent, before it first runs. Each is a pid and
/// when the process started.
#[inline(always)]
pub fn inherit(parent: (u32, u64), (child, start_ns): (u32, u64)) {
    let Some(inherited) = INHERITED_SETS.get_ptr(0) else { return };
    // SAFETY: an element is one integer.
    let inherited = sets_of(parent) & unsafe { *inherited };
    if inherited == 0 {
        return;
    }
    // User space may have added the child already.
    let sets = inherited | sets_of((child, start_ns));
    // The child has the memory of its parent.
    let (errno_word, errno_offset) = errno_place(parent.0);
    let errno_offset = errno_offset as i64;
    let member = SetMembership { sets, start_ns, errno_word, errno_offset };
    if MEMBERS.insert(&child, &member, 0).is_err() {
        loss::table_full();
    }
}

/// Removes a process that has ended: its pid may be reused. A function of its own: inside
/// the program it made the verifier check the interpreter twice.
#[inline(never)]
pub fn remove(process: u32) {
    // Most processes are in no set.
    if MEMBERS.remove(&process).is_ok()
        && let Some(count) = DEPARTURES.get_ptr_mut(BY_EXIT)
    {
        // SAFETY: elements of an array live as long as the map.
        atomic::add(unsafe { &mut *count }, 1);
    }
}
