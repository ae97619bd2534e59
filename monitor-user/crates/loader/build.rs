//! Embeds the BPF objects: `OUT_DIR/objects.rs` with one constant, `OBJECTS`.
//!
//! In: `monitor-ebpf/objects/*.o`. Out: name and bytes of each, aligned as an ELF reader needs.
//! Needs no BPF toolchain and compiles nothing; `cargo xtask build-ebpf` makes the objects, and
//! `cargo xtask ci` compares them with their sources.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// The objects, from this package.
const OBJECTS: &str = "../../../monitor-ebpf/objects";

/// The beginning of the generated file. An ELF header holds 8-byte numbers.
const PRELUDE: &str = r#"
#[repr(C, align(8))]
struct Aligned<Bytes: ?Sized>(Bytes);

macro_rules! object {
    ($name:literal) => {
        ($name, &Aligned(*include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"), "/../../../monitor-ebpf/objects/", $name, ".o"
        ))).0)
    };
}

/// The BPF objects: the name of the program's file, and the object.
pub const OBJECTS: &[(&str, &[u8])] = &[
"#;

fn main() -> Result<(), String> {
    // A relative path, which is true in each clone that shares the target directory.
    println!("cargo:rerun-if-changed={OBJECTS}");
    println!("cargo:rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("objects.rs"), objects(Path::new(OBJECTS))?)
        .map_err(|error| format!("cannot write objects.rs to {}: {error}", out.display()))
}

/// The generated file. Cargo runs a build script in the folder of its package.
fn objects(folder: &Path) -> Result<String, String> {
    let failed = |error| format!("cannot read {}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(failed)?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "o"));
    paths.sort();
    let mut text = String::from(PRELUDE);
    for path in paths {
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        text += &format!("    object!({name:?}),\n");
    }
    Ok(text + "];\n")
}
