//! Which processes are in which set, so that a rule on a library is not for everybody who uses it.
//!
//! User space puts processes in; a child is born into the sets of its parent that are inherited;
//! who ends is taken out.

use aya_ebpf::bindings::BPF_NOEXIST;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap};
use monitor_ebpf::abi::rule::{MAX_SETS, Member};
use monitor_ebpf::kernel::loss;

/// By thread group id. The loader sets the size.
#[map]
static MEMBERS: HashMap<u32, Member> = HashMap::with_max_entries(4096, 0);
#[map]
static INHERITED: Array<u64> = Array::with_max_entries(1, 0);

/// Whether a process is in a set; everybody is in set 0.
#[inline(always)]
pub fn is_in(process: u32, set: u32) -> bool {
    if set == 0 {
        return true;
    }
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
    let _ = MEMBERS.remove(&process);
}
