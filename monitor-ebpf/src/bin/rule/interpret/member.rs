//! Which processes are in which set, so that a rule on a library is not for everybody who uses it.
//!
//! User space puts processes in; a child is born into the sets of its parent that are inherited;
//! who ends is taken out.
//!
//! Who was found in a set is noted, so that the next call of the same process looks at one word
//! and not into the table. What was noted before anybody left a set is not believed any more.

use super::register::is_x86;
use aya_ebpf::bindings::BPF_NOEXIST;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap};
use monitor_ebpf::abi::rule::{BY_END, BY_USER, MAX_SETS, Member};
use monitor_ebpf::kernel::{atomic, loss};

/// By thread group id. The loader sets the size.
#[map]
static MEMBERS: HashMap<u32, Member> = HashMap::with_max_entries(4096, 0);
#[map]
static INHERITED: Array<u64> = Array::with_max_entries(1, 0);
#[map]
static LEFT: Array<u64> = Array::with_max_entries(2, 0);

/// Places for notes; a process has one for each set, which others may have, too.
const NOTES: u32 = 1024;
#[map]
static NOTED: Array<u64> = Array::with_max_entries(NOTES, 0);

/// Bits of a process id: `PID_MAX_LIMIT` of include/linux/threads.h.
const PID_BITS: u32 = 22;
/// Bits of the number of a set.
const SET_BITS: u32 = 7;
const _: () = assert!(MAX_SETS < 1 << SET_BITS);

/// Whether a process is in a set; everybody is in set 0.
#[inline(always)]
pub fn is_in(process: u32, set: u32) -> bool {
    if set == 0 {
        return true;
    }
    // Elsewhere what is loaded later may be older.
    if !is_x86() || process >> PID_BITS != 0 {
        return is_member(process, set);
    }
    let Some(place) = NOTED.get_ptr_mut((process ^ set) % NOTES) else { return false };
    let Some(note) = note(process, set) else { return false };
    // SAFETY: elements of an array live as long as the map; a note is one word.
    if unsafe { core::ptr::read_volatile(place) } == note {
        return true;
    }
    let is_member = is_member(process, set);
    if is_member {
        // SAFETY: as above.
        unsafe { core::ptr::write_volatile(place, note) };
    }
    is_member
}

/// That a process is in a set, as of now: it is asked for before the table is looked into.
#[inline(always)]
fn note(process: u32, set: u32) -> Option<u64> {
    let (by_end, by_user) = (LEFT.get_ptr(BY_END)?, LEFT.get_ptr(BY_USER)?);
    // SAFETY: as above.
    let by_end = unsafe { core::ptr::read_volatile(by_end) };
    // SAFETY: so is this.
    let left = by_end + unsafe { core::ptr::read_volatile(by_user) };
    Some(u64::from(process) | u64::from(set) << PID_BITS | left << (PID_BITS + SET_BITS))
}

#[inline(always)]
fn is_member(process: u32, set: u32) -> bool {
    let Some(member) = MEMBERS.get_ptr(&process) else { return false };
    // SAFETY: a row is one integer; one that is being removed may be read once more.
    let sets = unsafe { (*member).sets };
    set <= MAX_SETS && sets >> ((set - 1) & 63) & 1 == 1
}

/// A child is made: in the parent's context, before it first runs.
#[inline(always)]
pub fn inherit(parent: u32, child: u32) {
    let Some(member) = MEMBERS.get_ptr(&parent) else { return };
    let Some(inherited) = INHERITED.get_ptr(0) else { return };
    // SAFETY: a row is one integer.
    let own = unsafe { (*member).sets };
    // SAFETY: so is this.
    let sets = own & unsafe { *inherited };
    if sets != 0 && MEMBERS.insert(&child, &Member { sets }, u64::from(BPF_NOEXIST)).is_err() {
        loss::table_full();
    }
}

/// A process has ended, and its number may be another's next.
#[inline(always)]
pub fn forget(process: u32) {
    // Most processes are in no set.
    if MEMBERS.remove(&process).is_ok()
        && let Some(left) = LEFT.get_ptr_mut(BY_END)
    {
        // SAFETY: elements of an array live as long as the map.
        atomic::add(unsafe { &mut *left }, 1);
    }
}
