//! Delta encoding: the differences from one table to the next.
//!
//! In: two tables. Out: the second as changes of the first, in streams: steps, keys, masks, then
//! one stream per column. An unchanged row takes no byte. Decoding is bounded by the memory that
//! the caller allows for the table.

use super::table::{ColumnRow, ColumnTable, TableKey};
use super::varint::{fold, put};
use super::{error::Malformed, stream::Inputs};
use std::collections::HashMap;

/// Streams of a table before those of its columns: steps, keys, masks.
pub const HEAD_STREAMS: usize = 3;
const STEPS: usize = 0;
const KEYS: usize = 1;
const MASK: usize = 2;

/// Maximum number of remembered masks.
const MAX_MASKS: usize = 1 << 16;

/// Masks of the cells of a row that are present or have changed. There are few different ones, so
/// each is written once and then referred to by number.
#[derive(Clone, Debug, Default)]
pub struct MaskTable {
    numbers: HashMap<u128, u64>,
    masks: Vec<u128>,
}

impl MaskTable {
    fn write(&mut self, mask: u128, width: usize, out: &mut Vec<u8>) {
        if let Some(number) = self.numbers.get(&mask) {
            return put(out, *number);
        }
        put(out, 0);
        out.extend_from_slice(&mask.to_le_bytes()[..width.div_ceil(8)]);
        if self.remember(mask) {
            let _new = self.numbers.insert(mask, self.masks.len() as u64);
        }
    }

    fn read(
        &mut self,
        width: usize,
        inputs: &mut Inputs,
        stream: usize,
    ) -> Result<u128, Malformed> {
        let number = inputs.length(stream)?;
        if let Some(at) = number.checked_sub(1) {
            let known = self.masks.get(at).copied();
            return known.ok_or(Malformed("an undefined mask"));
        }
        let mut bytes = [0; 16];
        let count = width.div_ceil(8);
        bytes[..count].copy_from_slice(inputs.take(stream, count)?);
        let mask = u128::from_le_bytes(bytes);
        if mask.checked_shr(u32::try_from(width).unwrap_or(u32::MAX)).is_some_and(|it| it != 0) {
            return Err(Malformed("a mask with undefined columns"));
        }
        let _there_is_room = self.remember(mask);
        Ok(mask)
    }

    fn remember(&mut self, mask: u128) -> bool {
        let has_space = self.masks.len() < MAX_MASKS;
        if has_space {
            self.masks.push(mask);
        }
        has_space
    }
}

/// The change of the next row that is not skipped. 0 is the end.
const CHANGE: u64 = 1;
/// A change that also changes which cells are present.
const RESHAPE: u64 = 2;
const INSERT: u64 = 3;
const REMOVE: u64 = 4;
const STEP_KINDS: u64 = 5;

/// Encodes `now` as changes of `before`.
pub fn encode(before: &ColumnTable, now: &ColumnTable, masks: &mut MaskTable, out: &mut [Vec<u8>]) {
    let mut writer =
        DeltaWriter { masks, out, width: now.width(), last: TableKey::default(), skipped: 0 };
    let mut old = 0;
    for at in 0..now.len() {
        let new = now.row(at);
        while old < before.len() && before.row(old).key < new.key {
            writer.step(REMOVE);
            old += 1;
        }
        if old < before.len() && before.row(old).key == new.key {
            writer.update(before.row(old), new);
            old += 1;
        } else {
            writer.insert(new);
        }
    }
    for _ in old..before.len() {
        writer.step(REMOVE);
    }
    writer.end();
}

struct DeltaWriter<'a> {
    masks: &'a mut MaskTable,
    out: &'a mut [Vec<u8>],
    width: usize,
    /// The last inserted key.
    last: TableKey,
    /// Unchanged rows since the last step.
    skipped: u64,
}

impl DeltaWriter<'_> {
    fn step(&mut self, change: u64) {
        put(&mut self.out[STEPS], self.skipped * STEP_KINDS + change);
        self.skipped = 0;
    }

    fn end(&mut self) {
        self.out[STEPS].push(0);
    }

    fn update(&mut self, old: ColumnRow<'_>, new: ColumnRow<'_>) {
        if old.present == new.present && old.cells == new.cells {
            self.skipped += 1;
            return;
        }
        if old.present == new.present {
            self.step(CHANGE);
        } else {
            self.step(RESHAPE);
            self.mask(new.present);
        }
        self.cells(Some(old.cells), new);
    }

    fn insert(&mut self, new: ColumnRow<'_>) {
        self.step(INSERT);
        for (part, last) in new.key.iter().zip(&self.last) {
            put(&mut self.out[KEYS], fold(part.wrapping_sub(*last).cast_signed()));
        }
        self.last = *new.key;
        self.mask(new.present);
        self.cells(None, new);
    }

    fn mask(&mut self, mask: u128) {
        self.masks.write(mask, self.width, &mut self.out[MASK]);
    }

    /// Writes the present cells that differ from the old ones; without an old row, from zero.
    fn cells(&mut self, old: Option<&[u64]>, new: ColumnRow<'_>) {
        let was = |at: usize| old.map_or(0, |old| old[at]);
        let mut changed = 0_u128;
        for at in 0..self.width {
            if new.present & (1 << at) != 0 && was(at) != new.cells[at] {
                changed |= 1 << at;
            }
        }
        self.mask(changed);
        let mut left = changed;
        while left != 0 {
            let at = left.trailing_zeros() as usize;
            left &= left - 1;
            let difference = new.cells[at].wrapping_sub(was(at)).cast_signed();
            put(&mut self.out[HEAD_STREAMS + at], fold(difference));
        }
    }
}

/// The streams of a table.
pub struct TableInput<'a> {
    /// All streams.
    pub inputs: &'a mut Inputs,
    /// The first stream of the table.
    pub base: usize,
    /// Maximum memory of the table, in bytes.
    pub max_bytes: usize,
}

/// Applies changes to a table. `scratch` is a reused buffer.
pub fn decode(
    table: &mut ColumnTable,
    scratch: &mut ColumnTable,
    masks: &mut MaskTable,
    TableInput { inputs, base, max_bytes }: TableInput<'_>,
) -> Result<(), Malformed> {
    let mut step = inputs.number(base + STEPS)?;
    if step == 0 {
        return Ok(());
    }
    scratch.clear();
    let mut reader = DeltaReader { masks, inputs, base, last: TableKey::default() };
    let mut old = 0_usize;
    while step != 0 {
        let skipped = usize::try_from(step / STEP_KINDS).map_err(|_| BEYOND)?;
        let end = old.saturating_add(skipped);
        if end > table.len() {
            return Err(BEYOND);
        }
        // One more for the row of this step.
        if table.memory_for(scratch.len() + skipped + 1) > max_bytes {
            return Err(TOO_MANY);
        }
        scratch.append_rows(table, old..end);
        old = end;
        match step % STEP_KINDS {
            INSERT => reader.insert(scratch)?,
            _ if old >= table.len() => return Err(BEYOND),
            change => {
                if change != REMOVE {
                    scratch.append_rows(table, old..old + 1);
                    reader.change(scratch, change == RESHAPE)?;
                }
                old += 1;
            }
        }
        step = reader.inputs.number(base + STEPS)?;
    }
    if table.memory_for(scratch.len() + table.len() - old) > max_bytes {
        return Err(TOO_MANY);
    }
    scratch.append_rows(table, old..table.len());
    std::mem::swap(table, scratch);
    Ok(())
}

const TOO_MANY: Malformed = Malformed("more rows than the maximum");
const BEYOND: Malformed = Malformed("a change of a missing row");

struct DeltaReader<'a> {
    masks: &'a mut MaskTable,
    inputs: &'a mut Inputs,
    base: usize,
    last: TableKey,
}

impl DeltaReader<'_> {
    fn mask(&mut self, width: usize) -> Result<u128, Malformed> {
        self.masks.read(width, self.inputs, self.base + MASK)
    }

    fn insert(&mut self, table: &mut ColumnTable) -> Result<(), Malformed> {
        for part in &mut self.last {
            let difference = self.inputs.difference(self.base + KEYS)?;
            *part = part.wrapping_add(difference.cast_unsigned());
        }
        let present = self.mask(table.width())?;
        table.push(self.last, present, &[]);
        self.cells(table)
    }

    fn change(&mut self, table: &mut ColumnTable, reshaped: bool) -> Result<(), Malformed> {
        if reshaped {
            let present = self.mask(table.width())?;
            let (was, cells) = table.last().ok_or(BEYOND)?;
            *was = present;
            for (at, cell) in cells.iter_mut().enumerate() {
                *cell = if present & (1 << at) != 0 { *cell } else { 0 };
            }
        }
        self.cells(table)
    }

    fn cells(&mut self, table: &mut ColumnTable) -> Result<(), Malformed> {
        let mut left = self.mask(table.width())?;
        let (_, cells) = table.last().ok_or(BEYOND)?;
        while left != 0 {
            let at = left.trailing_zeros() as usize;
            left &= left - 1;
            let difference = self.inputs.difference(self.base + HEAD_STREAMS + at)?;
            let cell = &mut cells[at];
            *cell = cell.wrapping_add(difference.cast_unsigned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::stream::Streams;
    use super::*;
    use proptest::prelude::*;

    fn table(rows: &[(u64, u128, [u64; 3])]) -> ColumnTable {
        let mut it = ColumnTable::new(3);
        for (key, present, cells) in rows {
            it.push([*key, 0, 0, 0], *present, cells);
        }
        it
    }

    /// Maximum memory of a table in the tests.
    const TEST_BYTES: usize = 1024;

    fn whole(inputs: &mut Inputs) -> TableInput<'_> {
        TableInput { inputs, base: 0, max_bytes: TEST_BYTES }
    }

    fn any_table() -> impl Strategy<Value = ColumnTable> {
        let row = (0..6_u64, 0..8_u128, prop::array::uniform3(0..3_u64));
        prop::collection::btree_map(0..9_u64, row, 0..7).prop_map(|rows| {
            let rows = rows.into_iter().map(|(key, (_, present, cells))| (key, present, cells));
            table(&rows.collect::<Vec<_>>())
        })
    }

    /// The streams of consecutive tables, and the length of the last.
    fn written(tables: &[ColumnTable]) -> (Vec<u8>, usize) {
        let (mut before, mut masks) = (ColumnTable::new(3), MaskTable::default());
        let (mut all, mut last) = (Streams::new(HEAD_STREAMS + 3), 0);
        for table in tables {
            let length = all.len();
            encode(&before, table, &mut masks, all.part(0..HEAD_STREAMS + 3));
            last = all.len() - length;
            before.clone_from(table);
        }
        let mut out = Vec::new();
        all.write(&mut out);
        (out, last)
    }

    proptest! {
        #[test]
        fn the_changes_restore_the_next_table(
            tables in prop::collection::vec(any_table(), 1..5)
        ) {
            let mut inputs = Inputs::new(written(&tables).0, HEAD_STREAMS + 3).expect("as written");
            let (mut it, mut scratch) = (ColumnTable::new(3), ColumnTable::new(3));
        let mut masks = MaskTable::default();
            for table in &tables {
                decode(&mut it, &mut scratch, &mut masks, whole(&mut inputs)).expect("as written");
                prop_assert_eq!(&it, table);
            }
        }

        #[test]
        fn any_bytes_are_a_table_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let (mut it, mut scratch) = (ColumnTable::new(3), ColumnTable::new(3));
        let mut masks = MaskTable::default();
            let mut streams = Streams::new(HEAD_STREAMS + 3);
            for (at, byte) in bytes.iter().enumerate() {
                streams.part(0..HEAD_STREAMS + 3)[at % 6].push(*byte);
            }
            let mut out = Vec::new();
            streams.write(&mut out);
            let mut inputs = Inputs::new(out, HEAD_STREAMS + 3).expect("as written");
            while decode(&mut it, &mut scratch, &mut masks, whole(&mut inputs)).is_ok() {}
            prop_assert!(it.memory_for(it.len()) <= TEST_BYTES);
        }
    }

    #[test]
    fn an_unchanged_table_takes_one_byte() {
        let same = table(&[(1, 7, [5, 6, 7]), (2, 3, [8, 9, 0]), (4, 0, [0; 3])]);
        assert_eq!(written(&[same.clone(), same]).1, 1);
    }

    #[test]
    fn one_changed_cell_takes_a_step_a_mask_and_its_difference() {
        let one = |cpu| table(&[(1, 7, [5, 6, 7]), (2, 7, [8, cpu, 7])]);
        assert_eq!(written(&[one(6), one(8), one(10)]).1, 1 + 1 + 1 + 1);
    }

    #[test]
    fn an_absent_cell_is_not_zero() {
        let gone = [table(&[(1, 7, [5, 6, 7])]), table(&[(1, 5, [5, 0, 7])])];
        let mut inputs = Inputs::new(written(&gone).0, HEAD_STREAMS + 3).expect("as written");
        let (mut it, mut scratch, mut masks) =
            (ColumnTable::new(3), ColumnTable::new(3), MaskTable::default());
        for _ in 0..2 {
            decode(&mut it, &mut scratch, &mut masks, whole(&mut inputs)).expect("as written");
        }
        assert_eq!((it.row(0).present, it.row(0).cells), (5, &[5, 0, 7][..]));
    }

    #[test]
    fn rows_inserted_before_others_in_each_sample_do_not_exceed_the_maximum() {
        let mut streams = Streams::new(HEAD_STREAMS + 3);
        let part = streams.part(0..HEAD_STREAMS + 3);
        for _ in 0..9 {
            part[STEPS].extend([3, 3, 3, 0]);
            part[KEYS].extend([0; 12]);
            part[MASK].extend([0, 0, 1, 0, 0, 1]);
        }
        let mut out = Vec::new();
        streams.write(&mut out);
        let mut inputs = Inputs::new(out, HEAD_STREAMS + 3).expect("as written");
        let (mut it, mut scratch) = (ColumnTable::new(3), ColumnTable::new(3));
        let mut masks = MaskTable::default();
        let mut samples = 0;
        while decode(&mut it, &mut scratch, &mut masks, whole(&mut inputs)).is_ok() {
            samples += 1;
        }
        assert!((1..9).contains(&samples), "{samples}");
        assert!(it.memory_for(it.len()) <= TEST_BYTES);
    }
}
