//! The symbols of a file: functions and variables, with their versions.
//!
//! In: the sections of an image. Out: defined symbols of the dynamic and the debug symbol table. A
//! name may have several symbols with different versions, and an address several names.

use super::{ElfImage, text};
use crate::SymbolError;
use object::LittleEndian as Little;
use object::elf::{
    SHN_UNDEF, SHT_DYNSYM, SHT_GNU_VERDEF, SHT_GNU_VERSYM, SHT_SYMTAB, STT_FUNC, STT_GNU_IFUNC,
    STT_NOTYPE, STT_OBJECT, STT_TLS, SectionHeader64, Sym64, VERSYM_HIDDEN, VERSYM_VERSION,
    Verdaux, Verdef, Versym,
};
use object::pod::{from_bytes, slice_from_all_bytes};
use std::collections::HashMap;

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
        let versions = self.versions()?;
        let mut found = Vec::new();
        for section in &self.sections {
            let kind = section.sh_type.get(Little);
            if kind == SHT_DYNSYM {
                self.collect(section, &versions, &accept, &mut found)?;
            } else if kind == SHT_SYMTAB {
                self.collect(section, &Versions::default(), &accept, &mut found)?;
            }
        }
        Ok(found)
    }

    /// Whether there are no symbols of functions.
    pub fn is_stripped(&self) -> bool {
        let is_code =
            |symbol: &Symbol| matches!(symbol.kind, SymbolKind::Function | SymbolKind::Ifunc);
        !self.symbols(|_| true).is_ok_and(|all| all.iter().any(is_code))
    }

    fn collect(
        &self,
        section: &SectionHeader64<Little>,
        versions: &Versions,
        accept: &impl Fn(&str) -> bool,
        found: &mut Vec<Symbol>,
    ) -> Result<(), SymbolError> {
        let bytes = self.content(section)?;
        let rows = slice_from_all_bytes::<Sym64<Little>>(&bytes);
        let rows = rows.map_err(|()| self.file.malformed("whole symbols"))?;
        let strings = self.strings(section)?;
        for (index, row) in rows.iter().enumerate() {
            let is_defined = row.st_shndx.get(Little) != SHN_UNDEF;
            let Some(kind) = kind(row).filter(|_| is_defined) else { continue };
            let Some(whole) = text(&strings, row.st_name.get(Little)) else { continue };
            let (name, written) = split(whole);
            if name.is_empty() || !accept(name) {
                continue;
            }
            let (version, is_old) = written.unwrap_or_else(|| versions.version(index));
            let (address, size) = (row.st_value.get(Little), row.st_size.get(Little));
            found.push(Symbol { name: name.to_owned(), version, is_old, kind, address, size });
        }
        Ok(())
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
fn split(whole: &str) -> (&str, Option<(Option<String>, bool)>) {
    match whole.split_once('@') {
        None => (whole, None),
        Some((name, version)) => {
            let is_old = !version.starts_with('@');
            (name, Some((Some(version.trim_start_matches('@').to_owned()), is_old)))
        }
    }
}

/// The names of the versions that a file defines; each record gives the offset of the next.
fn names(bytes: &[u8], strings: &[u8]) -> HashMap<u16, String> {
    let mut names = HashMap::new();
    let mut rest = bytes;
    while let Ok((row, _)) = from_bytes::<Verdef<Little>>(rest) {
        let first = rest.get(row.vd_aux.get(Little) as usize..).unwrap_or_default();
        if let Ok((name, _)) = from_bytes::<Verdaux<Little>>(first)
            && let Some(name) = text(strings, name.vda_name.get(Little))
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
