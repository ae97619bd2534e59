//! Numbers that have names: constants of an enumeration, bits of a mask, handles.
//!
//! In: rows of name, number and the bits that count. Out: the name of a number, or its names.

use std::collections::HashMap;
use std::fmt::Write as _;

/// The names of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Whether several can hold at once.
    pub are_flags: bool,
    /// In order; the first that fits counts.
    pub rows: Vec<Row>,
}

/// One name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The name.
    pub name: String,
    /// What it stands for.
    pub number: Number,
    /// The bits that are looked at.
    pub mask: u64,
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Number {
    /// A constant.
    Is(u64),
    /// The address of this variable of the library, another one in each process.
    AddressOf(String),
}

impl Names {
    /// The name of a number, in so many bits; its names, where several can hold.
    pub fn of(&self, number: u64, bits: u64) -> Option<String> {
        let fits = |row: &&Row| match row.number {
            Number::Is(it) => (number ^ it) & row.mask & bits == 0,
            Number::AddressOf(_) => false,
        };
        if !self.are_flags {
            return self.rows.iter().find(fits).map(|row| row.name.clone());
        }
        let (mut left, mut text) = (number & bits, String::new());
        for row in self.rows.iter().filter(fits) {
            if !text.is_empty() {
                text.push('|');
            }
            text.push_str(&row.name);
            left &= !row.mask;
        }
        if left != 0 || text.is_empty() {
            let separator = if text.is_empty() { "" } else { "|" };
            _ = write!(text, "{separator}{left:#x}");
        }
        Some(text)
    }

    /// The name of the variable that this is the address of.
    pub fn of_address(&self, number: u64, of: &HashMap<String, u64>) -> Option<&str> {
        let is_it = |row: &&Row| match &row.number {
            Number::AddressOf(name) => of.get(name) == Some(&number),
            Number::Is(_) => false,
        };
        self.rows.iter().find(is_it).map(|row| row.name.as_str())
    }

    /// The variables whose addresses have names.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().filter_map(|row| match &row.number {
            Number::AddressOf(name) => Some(name.as_str()),
            Number::Is(_) => None,
        })
    }

    /// The number of a name.
    pub fn named(&self, name: &str) -> Option<u64> {
        self.rows.iter().find(|row| row.name == name).and_then(|row| match row.number {
            Number::Is(number) => Some(number),
            Number::AddressOf(_) => None,
        })
    }
}
