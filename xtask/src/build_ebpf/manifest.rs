//! `monitor-ebpf/objects/SOURCES.sha256`: what the committed BPF objects were built from.
//!
//! In: the workspace's root. Out: the lines that the file should have, and whether it has them.
//! `sha256sum --check` reads the same file; its comments hold what is not a file.
//! `cargo xtask ci` and `build-ebpf --check` compare them; a build of the monitor only embeds the
//! objects.

use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the objects, from the root of the workspace.
pub const OBJECTS: &str = "monitor-ebpf/objects";
const FILE: &str = "monitor-ebpf/objects/SOURCES.sha256";
const SOURCES: &str = "monitor-ebpf/src";
const CARGO: &str = "monitor-ebpf/Cargo.toml";
const LOCK: &str = "Cargo.lock";

/// What decides about the code besides the sources; `xtask` adds only prefixes to hide paths.
///
/// One thread: LLVM numbers the `llvm.bpf.passthrough` calls of all modules with one counter
/// (`BPFCoreSharedInfo::SeqNum`, `llvm/lib/Target/BPF/BPFCORE.h`), and modules that are optimised
/// at the same time take other numbers in each build.
pub const FLAGS: &[&str] = &["-Clink-arg=--btf", "-Zno-parallel-backend"];
/// The profile, said here so that a change to `[profile.release]` does not reach the objects.
/// The linker makes BTF from full debugging information.
pub const PROFILE: &[(&str, &str)] = &[
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "full"),
    ("CARGO_PROFILE_RELEASE_LTO", "thin"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "3"),
    ("CARGO_PROFILE_RELEASE_STRIP", "none"),
];

/// Crates of the kernel half begin with one of these.
const CRATES: &[&str] = &["aya-ebpf", "aya-log-common", "aya-log-ebpf", "zerocopy"];

/// The line that is not compared: another compiler is no reason to build again.
const BUILT_BY: &str = "# built by ";

/// The tools that built the committed objects: the versions of the compiler and the linker.
pub fn built_by(root: &Path) -> Option<String> {
    let text = fs::read_to_string(root.join(FILE)).ok()?;
    text.lines().find_map(|line| line.strip_prefix(BUILT_BY)).map(str::to_owned)
}

/// Writes the file for the objects as they are now.
pub fn write(root: &Path, versions: &str) -> Result<(), String> {
    let lines = expected(root)?.join("\n");
    let text = format!("# Written by `cargo xtask build-ebpf`.\n{BUILT_BY}{versions}\n{lines}\n");
    let file = root.join(FILE);
    fs::write(&file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))
}

/// What changed since the objects were built; empty if they are up to date.
pub fn changes(root: &Path) -> Result<Vec<String>, String> {
    let written = fs::read_to_string(root.join(FILE)).unwrap_or_default();
    let written: Vec<&str> = written.lines().skip(2).collect();
    let expected = expected(root)?;
    let new = expected.iter().filter(|line| !written.contains(&line.as_str()));
    let gone = written.iter().filter(|line| !expected.iter().any(|other| other == *line));
    let mut names: Vec<String> = new.map(|line| name(line)).collect();
    names.extend(gone.map(|line| name(line)));
    names.sort();
    names.dedup();
    Ok(names)
}

/// The program binaries: one for each file or folder in `src/bin`, sorted.
pub fn programs(root: &Path) -> Result<Vec<String>, String> {
    let folder = root.join(SOURCES).join("bin");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(|error| unreadable(&folder, &error))? {
        let path = entry.map_err(|error| unreadable(&folder, &error))?.path();
        names.extend(path.file_stem().and_then(|name| name.to_str()).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// All lines but the first two.
fn expected(root: &Path) -> Result<Vec<String>, String> {
    let mut lines = vec![format!("# flags {}", FLAGS.join(" "))];
    lines.extend(PROFILE.iter().map(|(name, value)| format!("# {name}={value}")));
    lines.extend(crates(&read(&root.join(LOCK))?));
    let mut files = vec![root.join(CARGO)];
    files.extend(list(&root.join(SOURCES))?);
    files.extend(list(&root.join(OBJECTS))?.into_iter().filter(|path| is_object(path)));
    for file in files {
        lines.push(hashed(root, &file)?);
    }
    Ok(lines)
}

fn is_object(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "o")
}

/// One line as `sha256sum` writes it.
fn hashed(root: &Path, file: &Path) -> Result<String, String> {
    let bytes = fs::read(file).map_err(|error| unreadable(file, &error))?;
    let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let name = file.strip_prefix(root).unwrap_or(file);
    Ok(format!("{digest}  {}", name.display()))
}

/// The versions that `Cargo.lock` gives to the crates of the kernel half.
fn crates(lock: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = lock.lines();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix("name = ") else { continue };
        let name = name.trim_matches('"');
        if CRATES.iter().any(|prefix| name.starts_with(prefix)) {
            let version = lines.next().unwrap_or_default().trim_start_matches("version = ");
            found.push(format!("# crate {name} {}", version.trim_matches('"')));
        }
    }
    found
}

/// What a line is about: a file, a crate, or the whole comment.
fn name(line: &str) -> String {
    line.rsplit_once("  ").map_or(line, |(_, name)| name).trim_start_matches("# ").to_owned()
}

/// All files below a folder, sorted.
fn list(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| unreadable(folder, &error))? {
        let path = entry.map_err(|error| unreadable(folder, &error))?.path();
        if path.is_dir() {
            files.extend(list(&path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| unreadable(file, &error))
}

fn unreadable(path: &Path, error: &std::io::Error) -> String {
    format!("cannot read {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_crates_of_the_kernel_half_count() {
        let lock = "[[package]]\nname = \"aya\"\nversion = \"0.14.0\"\n\n\
                    [[package]]\nname = \"aya-ebpf\"\nversion = \"0.2.1\"\n";
        assert_eq!(crates(lock), ["# crate aya-ebpf 0.2.1"]);
    }

    #[test]
    fn an_edited_source_an_added_one_and_a_removed_object_are_changes() {
        let root = std::env::temp_dir().join(format!("xtask-manifest-{}", std::process::id()));
        let write_file = |path: &str, text: &str| {
            let file = root.join(path);
            fs::create_dir_all(file.parent().expect("it is in a folder")).expect("made");
            fs::write(file, text).expect("written");
        };
        write_file(LOCK, "");
        write_file(CARGO, "[package]");
        write_file("monitor-ebpf/src/lib.rs", "// one");
        write_file("monitor-ebpf/objects/block.o", "object");
        write(&root, "a compiler").expect("the manifest is written");
        assert_eq!(changes(&root).expect("it is read"), Vec::<String>::new());
        assert_eq!(built_by(&root).as_deref(), Some("a compiler"));

        write_file("monitor-ebpf/src/lib.rs", "// two");
        write_file("monitor-ebpf/src/bin/new.rs", "");
        fs::remove_file(root.join("monitor-ebpf/objects/block.o")).expect("removed");
        let found = changes(&root).expect("it is read");
        let _ = fs::remove_dir_all(&root);
        let expected = [
            "monitor-ebpf/objects/block.o",
            "monitor-ebpf/src/bin/new.rs",
            "monitor-ebpf/src/lib.rs",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_change_is_named_by_its_file_or_its_comment() {
        assert_eq!(name("00ff  monitor-ebpf/src/lib.rs"), "monitor-ebpf/src/lib.rs");
        assert_eq!(name("# crate aya-ebpf 0.2.1"), "crate aya-ebpf 0.2.1");
    }
}
