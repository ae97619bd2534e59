//! The strings of a block: each is written once, and named by its number from then on.
//!
//! In: bytes, which need not be UTF-8. Out: numbers from 1 on, and the bytes of those that are
//! new. A block has its own, so that it can be read alone.

use super::error::Malformed;
use super::stream::Inputs;
use super::varint::put;
use std::collections::HashMap;
use std::sync::Arc;

/// Most bytes of strings that are remembered; what comes later is written each time.
const KNOWN_BYTES: usize = 16 << 20;

/// Strings that are written.
#[derive(Debug, Default)]
pub struct Strings {
    numbers: HashMap<Box<[u8]>, u64>,
    /// How many were told.
    told: u64,
    bytes: usize,
    /// The new ones, as they stand in their stream.
    new: Vec<u8>,
}

impl Strings {
    /// The number of a string.
    pub fn number(&mut self, string: &[u8]) -> u64 {
        if let Some(number) = self.numbers.get(string) {
            return *number;
        }
        put(&mut self.new, string.len() as u64);
        self.new.extend_from_slice(string);
        self.told += 1;
        if self.bytes + string.len() <= KNOWN_BYTES {
            self.bytes += string.len();
            let _new = self.numbers.insert(string.into(), self.told);
        }
        self.told
    }

    /// How many there are.
    pub const fn told(&self) -> u64 {
        self.told
    }

    /// Those that are new since this was last called.
    pub fn take_new(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.new)
    }
}

/// Strings that were read.
#[derive(Debug, Default)]
pub struct Known {
    strings: Vec<(Arc<[u8]>, Arc<str>)>,
}

impl Known {
    /// Reads so many new ones.
    pub fn read(
        &mut self,
        count: usize,
        inputs: &mut Inputs,
        stream: usize,
    ) -> Result<(), Malformed> {
        for _ in 0..count {
            let length = inputs.length(stream)?;
            let bytes = inputs.take(stream, length)?;
            self.strings.push((bytes.into(), String::from_utf8_lossy(bytes).into()));
        }
        Ok(())
    }

    /// The text of a number.
    pub fn text(&self, number: u64) -> Option<Arc<str>> {
        self.get(number).map(|(_, text)| Arc::clone(text))
    }

    /// The bytes of a number.
    pub fn bytes(&self, number: u64) -> Option<&[u8]> {
        self.get(number).map(|(bytes, _)| &**bytes)
    }

    fn get(&self, number: u64) -> Option<&(Arc<[u8]>, Arc<str>)> {
        self.strings.get(usize::try_from(number.checked_sub(1)?).ok()?)
    }
}
