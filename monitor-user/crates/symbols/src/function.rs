//! The function that an address is in: its instructions, and how sure it is that calls enter it.
//!
//! In: an image and an address, or a symbol. Out: a range of code. Decoding goes forward from its
//! beginning: x86 code cannot be read backwards.

use super::elf::{Image, Kind, Symbol};
use super::error::Error;
use super::instruction::{self, Instruction};
use std::ops::Range;

/// Most bytes of one function that are decoded.
const LONGEST: u64 = 4 << 20;

/// A piece of code with one beginning.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its addresses in the file.
    pub range: Range<u64>,
    /// Whether it is entered by calls alone, so that nothing below the stack pointer is in use
    /// there: a part that the compiler moved out of a function is jumped to.
    pub is_called: bool,
}

impl Function {
    /// The one around an address; none where neither a name nor the unwind tables tell of one.
    pub fn around(image: &Image, address: u64) -> Result<Option<Self>, Error> {
        let mut symbols = image.symbols(|_| true)?;
        symbols.retain(|it| matches!(it.kind, Kind::Function | Kind::Chooser | Kind::Label));
        let holds = |it: &&Symbol| it.size > 0 && extent(it).contains(&address);
        let is_function = |it: &&Symbol| it.kind != Kind::Label;
        let functions = symbols.iter().filter(is_function);
        // The innermost: a name inside another function is one more place to enter it.
        if let Some(it) = functions.filter(holds).max_by_key(|it| it.address) {
            return Ok(Some(Self::named(it, &symbols)));
        }
        if let Some(range) = image.unwind_range(address) {
            let it = symbols.iter().find(|it| it.address == range.start);
            let name = it.map(|it| it.name.clone());
            let is_called = it.is_some_and(|it| is_called(it, &symbols));
            return Ok(Some(Self { name, range, is_called }));
        }
        // Assembly code may have a name without a size, which then ends at the next name.
        let label = symbols.iter().filter(|it| it.address == address && it.size == 0);
        let next = symbols.iter().map(|it| it.address).filter(|it| *it > address).min();
        let end = next.unwrap_or(address + LONGEST);
        Ok(label.max_by_key(|it| it.kind == Kind::Function).map(|it| Self {
            name: Some(it.name.clone()),
            range: address..end,
            is_called: is_called(it, &symbols),
        }))
    }

    fn named(symbol: &Symbol, all: &[Symbol]) -> Self {
        let is_called = is_called(symbol, all);
        Self { name: Some(symbol.name.clone()), range: extent(symbol), is_called }
    }

    /// Its instructions, as far as they can be read.
    pub fn instructions(&self, image: &Image) -> Result<Vec<Instruction>, Error> {
        let length = self.range.end.saturating_sub(self.range.start).min(LONGEST);
        let code = image.code(self.range.start, length)?;
        Ok(instruction::walk(&code, self.range.start).collect())
    }
}

fn extent(symbol: &Symbol) -> Range<u64> {
    symbol.address..symbol.address.saturating_add(symbol.size)
}

/// Whether a name is that of a function, and not of a place that other code runs or jumps into.
fn is_called(symbol: &Symbol, all: &[Symbol]) -> bool {
    let is_part = symbol.name.contains(".cold") || symbol.kind == Kind::Label;
    let surrounds = |it: &Symbol| {
        it.kind == Kind::Function
            && it.address < symbol.address
            && extent(it).contains(&symbol.address)
    };
    !is_part && !all.iter().any(surrounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(name: &str, kind: Kind, address: u64, size: u64) -> Symbol {
        let name = name.to_owned();
        Symbol { name, version: None, is_old: false, kind, address, size }
    }

    #[test]
    fn only_a_function_of_its_own_is_entered_by_calls_alone() {
        let whole = symbol("f", Kind::Function, 0x100, 0x40);
        let inner = symbol("f_nocancel", Kind::Function, 0x110, 0x10);
        let cold = symbol("f.cold", Kind::Function, 0x200, 0x10);
        let label = symbol("f_entry", Kind::Label, 0x300, 0);
        let all = [whole.clone(), inner.clone(), cold.clone(), label.clone()];
        let said = all.iter().map(|it| is_called(it, &all));
        assert_eq!(Vec::from_iter(said), [true, false, false, false]);
    }
}
