//! Rows of a table that hooks fill by process: read, and deleted when nobody needs them.
//!
//! In: a BPF hash table keyed by `Owner`. Out: each row, for the process that it belongs to.
//! A row outlives its process until it was read, so one that lived a millisecond has its row.

use super::decode;
use super::object::{Object, Record};
use crate::backend::Error;
use crate::model::field::ProcessField as F;
use crate::model::id::Ns;
use crate::model::sample::Process;
use aya::maps::{HashMap as Table, MapData};
use monitor_ebpf::abi::Owner;
use std::collections::HashSet;
use std::marker::PhantomData;
use zerocopy::{FromBytes, IntoBytes};

/// The rows of one table.
pub struct Rows<T> {
    map: &'static str,
    /// Owners that were not among the processes last time.
    missing: HashSet<Owner>,
    row: PhantomData<T>,
}

impl<T: Copy + FromBytes + IntoBytes + 'static> Rows<T> {
    /// The rows of the table of that name.
    pub fn of(object: &mut Object, map: &'static str) -> Result<Self, Error> {
        let rows = Self { map, missing: HashSet::new(), row: PhantomData };
        let missing = object.no_map(map);
        rows.table(object).map(|_| rows).ok_or(missing)
    }

    /// Hands each row to its process, and deletes those of processes that have ended.
    ///
    /// A row without a process belongs to one that is newer than the list, or to one that ended
    /// long ago (the kernel finished a connection for it). The second is still missing next time,
    /// and goes then.
    pub fn join(
        &mut self,
        object: &mut Object,
        processes: &mut [Process],
        mut hand: impl FnMut(&mut Process, &T),
    ) {
        let Some(mut table) = self.table(object) else { return };
        let mut missing = HashSet::new();
        for (owner, row) in rows(&table) {
            let id = decode::identity(owner);
            let over = match processes.binary_search_by_key(&id, |process| process.id) {
                Ok(index) => {
                    hand(&mut processes[index], &row);
                    processes[index].ended()
                }
                Err(_) => self.missing.contains(&owner) || !missing.insert(owner),
            };
            if over {
                // Nobody else deletes rows: this fails only if the table went, and that with us.
                let _ = table.remove(&Record(owner));
            }
        }
        self.missing = missing;
    }

    fn table<'a>(&self, object: &'a mut Object) -> Option<ByOwner<'a, T>> {
        object.ebpf.map_mut(self.map).and_then(|map| Table::try_from(map).ok())
    }
}

type ByOwner<'a, T> = Table<&'a mut MapData, Record<Owner>, Record<T>>;

/// Every row once. The kernel starts over when the key that the walk stood at has gone, so a row
/// can come twice; one that is made meanwhile may wait for the next reading.
fn rows<T: Copy + FromBytes + IntoBytes + 'static>(table: &ByOwner<'_, T>) -> Vec<(Owner, T)> {
    let mut rows: Vec<_> =
        table.iter().flatten().map(|(Record(owner), Record(row))| (owner, row)).collect();
    rows.sort_by_key(|(owner, _)| *owner);
    rows.dedup_by_key(|(owner, _)| *owner);
    rows
}

/// Says since when a process is counted, if it is older than the counting.
pub fn mark_since(process: &mut Process, since: Ns) {
    if process.id.start < since {
        process.row.set(F::CountedSince, since.0);
    }
}
