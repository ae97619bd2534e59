//! Numbers that have names: constants of an enumeration, bits of a mask, handles.
//!
//! In: rows of name, number and the bits that count. Out: the name of a number, or its names.

use std::{collections::HashMap, fmt::Write as _};

/// The names of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueNames {
    /// Whether several can hold at once.
    pub are_flags: bool,
    /// In order; the first that fits counts.
    pub rows: Vec<NamedValue>,
}

/// One name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedValue {
    /// The name.
    pub name: String,
    /// What it stands for.
    pub number: NameTarget,
    /// The bits that are compared.
    pub mask: u64,
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameTarget {
    /// A constant.
    Constant(u64),
    /// The address of this variable of the library, another one in each process.
    AddressOf(String),
}

impl ValueNames {
    /// The name of a number of `bits` bits; its names, if several can hold.
    pub fn name(&self, number: u64, bits: u64) -> Option<String> {
        let fits = |row: &&NamedValue| match row.number {
            NameTarget::Constant(it) => (number ^ it) & row.mask & bits == 0,
            NameTarget::AddressOf(_) => false,
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
    pub fn address_name(&self, number: u64, of: &HashMap<String, u64>) -> Option<&str> {
        let is_it = |row: &&NamedValue| match &row.number {
            NameTarget::AddressOf(name) => of.get(name) == Some(&number),
            NameTarget::Constant(_) => false,
        };
        self.rows.iter().find(is_it).map(|row| row.name.as_str())
    }

    /// The variables whose addresses have names.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().filter_map(|row| match &row.number {
            NameTarget::AddressOf(name) => Some(name.as_str()),
            NameTarget::Constant(_) => None,
        })
    }

    /// The number of a name.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.rows.iter().find(|row| row.name == name).and_then(|row| match row.number {
            NameTarget::Constant(number) => Some(number),
            NameTarget::AddressOf(_) => None,
        })
    }
}
