//! Files that lie: cut, overwritten, claiming to be huge. Never a panic and never much memory.

use super::fixture::{folder, sites};
use monitor_symbols::{Wanted, find};

/// Spoiled copies that are looked at.
const ROUNDS: u64 = 1_000;
/// Where the header and the tables are, which everything depends on.
const HEAD: u64 = 1024;

#[test]
fn a_spoiled_file_never_makes_us_panic() {
    const TEST: &str = "a_spoiled_file_never_makes_us_panic";
    let Some(path) = sites(TEST) else { return };
    let whole = std::fs::read(path).unwrap();
    let spoiled = folder(TEST).join("spoiled.so");
    let wanted = ["plain", "versioned@SITES_1", "leaf+5", "0x1004", "memcpy"];
    let wanted = wanted.map(|it| Wanted::from_text(it).unwrap());
    // The generator of Marsaglia, "Xorshift RNGs": the same numbers each time.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut n_found = 0;
    for round in 0..ROUNDS {
        let mut bytes = whole.clone();
        for _ in 0..1 + next() % 4 {
            let length = bytes.len() as u64;
            let range = if round % 2 == 0 { HEAD.min(length) } else { length };
            let at = usize::try_from(next() % range).unwrap();
            bytes[at] = [0, 0xff, 0x7f, 0x80, next().to_le_bytes()[3]][(next() % 5) as usize];
        }
        if round % 7 == 0 {
            bytes.truncate(usize::try_from(next() % bytes.len() as u64).unwrap());
        }
        std::fs::write(&spoiled, bytes).unwrap();
        for wanted in &wanted {
            n_found += usize::from(find::in_file(&spoiled, wanted).is_ok());
        }
    }
    println!("{n_found} of {} still found", ROUNDS * wanted.len() as u64);
    assert!(n_found > 0);
}

#[test]
fn what_is_no_elf_file_is_said() {
    const TEST: &str = "what_is_no_elf_file_is_said";
    let path = folder(TEST).join("script");
    std::fs::write(&path, "#!/bin/sh\n").unwrap();
    let said = |path: &std::path::Path| {
        find::in_file(path, &Wanted::from_text("main").unwrap()).unwrap_err().to_string()
    };
    assert!(said(&path).ends_with("it is no ELF file"));
    assert!(said(std::path::Path::new("/dev/zero")).contains("no regular file"));
    assert!(said(&path.with_extension("absent")).starts_with("open "));
}
