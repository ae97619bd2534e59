//! Process sets: they restrict a rule on a library to some of the processes that use it.
//!
//! User space adds processes; a child joins the inherited sets of its parent; a process that ends
//! is removed.
//!
//! A membership found in the table is cached, so that the next call of the same process reads one
//! word instead. Any removal from a set invalidates earlier cache entries.

use super::register::is_x86;
use aya_ebpf::bindings::BPF_NOEXIST;
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
#[map]
static MEMBER_CACHE: Array<u64> = Array::with_max_entries(CACHE_ENTRIES, 0);

/// Bits of a process id: `PID_MAX_LIMIT` of include/linux/threads.h.
const PID_BITS: u32 = 22;
/// Bits of a set id.
const SET_BITS: u32 = 7;
const _: () = assert!(MAX_SETS < 1 << SET_BITS);

/// Whether a process is in a set; every process is in set 0.
#[inline(always)]
pub fn is_in(process: u32, set: u32) -> bool {
    if set == 0 {
        return true;
    }
    // On other architectures later loads may return older values.
    if !is_x86() || process >> PID_BITS != 0 {
        return is_member(process, set);
    }
    let Some(slot) = MEMBER_CACHE.get_ptr_mut((process ^ set) % CACHE_ENTRIES) else {
        return false;
    };
    let Some(entry) = cache_entry(process, set) else { return false };
    // SAFETY: elements of an array live as long as the map; an entry is one word.
    if unsafe { core::ptr::read_volatile(slot) } == entry {
        return true;
    }
    let is_member = is_member(process, set);
    if is_member {
        // SAFETY: as above.
        unsafe { core::ptr::write_volatile(slot, entry) };
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
    Some(u64::from(process) | u64::from(set) << PID_BITS | departures << (PID_BITS + SET_BITS))
}

#[inline(always)]
fn is_member(process: u32, set: u32) -> bool {
    let Some(member) = MEMBERS.get_ptr(&process) else { return false };
    // SAFETY: a row is one integer; one that is being removed may be read once more.
    let sets = unsafe { (*member).sets };
    set <= MAX_SETS && sets >> ((set - 1) & 63) & 1 == 1
}

/// Adds a new child to the inherited sets of its parent, before it first runs.
#[inline(always)]
pub fn inherit(parent: u32, child: u32) {
    let Some(member) = MEMBERS.get_ptr(&parent) else { return };
    let Some(inherited) = INHERITED_SETS.get_ptr(0) else { return };
    // SAFETY: a row is one integer.
    let own = unsafe { (*member).sets };
    // SAFETY: so is this.
    let sets = own & unsafe { *inherited };
    if sets != 0 && MEMBERS.insert(&child, &SetMembership { sets }, u64::from(BPF_NOEXIST)).is_err()
    {
        loss::table_full();
    }
}

/// Removes a process that has ended: its pid may be reused.
#[inline(always)]
pub fn remove(process: u32) {
    // Most processes are in no set.
    if MEMBERS.remove(&process).is_ok()
        && let Some(count) = DEPARTURES.get_ptr_mut(BY_EXIT)
    {
        // SAFETY: elements of an array live as long as the map.
        atomic::add(unsafe { &mut *count }, 1);
    }
}
