//! The function that contains an address: its range, its instructions, whether calls enter it.
//!
//! In: an image and an address. Out: a range of code. Decoding goes forward from the start of the
//! function, because x86 code cannot be decoded backwards.

use super::SymbolError;
use super::elf::{ElfImage, Symbol, SymbolKind};
use super::instruction::{self, Instruction};
use std::ops::Range;

/// Most bytes of a function that are decoded.
const LONGEST: u64 = 4 << 20;

/// A piece of code with one entry.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its addresses in the file.
    pub range: Range<u64>,
    /// Whether only calls enter it, so that nothing below the stack pointer is in use at its entry.
    /// A cold part that the compiler has split off is entered by jumps.
    pub is_called: bool,
}

impl Function {
    /// The function around an address; `None` if neither a symbol nor an unwind table covers it.
    pub fn around(image: &ElfImage, address: u64) -> Result<Option<Self>, SymbolError> {
        // Symbols farther away concern other functions.
        let symbols = image.symbols_where(|symbol| {
            matches!(symbol.kind, SymbolKind::Function | SymbolKind::Ifunc | SymbolKind::Label)
                && (symbol.address.abs_diff(address) <= LONGEST
                    || address.checked_sub(symbol.address).is_some_and(|it| it < symbol.size))
        })?;
        let holds = |it: &&Symbol| it.size > 0 && extent(it).contains(&address);
        let is_function = |it: &&Symbol| it.kind != SymbolKind::Label;
        let functions = symbols.iter().filter(is_function);
        // The innermost one: a symbol inside another function is another entry of it.
        if let Some(it) = functions.filter(holds).max_by_key(|it| it.address) {
            return Ok(Some(Self::named(it, &symbols)));
        }
        if let Some(range) = image.unwind_range(address) {
            let it = symbols.iter().find(|it| it.address == range.start);
            let name = it.map(|it| it.name.clone());
            let is_called = it.is_some_and(|it| is_called(it, &symbols));
            return Ok(Some(Self { name, range, is_called }));
        }
        // Assembly code may have a symbol without size, which ends at the next symbol.
        let label = symbols.iter().filter(|it| it.address == address && it.size == 0);
        let next = symbols.iter().map(|it| it.address).filter(|it| *it > address).min();
        let end = next.unwrap_or(address.saturating_add(LONGEST));
        Ok(label.max_by_key(|it| it.kind == SymbolKind::Function).map(|it| Self {
            name: Some(it.name.clone()),
            range: address..end,
            is_called: is_called(it, &symbols),
        }))
    }

    fn named(symbol: &Symbol, all: &[Symbol]) -> Self {
        let is_called = is_called(symbol, all);
        Self { name: Some(symbol.name.clone()), range: extent(symbol), is_called }
    }

    /// Its instructions, as far as they can be decoded.
    pub fn instructions(&self, image: &ElfImage) -> Result<Vec<Instruction>, SymbolError> {
        let length = self.range.end.saturating_sub(self.range.start).min(LONGEST);
        let code = image.code(self.range.start, length)?;
        Ok(instruction::walk(&code, self.range.start).collect())
    }
}

fn extent(symbol: &Symbol) -> Range<u64> {
    symbol.address..symbol.address.saturating_add(symbol.size)
}

/// Whether a symbol is a function of its own, not a label or a part that other code jumps to.
fn is_called(symbol: &Symbol, all: &[Symbol]) -> bool {
    let is_part = symbol.name.contains(".cold") || symbol.kind == SymbolKind::Label;
    let surrounds = |it: &Symbol| {
        it.kind == SymbolKind::Function
            && it.address < symbol.address
            && extent(it).contains(&symbol.address)
    };
    !is_part && !all.iter().any(surrounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(name: &str, kind: SymbolKind, address: u64, size: u64) -> Symbol {
        let name = name.to_owned();
        Symbol { name, version: None, is_old: false, kind, address, size }
    }

    #[test]
    fn only_a_function_of_its_own_is_entered_by_calls_alone() {
        let whole = symbol("f", SymbolKind::Function, 0x100, 0x40);
        let inner = symbol("f_nocancel", SymbolKind::Function, 0x110, 0x10);
        let cold = symbol("f.cold", SymbolKind::Function, 0x200, 0x10);
        let label = symbol("f_entry", SymbolKind::Label, 0x300, 0);
        let all = [whole.clone(), inner.clone(), cold.clone(), label.clone()];
        let called = all.iter().map(|it| is_called(it, &all));
        assert_eq!(Vec::from_iter(called), [true, false, false, false]);
    }
}
