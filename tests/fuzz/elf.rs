//! ELF files: their tables and their code are changed, and functions, ends, unwind tables and notes
//! are looked up in them.

use super::input::{Random, input};
use super::tests;
use super::trial::{Border, run};
use monitor_symbols::elf::ElfImage;
use monitor_symbols::ends::ends;
use monitor_symbols::object_file::ObjectFile;
use monitor_symbols::{FunctionSpec, diag_probes, resolve, site};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Memory that a reader may take: the limit of its process is four times this.
const MAX_MEMORY: u64 = 64 << 20;
/// Bytes at both ends of a file, where its tables are.
const TABLES: usize = 2048;
const NAMES: [&str; 8] =
    ["plain", "versioned@SITES_1", "leaf+5", "0x1004", "memcpy", "padded", "main", "probed|twice"];

/// A program or a library, built from a file in `fixture/code`.
fn built(folder: &Path, source: &str, words: &[&str]) -> Vec<u8> {
    let product = folder.join(source);
    let mut command = Command::new("cc");
    command.arg("-o").arg(&product).args(words).arg(tests("fixture/code").join(source));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(product).unwrap()
}

fn samples() -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("elf");
    std::fs::create_dir_all(&folder).unwrap();
    let script = format!("-Wl,--version-script={}", tests("fixture/code/sites.map").display());
    let library = ["-shared", "-nostdlib", "-Wl,--build-id=0x1234abcd", &script];
    vec![
        built(&folder, "sites.s", &library),
        built(&folder, "marked.c", &["-O1"]),
        built(&folder, "unusual.c", &["-O1", "-g"]),
    ]
}

/// A file, most of whose changes are in its tables.
fn file(random: &mut Random, samples: &[Vec<u8>]) -> Vec<u8> {
    if random.below(4) == 0 {
        return input(random, samples, &[]);
    }
    let mut bytes = random.pick(samples).clone();
    for _ in 0..1 + random.below(4) {
        let range = TABLES.min(bytes.len());
        let at = random.below(range);
        let at = if random.below(2) == 0 { at } else { bytes.len() - 1 - at };
        let word = input(random, &[vec![0; 8]], &[]);
        bytes[at..].iter_mut().zip(word.into_iter().take(8)).for_each(|(to, from)| *to = from);
    }
    bytes
}

/// Looks everything up; returns how many functions were found.
fn look_up(path: &Path, spec: &FunctionSpec, address: u64) -> usize {
    let name = Path::new("input");
    let opened = ObjectFile::open(path, name).map(Arc::new);
    let Ok(image) = opened.and_then(ElfImage::read) else { return 0 };
    let found = resolve::in_file(path, spec).unwrap_or_default();
    for site in &found {
        let _either = ends(&image, site);
        let _either = site::refuse_return(&image, site);
    }
    let _either = (image.build_id(), image.is_stripped(), image.bias(address, address));
    let _either = (image.unwind_range(address), image.entry_level_ranges(address));
    for (_, address) in diag_probes::in_image(&image).unwrap_or_default() {
        let _either = site::inside(&image, address);
    }
    let _either = site::inside(&image, address);
    found.len()
}

#[test]
fn any_object_file_is_read_within_its_limits() {
    let samples = samples();
    let specs = NAMES.map(|it| FunctionSpec::from_text(it).unwrap());
    let border = Border { name: "ELF files", max_memory: MAX_MEMORY };
    let (mut n_read, mut n_found) = (0, 0);
    run(
        border,
        |random| file(random, &samples),
        |bytes| {
            let mut file = File::from(memfd_create("object", MemfdFlags::CLOEXEC).unwrap());
            file.write_all(bytes).unwrap();
            let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            let address = 0x1000 + n_read as u64 % 0x2000;
            n_found += look_up(&path, &specs[n_read % specs.len()], address);
            n_read += 1;
        },
    );
    assert!(n_found > 0, "no input was read at all");
}
