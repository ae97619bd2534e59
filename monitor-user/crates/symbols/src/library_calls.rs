//! The functions of a library that a process calls: those that its other files import, and where
//! each can be probed.
//!
//! In: the files of a process, and the names of the functions of a library. A file that defines one
//! of its marks is a part of it, and calls within the library are no calls of the program. Out: for
//! each function its first instruction, its ends, or why it has none that can be seen. A program
//! that the library is linked into imports nothing; there all its functions are taken.

use super::elf::{ElfImage, Symbol, SymbolKind};
use super::ends::{FunctionEnds, ends};
use super::mapped_files::MappedFile;
use super::site::{self, ProbeCost};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A function that is called.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct CalledFunction {
    /// The name that the library's names were unified to.
    pub name: String,
    /// Offset of the probe at its start in the file, in bytes.
    pub offset: u64,
    /// Cost of a hit there.
    pub cost: ProbeCost,
    /// Its ends; why they cannot be used, if so.
    pub ends: Result<FunctionEnds, String>,
    /// Why its return address must not be replaced, if so.
    pub trampoline: Result<(), String>,
}

/// The functions of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CalledFunctions {
    /// Those that can be probed.
    pub functions: Vec<CalledFunction>,
    /// Those that cannot, by name, and why.
    pub refused: BTreeMap<String, String>,
}

/// Finds called functions; keeps what it found in a file for other processes with the same one.
#[derive(Debug)]
pub struct CallFinder {
    /// The unified name of a symbol, if it is one of the library.
    unified: fn(&str) -> Option<String>,
    /// Whether a file that defines a symbol is a part of the library.
    is_mark: fn(&str) -> bool,
    known: HashMap<FileKey, CalledFunctions>,
}

/// A file by device and inode, and the symbols that are called in it.
type FileKey = ((u64, u64), BTreeSet<String>);

impl CallFinder {
    /// A finder of the functions to whose symbols this gives a name.
    pub fn new(unified: fn(&str) -> Option<String>, is_mark: fn(&str) -> bool) -> Self {
        Self { unified, is_mark, known: HashMap::new() }
    }

    /// The functions that the files of a process call, by the index of the file that has them.
    pub fn in_files(&mut self, files: &[MappedFile]) -> BTreeMap<usize, CalledFunctions> {
        let is_named = |name: &str| (self.unified)(name).is_some();
        // A file whose symbols cannot be read has none.
        let symbols = |file: &MappedFile| -> Vec<Symbol> {
            let symbols = file.image.symbols(is_named).unwrap_or_default();
            let is_part = symbols.iter().any(|it| (self.is_mark)(&it.name));
            symbols.into_iter().filter(|it| is_part && is_function(it)).collect()
        };
        let defined: Vec<Vec<Symbol>> = files.iter().map(symbols).collect();
        let others = files.iter().zip(&defined).filter(|(_, defined)| defined.is_empty());
        let imports = |file: &MappedFile| file.image.imports(is_named).unwrap_or_default();
        let called: BTreeSet<String> = others.flat_map(|(file, _)| imports(file)).collect();
        let is_linked_in = called.is_empty();
        let mut found = BTreeMap::new();
        for (index, (file, symbols)) in files.iter().zip(defined).enumerate() {
            let wanted = |it: &Symbol| is_linked_in || called.contains(&it.name);
            let symbols: Vec<Symbol> = symbols.into_iter().filter(wanted).collect();
            if !symbols.is_empty() {
                let _new = found.insert(index, self.in_file(&file.image, symbols));
            }
        }
        found
    }

    fn in_file(&mut self, image: &ElfImage, symbols: Vec<Symbol>) -> CalledFunctions {
        let names = symbols.iter().map(|it| it.name.clone()).collect();
        let unified = self.unified;
        let find = || functions(image, symbols, unified);
        self.known.entry((image.file.identity, names)).or_insert_with(find).clone()
    }
}

fn is_function(symbol: &Symbol) -> bool {
    symbol.kind == SymbolKind::Function && symbol.address != 0
}

fn functions(
    image: &ElfImage,
    symbols: Vec<Symbol>,
    unified: fn(&str) -> Option<String>,
) -> CalledFunctions {
    let mut found = CalledFunctions::default();
    let mut seen = BTreeSet::new();
    for symbol in symbols {
        let Some(name) = unified(&symbol.name).filter(|_| seen.insert(symbol.address)) else {
            continue; // Another name of the same function.
        };
        let site = match site::entry(image, &symbol) {
            Ok(site) if !site.is_revisited => site,
            Ok(_) => {
                let why = "code jumps back to its first instruction".to_owned();
                let _none = found.refused.insert(name, why);
                continue;
            }
            Err(why) => {
                let _none = found.refused.insert(name, why.to_string());
                continue;
            }
        };
        let ends = match ends(image, &site) {
            Ok(ends) if ends.returns.is_empty() => {
                Err("it always ends with a jump to another function".to_owned())
            }
            Ok(ends) => Ok(ends),
            Err(why) => Err(why.to_string()),
        };
        let trampoline = site::refuse_return(image, &site).map_err(|why| why.to_string());
        let (offset, cost) = (site.offset, site.cost);
        found.functions.push(CalledFunction { name, offset, cost, ends, trampoline });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapped_files;
    use monitor_model::Pid;
    use std::path::Path;

    fn unified(symbol: &str) -> Option<String> {
        matches!(symbol, "getenv" | "secure_getenv" | "qsort").then(|| format!("c:{symbol}"))
    }

    #[test]
    fn functions_that_other_files_import_are_found_where_they_are_defined() {
        let files = mapped_files::files(Path::new("/proc"), Pid(std::process::id()));
        let (files, _) = files.expect("own files");
        let mut finder = CallFinder::new(unified, |symbol| symbol == "getenv");
        let found = finder.in_files(&files);
        assert_eq!(found.len(), 1, "the C library alone: {found:?}");
        let (index, calls) = found.iter().next().expect("it is there");
        assert!(files[*index].image.file.name().starts_with("libc"), "{calls:?}");
        // This program imports `getenv`, and may import others.
        let getenv = calls.functions.iter().find(|it| it.name == "c:getenv");
        let getenv = getenv.unwrap_or_else(|| panic!("{calls:?}"));
        assert!(getenv.ends.as_ref().is_ok_and(|ends| !ends.returns.is_empty()), "{getenv:?}");
    }
}
