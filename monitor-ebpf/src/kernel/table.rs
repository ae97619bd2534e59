//! Rows of hash tables, created on first use.

use aya_ebpf::bindings::BPF_NOEXIST;
use aya_ebpf::maps::HashMap;

/// The row of `key`, zero if it is new; `None` when the table is full.
#[inline(always)]
pub fn row<K, V: zerocopy::FromZeros>(table: &HashMap<K, V>, key: &K) -> Option<*mut V> {
    row_like(table, key, &V::new_zeroed())
}

/// The row of `key`, a copy of `first` if it is new; `None` when the table is full.
/// For rows that are too large for the stack: `first` can be a static.
#[inline(always)]
pub fn row_like<K, V>(table: &HashMap<K, V>, key: &K, first: &V) -> Option<*mut V> {
    if let Some(row) = table.get_ptr_mut(key) {
        return Some(row);
    }
    // Another CPU may make it first: then this insertion fails and the look-up finds the other's.
    let _ = table.insert(key, first, u64::from(BPF_NOEXIST));
    table.get_ptr_mut(key)
}
