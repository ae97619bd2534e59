//! `/proc/meminfo`: memory of the node.
//!
//! In: the text of the file, see proc_meminfo(5). Out: fields of the node, in bytes; the field of
//! a missing line is absent. Opens no file.

use super::scan::{key_and_values, lines};
use monitor_model::field::{NodeField, node::NodeRow};

/// Sets the fields that the text contains.
pub fn parse(row: &mut NodeRow, text: &[u8]) {
    for (key, mut values) in lines(text).filter_map(key_and_values) {
        let field = match key {
            b"MemTotal" => NodeField::MemTotal,
            b"MemAvailable" => NodeField::MemAvailable,
            b"MemFree" => NodeField::MemFree,
            b"Buffers" => NodeField::MemBuffers,
            b"Cached" => NodeField::MemCached,
            b"Mapped" => NodeField::MemMapped,
            b"SwapCached" => NodeField::SwapCached,
            b"SwapTotal" => NodeField::SwapTotal,
            b"SwapFree" => NodeField::SwapFree,
            _ => continue,
        };
        row.set_some(field, values.number().and_then(|kib| kib.checked_mul(1024)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_bytes() {
        let mut row = NodeRow::default();
        parse(&mut row, b"MemTotal:  16 kB\nMemFree: x kB\nSwapTotal: 0 kB\nNew: 5\n");
        assert_eq!(row.get(NodeField::MemTotal), Some(16_384));
        assert_eq!((row.get(NodeField::MemFree), row.get(NodeField::SwapTotal)), (None, Some(0)));
    }
}
