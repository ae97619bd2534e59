//! Block I/O that is completed after the end of its process was reported: pages written back later.
//!
//! In: the rows of owners that are in no sample any more. Out: what they transferred since then, as
//! totals of the node, and the rows that no longer grow. A process that has ended gets no second
//! row: its end would count again.

use monitor_ebpf::abi::block::{DiskUsage, OwnerDisk};
use monitor_model::{NodeRow, Ns, field::NodeField as F};
use std::collections::BTreeMap;

/// A row that has not grown for this long is removed. A completion at that moment is lost.
const SETTLED: Ns = Ns(2_000_000_000);

/// The I/O of processes that have ended, and the rows that it is counted in.
#[derive(Default)]
pub struct LateUsage {
    rows: BTreeMap<OwnerDisk, LateRow>,
    bytes: u64,
    requests: u64,
}

/// A row, as last read, and since when.
struct LateRow {
    used: DiskUsage,
    since: Ns,
}

impl LateUsage {
    /// Adds what these rows have grown by; returns those to remove.
    pub fn add(
        &mut self,
        rows: impl Iterator<Item = (OwnerDisk, DiskUsage)>,
        now: Ns,
    ) -> Vec<OwnerDisk> {
        let mut before = std::mem::take(&mut self.rows);
        let mut settled = Vec::new();
        for (key, used) in rows {
            let old = before.remove(&key);
            let [bytes, requests] = grown(&used, old.as_ref().map(|it| &it.used));
            self.bytes += bytes;
            self.requests += requests;
            let since = old.filter(|_| [bytes, requests] == [0; 2]).map_or(now, |it| it.since);
            if now.since(since) > SETTLED {
                settled.push(key);
            } else {
                let _old = self.rows.insert(key, LateRow { used, since });
            }
        }
        settled
    }

    /// Sets the totals in a row of the node.
    pub fn set(&self, node: &mut NodeRow) {
        node.set(F::BlockUnattributedBytes, self.bytes);
        node.set(F::BlockUnattributedRequests, self.requests);
    }
}

/// Bytes and requests since an earlier reading of a row.
fn grown(now: &DiskUsage, before: Option<&DiskUsage>) -> [u64; 2] {
    let sum = |used: &DiskUsage| [used.bytes.iter().sum(), used.requests.iter().sum()];
    let ([bytes, requests], before): ([u64; 2], _) = (sum(now), before.map_or([0; 2], sum));
    [bytes.saturating_sub(before[0]), requests.saturating_sub(before[1])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_ebpf::abi::Owner;

    const KEY: OwnerDisk =
        OwnerDisk { owner: Owner { start_boottime_ns: 5, tgid: 7, zero: 0 }, major: 8, minor: 0 };

    fn used(bytes: u64, requests: u64) -> DiskUsage {
        let mut used = DiskUsage::default();
        (used.bytes[1], used.requests[1]) = (bytes, requests);
        used
    }

    #[test]
    fn what_is_added_is_counted_once_and_a_row_that_no_longer_grows_is_removed() {
        let mut late = LateUsage::default();
        let mut at = |seconds: u64, row: Option<DiskUsage>| {
            let rows = row.into_iter().map(|row| (KEY, row));
            let n_removed = late.add(rows, Ns(seconds * 1_000_000_000)).len();
            let mut node = NodeRow::default();
            late.set(&mut node);
            let total = |field| node.get(field).unwrap();
            (total(F::BlockUnattributedBytes), total(F::BlockUnattributedRequests), n_removed)
        };
        assert_eq!(at(1, Some(used(4096, 1))), (4096, 1, 0));
        assert_eq!(at(2, Some(used(4096, 1))), (4096, 1, 0));
        assert_eq!(at(3, Some(used(8192, 3))), (8192, 3, 0));
        assert_eq!(at(5, Some(used(8192, 3))), (8192, 3, 0));
        assert_eq!(at(6, Some(used(8192, 3))), (8192, 3, 1));
        // A new row of the same process.
        assert_eq!(at(7, Some(used(512, 1))), (8704, 4, 0));
        assert_eq!(at(8, None), (8704, 4, 0));
    }
}
