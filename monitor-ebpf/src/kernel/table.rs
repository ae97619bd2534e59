//! Rows of hash tables that come into being on first use.

use aya_ebpf::bindings::BPF_NOEXIST;
use aya_ebpf::maps::HashMap;

/// The row of `key`, made of zeroes if it is new; `None` when the table is full.
#[inline(always)]
pub fn row<K, V: zerocopy::FromZeros>(table: &HashMap<K, V>, key: &K) -> Option<*mut V> {
    if let Some(row) = table.get_ptr_mut(key) {
        return Some(row);
    }
    // Another CPU may make it first: then this insertion fails and the look-up finds the other's.
    let _ = table.insert(key, V::new_zeroed(), u64::from(BPF_NOEXIST));
    table.get_ptr_mut(key)
}
