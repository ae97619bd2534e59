//! Crafted files cost neither memory nor time beyond what an honest file of their size does.

use super::*;
use std::path::{Path, PathBuf};

/// A file that is removed after the test.
struct CraftedFile(PathBuf);

impl Drop for CraftedFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const HEADER: u64 = 64;
const SYMBOL: usize = 24;

/// An ELF file: its header, the strings, functions with these names, and `n_tables` headers of the
/// one symbol table.
fn crafted(test: &str, strings: &[u8], names: &[u32], n_tables: u16) -> (CraftedFile, ElfImage) {
    let section = |kind: u32, at: u64, length: usize, row: u64| {
        let mut header = vec![0_u8; 64];
        header[4..8].copy_from_slice(&kind.to_le_bytes());
        header[24..32].copy_from_slice(&at.to_le_bytes());
        header[32..40].copy_from_slice(&(length as u64).to_le_bytes());
        header[56..64].copy_from_slice(&row.to_le_bytes());
        header
    };
    let symbols_at = HEADER + strings.len() as u64;
    let sections_at = symbols_at + (names.len() * SYMBOL) as u64;
    let mut bytes = vec![0_u8; 64];
    bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    bytes[18..20].copy_from_slice(&EM_X86_64.to_le_bytes());
    bytes[40..48].copy_from_slice(&sections_at.to_le_bytes());
    bytes[60..62].copy_from_slice(&(n_tables + 1).to_le_bytes());
    bytes.extend_from_slice(strings);
    for name in names {
        let mut symbol = [0_u8; SYMBOL];
        symbol[..4].copy_from_slice(&name.to_le_bytes());
        symbol[4] = object::elf::STT_FUNC;
        symbol[6] = 1;
        bytes.extend_from_slice(&symbol);
    }
    // The link of a symbol table is 0, the section of the strings.
    bytes.extend(section(object::elf::SHT_STRTAB, HEADER, strings.len(), 0));
    for _ in 0..n_tables {
        let length = names.len() * SYMBOL;
        bytes.extend(section(object::elf::SHT_SYMTAB, symbols_at, length, SYMBOL as u64));
    }
    let name = format!("monitor-elf-{test}-{}", std::process::id());
    let file = CraftedFile(std::env::temp_dir().join(name));
    std::fs::write(&file.0, bytes).expect("a file");
    let open = ObjectFile::open(&file.0, Path::new(test)).expect("it opens");
    (file, ElfImage::read(Arc::new(open)).expect("its headers are valid"))
}

#[track_caller]
fn refused(image: &ElfImage) {
    let why = image.symbols(|_| true).expect_err("it is refused").to_string();
    assert!(why.contains("names of symbols"), "{why}");
}

#[test]
fn the_symbols_of_a_small_file_are_found() {
    let (_file, image) = crafted("small", b"\0one\0two@@V1\0", &[1, 5, 6], 1);
    let found = image.symbols(|_| true).expect("symbols");
    let names: Vec<_> = found.iter().map(|it| (it.name.as_str(), it.version.as_deref())).collect();
    assert_eq!(names, [("one", None), ("two", Some("V1")), ("wo", Some("V1"))]);
    assert!(!image.is_stripped());
}

#[test]
fn symbols_that_share_one_name_of_8_mib_are_refused() {
    let mut strings = vec![b'x'; 8 << 20];
    strings.push(0);
    let (_file, image) = crafted("shared", &strings, &[0; 2000], 1);
    refused(&image);
}

#[test]
fn names_without_an_end_are_refused() {
    let (_file, image) = crafted("endless", &vec![b'x'; 12 << 20], &vec![0; 400_000], 1);
    refused(&image);
}

#[test]
fn overlapping_names_of_the_permitted_length_are_refused_when_too_many_are_found() {
    let mut strings = vec![b'x'; 60 << 10];
    strings.push(0);
    let (_file, image) = crafted("overlapping", &strings, &[0; 300], 1);
    refused(&image);
    assert!(image.symbols(|_| false).expect("within the bound").is_empty());
}

#[test]
fn one_symbol_table_is_read_however_many_headers_name_it() {
    let (_file, image) = crafted("repeated", b"\0one\0", &[1], 16_000);
    assert_eq!(image.symbols(|_| true).expect("symbols").len(), 1);
}
