//! Malformed ELF files, truncated or overwritten, cause no panic and no large allocation.

use super::fixture::{folder, sites};
use monitor_symbols::{FunctionSpec, resolve};

/// Number of corrupted copies that are read.
const ROUNDS: u64 = 1_000;
/// Size of the part with the header and the tables.
const HEAD: u64 = 1024;

#[test]
fn a_corrupted_file_never_causes_a_panic() {
    const TEST: &str = "a_corrupted_file_never_causes_a_panic";
    let Some(path) = sites(TEST) else { return };
    let whole = std::fs::read(path).unwrap();
    let corrupted = folder(TEST).join("corrupted.so");
    let specs = ["plain", "versioned@SITES_1", "leaf+5", "0x1004", "memcpy"];
    let specs = specs.map(|it| FunctionSpec::from_text(it).unwrap());
    // The generator of Marsaglia, "Xorshift RNGs": the same numbers in each run.
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
        std::fs::write(&corrupted, bytes).unwrap();
        for spec in &specs {
            n_found += usize::from(resolve::in_file(&corrupted, spec).is_ok());
        }
    }
    println!("{n_found} of {} still found", ROUNDS * specs.len() as u64);
    assert!(n_found > 0);
}

#[test]
fn a_file_that_is_not_elf_is_refused_with_the_reason() {
    const TEST: &str = "a_file_that_is_not_elf_is_refused_with_the_reason";
    let path = folder(TEST).join("script");
    std::fs::write(&path, "#!/bin/sh\n").unwrap();
    let error = |path: &std::path::Path| {
        resolve::in_file(path, &FunctionSpec::from_text("main").unwrap()).unwrap_err().to_string()
    };
    assert!(error(&path).ends_with("not an ELF file"));
    assert!(error(std::path::Path::new("/dev/zero")).contains("not a regular file"));
    assert!(error(&path.with_extension("absent")).starts_with("open "));
}
