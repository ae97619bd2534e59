//! The symbols of a file: functions and variables, with their versions.
//!
//! In: the sections of an image. Out: defined symbols of the dynamic and the debug symbol table. A
//! name may have several symbols with different versions, and an address several names.

use super::{ElfImage, entry, text};
use crate::SymbolError;
use object::LittleEndian as Little;
use object::elf::{
    SHN_UNDEF, SHT_DYNSYM, SHT_GNU_VERDEF, SHT_GNU_VERSYM, SHT_SYMTAB, STT_FUNC, STT_GNU_IFUNC,
    STT_NOTYPE, STT_OBJECT, STT_TLS, SectionHeader64, Sym64, VERSYM_HIDDEN, VERSYM_VERSION,
    Verdaux, Verdef, Versym,
};
use object::pod::{from_bytes, slice_from_all_bytes};
use std::{collections::HashMap, ffi::CStr, ops::ControlFlow};

/// Longest name of a symbol; the longest real ones, of C++ templates, have some tens of kilobytes.
const LONGEST_NAME: usize = 64 << 10;
/// Bytes of names that are read, besides those of the string table: names may overlap.
const MOST_NAME_BYTES: usize = 32 << 20;
/// Bytes of the symbols that a search may find.
const MOST_FOUND_BYTES: usize = 16 << 20;
/// Symbols that are read at a time, and most symbols of a table.
const SYMBOLS_READ: usize = 1 << 15;
const MOST_SYMBOLS: u64 = 8 << 20;
/// Versions have 15-bit numbers; names of real ones have some tens of bytes.
const MOST_VERSIONS: usize = 1 << 15;
const LONGEST_VERSION: usize = 256;

/// A defined symbol of a table, with its name as written there.
#[derive(Clone, Copy, Debug)]
pub struct TableSymbol<'n> {
    /// Its name; in the debug symbol table the version is part of it.
    whole: &'n str,
    /// Its name, without version.
    pub name: &'n str,
    /// Its kind.
    pub kind: SymbolKind,
    /// Its address in the file.
    pub address: u64,
    /// Size in bytes; 0 if unknown.
    pub size: u64,
    /// Its number in the table, if its version is in a table of its own.
    index: Option<usize>,
}

/// A defined symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name, without version.
    pub name: String,
    /// Its version, if the library has versioned symbols.
    pub version: Option<String>,
    /// Whether it is not the default version.
    pub is_old: bool,
    /// Its kind.
    pub kind: SymbolKind,
    /// Its address in the file.
    pub address: u64,
    /// Size in bytes; 0 if unknown.
    pub size: u64,
}

/// Kinds of symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolKind {
    /// A function.
    Function,
    /// An indirect function: its resolver selects the function at load time.
    Ifunc,
    /// A label in assembly code.
    Label,
    /// A variable.
    Variable,
    /// A thread-local variable; its address is an offset.
    ThreadVariable,
}

impl ElfImage {
    /// All defined symbols whose name is accepted.
    pub fn symbols(&self, accept: impl Fn(&str) -> bool) -> Result<Vec<Symbol>, SymbolError> {
        self.symbols_where(|symbol| accept(symbol.name))
    }

    /// All defined symbols that are accepted.
    pub fn symbols_where(
        &self,
        accept: impl Fn(&TableSymbol<'_>) -> bool,
    ) -> Result<Vec<Symbol>, SymbolError> {
        let versions = self.versions()?;
        let (mut found, mut found_bytes) = (Vec::new(), 0);
        self.each_symbol(|symbol| {
            if !accept(symbol) {
                return Ok(ControlFlow::Continue(()));
            }
            let (version, is_old) = match symbol.index {
                Some(index) => versions.version(index),
                None => written_version(symbol.whole),
            };
            let n_texts = symbol.name.len() + version.as_ref().map_or(0, String::len);
            found_bytes += size_of::<Symbol>() + n_texts;
            if found_bytes > MOST_FOUND_BYTES {
                return Err(self.file.malformed("fewer or shorter names of symbols"));
            }
            let TableSymbol { kind, address, size, .. } = *symbol;
            found.push(Symbol {
                name: symbol.name.to_owned(),
                version,
                is_old,
                kind,
                address,
                size,
            });
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    /// The names of the functions that the file takes from others and that are accepted, sorted.
    pub fn imports(&self, accept: impl Fn(&str) -> bool) -> Result<Vec<String>, SymbolError> {
        let Some(section) = self.section(SHT_DYNSYM) else { return Ok(Vec::new()) };
        let (mut found, mut found_bytes) = (Vec::new(), 0);
        let visited = self.visit_table(section, false, &mut |symbol| {
            if accept(symbol.name) {
                found_bytes += size_of::<String>() + symbol.name.len();
                if found_bytes > MOST_FOUND_BYTES {
                    return Err(self.file.malformed("fewer or shorter names of symbols"));
                }
                found.push(symbol.name.to_owned());
            }
            Ok(ControlFlow::Continue(()))
        });
        let _all = visited?;
        found.sort();
        found.dedup();
        Ok(found)
    }

    /// Whether the debug symbol table was removed and no other has functions; not, if they cannot
    /// be read.
    pub fn is_stripped(&self) -> bool {
        if self.section(SHT_SYMTAB).is_some() {
            return false;
        }
        let mut has_code = false;
        let read = self.each_symbol(|symbol| {
            has_code = matches!(symbol.kind, SymbolKind::Function | SymbolKind::Ifunc);
            Ok(if has_code { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        read.is_ok() && !has_code
    }

    /// Visits the defined symbols: those of the first dynamic and the first debug symbol table, as
    /// a file has at most one of each (ELF, "Sections").
    pub fn each_symbol(
        &self,
        mut visit: impl FnMut(&TableSymbol<'_>) -> Result<ControlFlow<()>, SymbolError>,
    ) -> Result<(), SymbolError> {
        for kind in [SHT_DYNSYM, SHT_SYMTAB] {
            let Some(section) = self.section(kind) else { continue };
            if self.visit_table(section, true, &mut visit)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Visits the symbols of a table that are defined, or those that are not.
    fn visit_table(
        &self,
        section: &SectionHeader64<Little>,
        defined: bool,
        visit: &mut impl FnMut(&TableSymbol<'_>) -> Result<ControlFlow<()>, SymbolError>,
    ) -> Result<ControlFlow<()>, SymbolError> {
        const ROW: usize = size_of::<Sym64<Little>>();
        let (start, length) = (section.sh_offset.get(Little), section.sh_size.get(Little));
        if length % ROW as u64 != 0 || length / ROW as u64 > MOST_SYMBOLS {
            return Err(self.file.malformed(format!("at most {MOST_SYMBOLS} whole symbols")));
        }
        let is_dynamic = section.sh_type.get(Little) == SHT_DYNSYM;
        let strings = self.strings(section)?;
        let mut name_bytes = strings.len() + MOST_NAME_BYTES;
        let mut index = 0;
        for at in (0..length).step_by(SYMBOLS_READ * ROW) {
            let part = (length - at).min((SYMBOLS_READ * ROW) as u64);
            let bytes = self.file.read_at(start.saturating_add(at), part)?;
            let rows = slice_from_all_bytes::<Sym64<Little>>(&bytes);
            for row in rows.map_err(|()| self.file.malformed("whole symbols"))? {
                let this = index;
                index += 1;
                let is_defined = row.st_shndx.get(Little) != SHN_UNDEF;
                let Some(kind) = kind(row).filter(|_| is_defined == defined) else { continue };
                let whole = entry(&strings, row.st_name.get(Little), LONGEST_NAME);
                let read_bytes = whole.map_or(LONGEST_NAME, CStr::count_bytes);
                name_bytes = name_bytes
                    .checked_sub(read_bytes)
                    .ok_or_else(|| self.file.malformed("shorter names of symbols"))?;
                let Some(whole) = whole.and_then(|it| it.to_str().ok()) else { continue };
                let name = whole.split_once('@').map_or(whole, |(name, _)| name);
                if name.is_empty() {
                    continue;
                }
                let (address, size) = (row.st_value.get(Little), row.st_size.get(Little));
                let index = (is_dynamic && name.len() == whole.len()).then_some(this);
                let symbol = TableSymbol { whole, name, kind, address, size, index };
                if visit(&symbol)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The string table of a section.
    fn strings(&self, section: &SectionHeader64<Little>) -> Result<Vec<u8>, SymbolError> {
        let link = usize::try_from(section.sh_link.get(Little)).unwrap_or(usize::MAX);
        let strings = self.sections.get(link);
        self.content(strings.ok_or_else(|| self.file.malformed("the strings of its symbols"))?)
    }

    fn section(&self, kind: u32) -> Option<&SectionHeader64<Little>> {
        self.sections.iter().find(|section| section.sh_type.get(Little) == kind)
    }

    /// The versions of the dynamic symbols.
    fn versions(&self) -> Result<Versions, SymbolError> {
        let Some(section) = self.section(SHT_GNU_VERSYM) else { return Ok(Versions::default()) };
        let bytes = self.content(section)?;
        let rows = slice_from_all_bytes::<Versym<Little>>(&bytes);
        let rows = rows.map_err(|()| self.file.malformed("whole versions"))?;
        let of_symbol = rows.iter().map(|row| row.0.get(Little)).collect();
        let names = match self.section(SHT_GNU_VERDEF) {
            Some(section) => names(&self.content(section)?, &self.strings(section)?),
            None => HashMap::new(),
        };
        Ok(Versions { of_symbol, names })
    }
}

/// The version of each dynamic symbol.
#[derive(Debug, Default)]
struct Versions {
    of_symbol: Vec<u16>,
    names: HashMap<u16, String>,
}

impl Versions {
    /// The version of a symbol, and whether it is not the default one.
    fn version(&self, index: usize) -> (Option<String>, bool) {
        let Some(row) = self.of_symbol.get(index) else { return (None, false) };
        (self.names.get(&(row & VERSYM_VERSION)).cloned(), row & VERSYM_HIDDEN != 0)
    }
}

/// In the debug symbol table the version is part of the name: `old@V1` and `new@@V2`.
fn written_version(whole: &str) -> (Option<String>, bool) {
    let Some((_, version)) = whole.split_once('@') else { return (None, false) };
    (Some(version.trim_start_matches('@').to_owned()), !version.starts_with('@'))
}

/// The names of the versions that a file defines; each record gives the offset of the next.
fn names(bytes: &[u8], strings: &[u8]) -> HashMap<u16, String> {
    let mut names = HashMap::new();
    let mut rest = bytes;
    for _ in 0..MOST_VERSIONS {
        let Ok((row, _)) = from_bytes::<Verdef<Little>>(rest) else { break };
        let first = rest.get(row.vd_aux.get(Little) as usize..).unwrap_or_default();
        if let Ok((name, _)) = from_bytes::<Verdaux<Little>>(first)
            && let Some(name) = text(strings, name.vda_name.get(Little), LONGEST_VERSION)
        {
            _ = names.insert(row.vd_ndx.get(Little) & VERSYM_VERSION, name.to_owned());
        }
        match row.vd_next.get(Little) as usize {
            0 => break,
            next => rest = rest.get(next..).unwrap_or_default(),
        }
    }
    names
}

fn kind(row: &Sym64<Little>) -> Option<SymbolKind> {
    match row.st_type() {
        STT_FUNC => Some(SymbolKind::Function),
        STT_GNU_IFUNC => Some(SymbolKind::Ifunc),
        STT_NOTYPE => Some(SymbolKind::Label),
        STT_OBJECT => Some(SymbolKind::Variable),
        STT_TLS => Some(SymbolKind::ThreadVariable),
        _ => None,
    }
}
