//! What changed from one sheet to the next.
//!
//! In: two sheets. Out: the second as changes of the first, spread over streams: steps, keys,
//! masks, then a stream for each column. A row that did not change takes no byte at all.
//! What is read is bounded by [`CELL_BYTES`].

use super::error::Malformed;
use super::sheet::{CELL_BYTES, Key, Sheet, SheetRow};
use super::stream::Inputs;
use super::varint::{fold, put};
use std::collections::HashMap;

/// Streams of a sheet before those of its columns: steps, keys, masks.
pub const HEAD: usize = 3;
const STEPS: usize = 0;
const KEYS: usize = 1;
const MASK: usize = 2;

/// Most masks that are remembered.
const MASKS: usize = 1 << 16;

/// Which cells of a row are there or have changed. There are few of them in all, so each is
/// written once and then named by its number.
#[derive(Clone, Debug, Default)]
pub struct Masks {
    numbers: HashMap<u128, u64>,
    known: Vec<u128>,
}

impl Masks {
    fn write(&mut self, mask: u128, width: usize, out: &mut Vec<u8>) {
        if let Some(number) = self.numbers.get(&mask) {
            return put(out, *number);
        }
        put(out, 0);
        out.extend_from_slice(&mask.to_le_bytes()[..width.div_ceil(8)]);
        if self.learn(mask) {
            let _new = self.numbers.insert(mask, self.known.len() as u64);
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
            let known = self.known.get(at).copied();
            return known.ok_or(Malformed("a mask that was not told"));
        }
        let mut bytes = [0; 16];
        let count = width.div_ceil(8);
        bytes[..count].copy_from_slice(inputs.take(stream, count)?);
        let mask = u128::from_le_bytes(bytes);
        if mask.checked_shr(u32::try_from(width).unwrap_or(u32::MAX)).is_some_and(|it| it != 0) {
            return Err(Malformed("a mask names columns that are not there"));
        }
        let _there_is_room = self.learn(mask);
        Ok(mask)
    }

    fn learn(&mut self, mask: u128) -> bool {
        let room = self.known.len() < MASKS;
        if room {
            self.known.push(mask);
        }
        room
    }
}

/// What is done to the next row that is not skipped. 0 is the end.
const CHANGE: u64 = 1;
/// A change that also makes cells come or go.
const RESHAPE: u64 = 2;
const INSERT: u64 = 3;
const REMOVE: u64 = 4;
const ACTS: u64 = 5;

/// Writes what `now` is, in streams, as changes of `before`.
pub fn encode(before: &Sheet, now: &Sheet, masks: &mut Masks, out: &mut [Vec<u8>]) {
    let mut writer = Writer { masks, out, width: now.width(), last: Key::default(), skipped: 0 };
    let mut old = 0;
    for at in 0..now.len() {
        let new = now.row(at);
        while old < before.len() && before.row(old).key < new.key {
            writer.step(REMOVE);
            old += 1;
        }
        if old < before.len() && before.row(old).key == new.key {
            writer.keep(before.row(old), new);
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

struct Writer<'a> {
    masks: &'a mut Masks,
    out: &'a mut [Vec<u8>],
    width: usize,
    /// The key inserted last.
    last: Key,
    /// Rows since the last step that stay as they are.
    skipped: u64,
}

impl Writer<'_> {
    fn step(&mut self, act: u64) {
        put(&mut self.out[STEPS], self.skipped * ACTS + act);
        self.skipped = 0;
    }

    fn end(&mut self) {
        self.out[STEPS].push(0);
    }

    fn keep(&mut self, old: SheetRow<'_>, new: SheetRow<'_>) {
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

    fn insert(&mut self, new: SheetRow<'_>) {
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

    /// Of the cells that are there, those that differ from what was there; nothing was zero.
    fn cells(&mut self, old: Option<&[u64]>, new: SheetRow<'_>) {
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
            put(&mut self.out[HEAD + at], fold(difference));
        }
    }
}

/// Changes a sheet as the streams from `base` on say. `scratch` is room that is kept.
pub fn decode(
    sheet: &mut Sheet,
    scratch: &mut Sheet,
    masks: &mut Masks,
    inputs: &mut Inputs,
    base: usize,
) -> Result<(), Malformed> {
    let mut step = inputs.number(base + STEPS)?;
    if step == 0 {
        return Ok(());
    }
    scratch.clear();
    let mut reader = Reader { masks, inputs, base, last: Key::default() };
    let mut old = 0_usize;
    while step != 0 {
        let skipped = usize::try_from(step / ACTS).map_err(|_| BEYOND)?;
        let end = old.saturating_add(skipped);
        if end > sheet.len() {
            return Err(BEYOND);
        }
        scratch.copy(sheet, old..end);
        old = end;
        match step % ACTS {
            INSERT => reader.insert(scratch)?,
            _ if old >= sheet.len() => return Err(BEYOND),
            act => {
                if act != REMOVE {
                    scratch.copy(sheet, old..old + 1);
                    reader.change(scratch, act == RESHAPE)?;
                }
                old += 1;
            }
        }
        step = reader.inputs.number(base + STEPS)?;
    }
    scratch.copy(sheet, old..sheet.len());
    std::mem::swap(sheet, scratch);
    Ok(())
}

const BEYOND: Malformed = Malformed("a change of a row that is not there");

struct Reader<'a> {
    masks: &'a mut Masks,
    inputs: &'a mut Inputs,
    base: usize,
    last: Key,
}

impl Reader<'_> {
    fn mask(&mut self, width: usize) -> Result<u128, Malformed> {
        self.masks.read(width, self.inputs, self.base + MASK)
    }

    fn insert(&mut self, sheet: &mut Sheet) -> Result<(), Malformed> {
        if sheet.bytes_of(sheet.len() + 1) > CELL_BYTES {
            return Err(Malformed("more rows than a sample may have"));
        }
        for part in &mut self.last {
            let difference = self.inputs.difference(self.base + KEYS)?;
            *part = part.wrapping_add(difference.cast_unsigned());
        }
        let present = self.mask(sheet.width())?;
        sheet.push(self.last, present, &[]);
        self.cells(sheet)
    }

    fn change(&mut self, sheet: &mut Sheet, reshaped: bool) -> Result<(), Malformed> {
        if reshaped {
            let present = self.mask(sheet.width())?;
            let (was, cells) = sheet.last().ok_or(BEYOND)?;
            *was = present;
            for (at, cell) in cells.iter_mut().enumerate() {
                *cell = if present & (1 << at) != 0 { *cell } else { 0 };
            }
        }
        self.cells(sheet)
    }

    fn cells(&mut self, sheet: &mut Sheet) -> Result<(), Malformed> {
        let mut left = self.mask(sheet.width())?;
        let (_, cells) = sheet.last().ok_or(BEYOND)?;
        while left != 0 {
            let at = left.trailing_zeros() as usize;
            left &= left - 1;
            let difference = self.inputs.difference(self.base + HEAD + at)?;
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

    fn sheet(rows: &[(u64, u128, [u64; 3])]) -> Sheet {
        let mut it = Sheet::new(3);
        for (key, present, cells) in rows {
            it.push([*key, 0, 0, 0], *present, cells);
        }
        it
    }

    fn any_sheet() -> impl Strategy<Value = Sheet> {
        let row = (0..6_u64, 0..8_u128, prop::array::uniform3(0..3_u64));
        prop::collection::btree_map(0..9_u64, row, 0..7).prop_map(|rows| {
            let rows = rows.into_iter().map(|(key, (_, present, cells))| (key, present, cells));
            sheet(&rows.collect::<Vec<_>>())
        })
    }

    /// The streams of a row of sheets, and how long the last of them is.
    fn written(sheets: &[Sheet]) -> (Vec<u8>, usize) {
        let (mut before, mut masks) = (Sheet::new(3), Masks::default());
        let (mut all, mut last) = (Streams::new(HEAD + 3), 0);
        for sheet in sheets {
            let length = all.len();
            encode(&before, sheet, &mut masks, all.part(0..HEAD + 3));
            last = all.len() - length;
            before.clone_from(sheet);
        }
        let mut out = Vec::new();
        all.write(&mut out);
        (out, last)
    }

    proptest! {
        #[test]
        fn what_changed_makes_the_next_sheet(
            sheets in prop::collection::vec(any_sheet(), 1..5)
        ) {
            let mut inputs = Inputs::new(written(&sheets).0, HEAD + 3).expect("as written");
            let (mut it, mut scratch, mut masks) = (Sheet::new(3), Sheet::new(3), Masks::default());
            for sheet in &sheets {
                decode(&mut it, &mut scratch, &mut masks, &mut inputs, 0).expect("as written");
                prop_assert_eq!(&it, sheet);
            }
        }

        #[test]
        fn any_bytes_are_a_sheet_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let (mut it, mut scratch, mut masks) = (Sheet::new(3), Sheet::new(3), Masks::default());
            let mut streams = Streams::new(HEAD + 3);
            for (at, byte) in bytes.iter().enumerate() {
                streams.part(0..HEAD + 3)[at % 6].push(*byte);
            }
            let mut out = Vec::new();
            streams.write(&mut out);
            let mut inputs = Inputs::new(out, HEAD + 3).expect("as written");
            while decode(&mut it, &mut scratch, &mut masks, &mut inputs, 0).is_ok() {}
            prop_assert!(it.bytes_of(it.len()) <= CELL_BYTES);
        }
    }

    #[test]
    fn what_stays_as_it_is_takes_one_byte_in_all() {
        let same = sheet(&[(1, 7, [5, 6, 7]), (2, 3, [8, 9, 0]), (4, 0, [0; 3])]);
        assert_eq!(written(&[same.clone(), same]).1, 1);
    }

    #[test]
    fn one_changed_cell_takes_a_step_a_mask_and_its_growth() {
        let one = |cpu| sheet(&[(1, 7, [5, 6, 7]), (2, 7, [8, cpu, 7])]);
        assert_eq!(written(&[one(6), one(8), one(10)]).1, 1 + 1 + 1 + 1);
    }

    #[test]
    fn an_absent_cell_is_not_zero() {
        let gone = [sheet(&[(1, 7, [5, 6, 7])]), sheet(&[(1, 5, [5, 0, 7])])];
        let mut inputs = Inputs::new(written(&gone).0, HEAD + 3).expect("as written");
        let (mut it, mut scratch, mut masks) = (Sheet::new(3), Sheet::new(3), Masks::default());
        for _ in 0..2 {
            decode(&mut it, &mut scratch, &mut masks, &mut inputs, 0).expect("as written");
        }
        assert_eq!((it.row(0).present, it.row(0).cells), (5, &[5, 0, 7][..]));
    }
}
