//! The string table of a block: each string is written once and then referred to by number.
//!
//! In: bytes, which need not be UTF-8. Out: numbers from 1 on, and the bytes of new strings. Each
//! block has its own table, so that it is self-contained.

use super::{budget::Budget, error::Malformed, stream::Inputs, varint::put};
use std::{borrow::Cow, collections::HashMap, sync::Arc};

/// Maximum bytes of remembered strings; later ones are written each time.
const KNOWN_BYTES: usize = 16 << 20;

/// Strings to write.
#[derive(Debug, Default)]
pub struct StringWriter {
    numbers: HashMap<Box<[u8]>, u64>,
    /// Number of strings written.
    count: u64,
    bytes: usize,
    /// New strings in the encoding of their stream.
    new: Vec<u8>,
}

impl StringWriter {
    /// The number of a string.
    pub fn number(&mut self, string: &[u8]) -> u64 {
        if let Some(number) = self.numbers.get(string) {
            return *number;
        }
        put(&mut self.new, string.len() as u64);
        self.new.extend_from_slice(string);
        self.count += 1;
        if self.bytes + string.len() <= KNOWN_BYTES {
            self.bytes += string.len();
            let _new = self.numbers.insert(string.into(), self.count);
        }
        self.count
    }

    /// Number of strings written.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Takes the strings that are new since the last call.
    pub fn take_new(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.new)
    }
}

/// A string: its text, and its bytes where they are not UTF-8.
#[derive(Debug)]
struct TableString {
    text: Arc<str>,
    bytes: Option<Box<[u8]>>,
}

/// Memory of a string without its bytes: the entry, and two allocations.
const STRING_BYTES: usize = size_of::<TableString>() + 64;

/// Strings read so far.
#[derive(Debug, Default)]
pub struct StringTable {
    strings: Vec<TableString>,
}

impl StringTable {
    /// Reads `count` new strings.
    pub fn read(
        &mut self,
        count: usize,
        inputs: &mut Inputs,
        stream: usize,
        budget: &mut Budget,
    ) -> Result<(), Malformed> {
        for _ in 0..count {
            let length = inputs.length(stream)?;
            let bytes = inputs.take(stream, length)?;
            // A byte that is not UTF-8 becomes three.
            budget.take_string(STRING_BYTES.saturating_add(length.saturating_mul(4)))?;
            let (text, bytes) = match String::from_utf8_lossy(bytes) {
                Cow::Borrowed(text) => (text.into(), None),
                Cow::Owned(text) => (text.into(), Some(bytes.into())),
            };
            self.strings.push(TableString { text, bytes });
        }
        Ok(())
    }

    /// The text of a string number.
    pub fn text(&self, number: u64) -> Option<Arc<str>> {
        self.get(number).map(|it| Arc::clone(&it.text))
    }

    /// The bytes of a string number.
    pub fn bytes(&self, number: u64) -> Option<&[u8]> {
        self.get(number).map(|it| it.bytes.as_deref().unwrap_or(it.text.as_bytes()))
    }

    fn get(&self, number: u64) -> Option<&TableString> {
        self.strings.get(usize::try_from(number.checked_sub(1)?).ok()?)
    }
}
