//! The instruction that is chosen for a probe, and places where probes are refused.

use super::fixture::{Build, sites};
use crate::root::workload::Guarded;
use monitor_symbols::site::ProbeCost;
use monitor_symbols::{FunctionSpec, ProbeSite, SymbolError, resolve};
use std::path::Path;
use std::process::Command;

fn found(path: &Path, name: &str) -> Result<Vec<ProbeSite>, SymbolError> {
    resolve::in_file(path, &FunctionSpec::from_text(name).unwrap())
}

/// Returns the only site of a name.
#[track_caller]
fn one(path: &Path, name: &str) -> ProbeSite {
    let [site] = &found(path, name).unwrap()[..] else { panic!("not one {name}") };
    site.clone()
}

#[track_caller]
fn refused(path: &Path, name: &str) -> String {
    match found(path, name) {
        Err(SymbolError::Unsafe { why, .. }) => why,
        other => panic!("{name} was not refused: {other:?}"),
    }
}

/// Returns the address of a symbol, from nm(1).
fn address(path: &Path, name: &str) -> u64 {
    let output = Command::new("nm").arg(path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.ends_with(&format!(" {name}"))).unwrap();
    u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
}

#[test]
fn an_emulated_first_instruction_is_chosen() {
    let Some(path) = sites("an_emulated_first_instruction_is_chosen") else { return };
    let site = one(&path, "plain");
    assert_eq!((site.cost, site.is_revisited), (ProbeCost::Emulated, false));
    assert_eq!(site.address, address(&path, "plain"));
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes[usize::try_from(site.offset).unwrap()], 0x55);
}

#[test]
fn a_landing_pad_is_skipped() {
    let Some(path) = sites("a_landing_pad_is_skipped") else { return };
    let site = one(&path, "padded");
    assert_eq!(site.address, address(&path, "padded") + 4);
    assert_eq!(site.cost, ProbeCost::Emulated);
    let site = one(&path, "padded_nop");
    assert_eq!(site.address, address(&path, "padded_nop") + 4);
    assert_eq!(site.cost, ProbeCost::Patched);
}

#[test]
fn a_landing_pad_is_not_skipped_into_a_loop() {
    let name = "a_landing_pad_is_not_skipped_into_a_loop";
    let Some(path) = sites(name) else { return };
    let site = one(&path, "padded_loop");
    assert_eq!(site.address, address(&path, "padded_loop"));
    assert!(!site.is_revisited);
    assert!(one(&path, "bare_loop").is_revisited);
}

#[test]
fn a_slow_site_has_a_warning() {
    let Some(path) = sites("a_slow_site_has_a_warning") else { return };
    let site = one(&path, "stepped");
    assert_eq!(site.cost, ProbeCost::Stepped("sub".into()));
    assert!(site.cost.warning().unwrap().contains("`sub`"));
    assert_eq!(one(&path, "plain").cost.warning(), None);
    assert_eq!(one(&path, "plain+2").cost, ProbeCost::Stepped("ret".into()));
}

#[test]
fn a_five_byte_nop_in_a_leaf_function_is_refused() {
    let Some(path) = sites("a_five_byte_nop_in_a_leaf_function_is_refused") else { return };
    // Linux 6.18 makes it a call, which overwrites the value that the function keeps at -8(%rsp).
    assert!(refused(&path, "leaf+5").contains("overwrite its variables"));
    let at = address(&path, "leaf_probe");
    assert!(refused(&path, &format!("{at:#x}")).contains("overwrite its variables"));
    // A jump target and code that is entered by falling through are not entries either.
    assert!(refused(&path, "leaf.cold").contains("overwrite its variables"));
    assert!(refused(&path, "inner").contains("overwrite its variables"));
    assert_eq!(one(&path, "nop_first").cost, ProbeCost::Patched);
}

#[test]
fn the_middle_of_an_instruction_is_refused() {
    let Some(path) = sites("the_middle_of_an_instruction_is_refused") else { return };
    assert!(refused(&path, "leaf+3").contains("inside the `mov`"));
    assert_eq!(one(&path, "leaf+10").cost, ProbeCost::Stepped("mov".into()));
    assert!(refused(&path, "locked").contains("lock"));
}

#[test]
fn aliases_of_one_address_are_one_site() {
    let Some(path) = sites("aliases_of_one_address_are_one_site") else { return };
    assert_eq!(one(&path, "also_plain").offset, one(&path, "plain").offset);
    // No version means every version: a program may have been linked with any of them.
    let both: Vec<u64> = found(&path, "versioned").unwrap().iter().map(|it| it.offset).collect();
    let each = ["versioned@SITES_1", "versioned@SITES_2"].map(|name| one(&path, name).offset);
    assert_eq!(both.len(), 2);
    assert!(each.iter().all(|it| both.contains(it)));
    assert_eq!(each[0], one(&path, "plain").offset);
    assert!(matches!(found(&path, "versioned@SITES_3"), Err(SymbolError::NotFound { .. })));
}

#[test]
fn an_ifunc_is_refused() {
    let Some(path) = sites("an_ifunc_is_refused") else { return };
    assert!(refused(&path, "chosen").contains("IFUNC"));
}

#[test]
fn a_label_without_a_size_ends_at_the_next_name() {
    let Some(path) = sites("a_label_without_a_size_ends_at_the_next_name") else { return };
    assert_eq!(one(&path, "unsized").cost, ProbeCost::Emulated);
}

#[test]
fn an_address_outside_of_functions_is_refused() {
    let Some(path) = sites("an_address_outside_of_functions_is_refused") else { return };
    let padding = address(&path, "plain") + 3;
    assert!(refused(&path, &format!("{padding:#x}")).contains("covers this address"));
    let error = found(&path, "0x10").unwrap_err().to_string();
    assert!(error.contains("no code at that file offset"), "{error}");
}

#[test]
fn a_stripped_program_is_probed_by_offset() {
    const TEST: &str = "a_stripped_program_is_probed_by_offset";
    let words = ["-O2", "-static", "-DSTATIC"];
    let build = Build { test: TEST, source: "marked.c", product: "marked", words: &words };
    let Some(path) = build.done() else { return };
    let site = one(&path, "marked");
    let stripped = path.with_extension("stripped");
    let done = Command::new("strip").arg("-o").args([&stripped, &path]).status().unwrap();
    assert!(done.success());
    let error = found(&stripped, "marked").unwrap_err().to_string();
    assert!(error.contains("stripped") && error.contains("0xOFFSET"), "{error}");
    // The unwind tables remain, so the offset is known to be an instruction.
    let by_offset = one(&stripped, &format!("{:#x}", site.offset));
    assert_eq!((by_offset.offset, by_offset.cost), (site.offset, site.cost));
    // `main` has a buffer on its stack, so its first instruction is longer than one byte.
    let inside = found(&path, "main+1").map(|it| it[0].offset);
    let stripped_inside = found(&stripped, &format!("{:#x}", one(&path, "main").offset + 1));
    assert_eq!(inside.is_ok(), stripped_inside.is_ok());
}

/// Why a process that executes a file lacks a function.
fn absence(path: &Path) -> String {
    let mut process = Guarded::run(&mut Command::new(path));
    assert_eq!(process.line(), "ready");
    let wanted = FunctionSpec::from_text("no_such_function").unwrap();
    let found = resolve::in_process(Path::new("/proc"), process.pid(), &wanted);
    found.unwrap_err().to_string()
}

#[test]
fn only_a_stripped_program_is_called_stripped() {
    const TEST: &str = "only_a_stripped_program_is_called_stripped";
    let words = ["-O1", "-static"];
    let build = Build { test: TEST, source: "calls.c", product: "calls", words: &words };
    let Some(path) = build.done() else { return };
    assert!(absence(&path).ends_with("; it has mapped calls"), "{}", absence(&path));
    let stripped = path.with_extension("bare");
    let done = Command::new("strip").arg("-o").args([&stripped, &path]).status().unwrap();
    assert!(done.success());
    let error = absence(&stripped);
    assert!(error.ends_with("; it has mapped calls.bare (stripped)"), "{error}");
    // A table of labels is one of symbols too.
    let words = ["-nostdlib", "-static"];
    let build = Build { test: TEST, source: "labels.s", product: "labels", words: &words };
    let Some(path) = build.done() else { return };
    let error = found(&path, "no_such_function").unwrap_err().to_string();
    assert!(error.ends_with("/labels"), "no hint: {error}");
}

#[test]
fn sites_in_the_c_library_are_beginnings_of_instructions() {
    let text = std::fs::read_to_string("/proc/self/maps").unwrap();
    let path = text.split_whitespace().find(|word| word.ends_with("/libc.so.6"));
    let path = Path::new(path.expect("the tests are linked with the C library"));
    let output = Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(path).output();
    let listing = String::from_utf8(output.unwrap().stdout).unwrap();
    let starts: std::collections::HashSet<u64> = listing
        .lines()
        .filter_map(|line| line.trim_start().split_once(":\t"))
        .filter_map(|(address, _)| u64::from_str_radix(address, 16).ok())
        .collect();
    for name in ["open", "read", "malloc", "getenv", "qsort", "fopen", "pthread_create", "exit"] {
        for site in found(path, name).unwrap() {
            assert!(starts.contains(&site.address), "{name}: {:#x}", site.address);
        }
    }
    assert!(refused(path, "memcpy@GLIBC_2.14").contains("IFUNC"));
    let error = found(path, "pthread_creat").unwrap_err().to_string();
    assert!(error.contains("did you mean pthread_create?"), "{error}");
}

#[test]
fn a_return_probe_on_a_function_that_returns_twice_is_refused() {
    let Some(path) = sites("a_return_probe_on_a_function_that_returns_twice_is_refused") else {
        return;
    };
    use monitor_symbols::elf::ElfImage;
    use monitor_symbols::object_file::ObjectFile;
    use monitor_symbols::site::refuse_return;
    let image = ElfImage::read(ObjectFile::open(&path, &path).unwrap().into()).unwrap();
    assert_eq!(image.build_id(), Some(vec![0x12, 0x34, 0xab, 0xcd]));
    let site = one(&path, "plain");
    assert!(refuse_return(&image, &site).is_ok());
    let twice = ProbeSite { function: "setjmp".into(), ..site };
    assert!(refuse_return(&image, &twice).unwrap_err().to_string().contains("crash the program"));
}
