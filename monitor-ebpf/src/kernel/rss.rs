//! Exact counts of resident pages: the batched count plus the parts of each CPU.
//!
//! Since 6.2 `mm_struct.rss_stat` is an array of per-CPU counters, and the central count of each
//! may be behind by a batch per CPU. A per-CPU address is the counter's base plus the CPU's offset,
//! which the kernel does not export to programs; [`learn_cpu_offsets`] finds it once, as the
//! distance between an element of a per-CPU map on that CPU and the map's own base.

use super::scratch::Scratch;
use super::{constant, load, probe};
use crate::abi::offset::ABSENT;
use crate::abi::task::{ArrayOffsets, MAX_EXACT_CPUS, TaskOffsets};
use aya_ebpf::helpers::generated::bpf_map_lookup_percpu_elem;
use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;

/// Set by the loader.
#[unsafe(no_mangle)]
static ARRAY: ArrayOffsets = ArrayOffsets::ABSENT;
/// Set by the loader: possible CPUs, or 0 for the batched count alone.
#[unsafe(no_mangle)]
static RSS_CPUS: u32 = 0;

/// Written once by [`learn_cpu_offsets`], before the first snapshot.
static CPU_OFFSET: Scratch<[u64; MAX_EXACT_CPUS]> = Scratch::new([0; MAX_EXACT_CPUS]);

/// The map whose elements' addresses are compared; its values are unused.
#[map]
static RULER: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);

/// Determines the offset of each CPU's memory.
#[inline(always)]
pub fn learn_cpu_offsets() {
    let ruler = (&raw const RULER).cast::<u8>();
    let base: u64 = probe(as_number(ruler) as *const u8, constant!(ARRAY.pptrs));
    let key = 0u32;
    for (cpu, offset) in CPU_OFFSET.get().iter_mut().take(cpus()).enumerate() {
        let key = (&raw const key).cast();
        // SAFETY: the helper returns the element's address on that CPU, or null.
        let element =
            unsafe { bpf_map_lookup_percpu_elem(ruler.cast_mut().cast(), key, cpu as u32) };
        *offset = as_number(element.cast()).wrapping_sub(base);
    }
}

/// Number of CPUs whose parts are added.
#[inline(always)]
fn cpus() -> usize {
    constant!(RSS_CPUS) as usize
}

/// The address of a map or of its element. The verifier allows no arithmetic with such a pointer;
/// one that was stored to memory and loaded again is a number to it.
#[inline(always)]
fn as_number(pointer: *const u8) -> u64 {
    static SLOT: Scratch<*const u8> = Scratch::new(core::ptr::null());
    let slot = core::ptr::from_mut(SLOT.get());
    // SAFETY: a static of this object.
    unsafe { core::ptr::write_volatile(slot, pointer) };
    // SAFETY: as above.
    unsafe { core::ptr::read_volatile(slot) as u64 }
}

/// Whether [`pages`] is exact.
#[inline(always)]
pub fn is_exact(task: &TaskOffsets) -> bool {
    constant!(task.mm_rss_plain) != ABSENT || cpus() > 0
}

/// The four counts of `mm` (file, anonymous, swap entries, shared memory); zeroes for no `mm`.
#[inline(always)]
pub fn pages(mm: *const u8, task: &TaskOffsets) -> [i64; 4] {
    let at = constant!(task.mm_rss_stat);
    if constant!(task.mm_rss_plain) != ABSENT {
        // 6.1 and before refuse a direct load of an element of this array.
        return [probe(mm, at), probe(mm, at + 8), probe(mm, at + 16), probe(mm, at + 24)];
    }
    let size = constant!(task.percpu_size);
    let each = [at, at + size, at + 2 * size, at + 3 * size];
    let mut counts = each.map(|at| load::<i64>(mm, at + constant!(task.percpu_count)));
    let parts = each.map(|at| load::<u64>(mm, at + constant!(task.percpu_parts)));
    if parts[0] == 0 {
        return counts;
    }
    if parts[1] == parts[0] + 4 && parts[2] == parts[0] + 8 && parts[3] == parts[0] + 12 {
        add_together(&mut counts, parts[0]);
    } else {
        add_apart(&mut counts, parts);
    }
    counts
}

/// Prefetches the counters (see [`super::task::Task::fetch`]).
#[inline(always)]
pub fn fetch(mm: *const u8, task: &TaskOffsets) {
    let at = constant!(task.mm_rss_stat);
    if constant!(task.mm_rss_plain) == ABSENT {
        let _: u64 = load(mm, at + constant!(task.percpu_parts));
    }
}

/// Adds the parts of each CPU. Since 6.6 the four parts of a CPU are adjacent.
#[inline(always)]
fn add_together(counts: &mut [i64; 4], parts: u64) {
    for offset in CPU_OFFSET.get().iter().take(cpus()) {
        let [file, anon, swap, shmem]: [i32; 4] =
            probe(parts.wrapping_add(*offset) as *const u8, 0);
        counts[0] += i64::from(file);
        counts[1] += i64::from(anon);
        counts[2] += i64::from(swap);
        counts[3] += i64::from(shmem);
    }
}

/// The same, where the parts of each counter are separate.
#[inline(always)]
fn add_apart(counts: &mut [i64; 4], parts: [u64; 4]) {
    for (count, parts) in counts.iter_mut().zip(parts) {
        for offset in CPU_OFFSET.get().iter().take(cpus()) {
            let part: i32 = probe(parts.wrapping_add(*offset) as *const u8, 0);
            *count += i64::from(part);
        }
    }
}
