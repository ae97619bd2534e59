//! Embeds the BPF objects: `OUT_DIR/objects.rs` with one constant, `OBJECTS`.
//!
//! In: `monitor-ebpf/objects/*.o`. Out: name and bytes of each, aligned as an ELF reader needs.
//! Needs no BPF toolchain and builds nothing; `cargo xtask build-ebpf` does. It only warns when
//! the objects are older than their sources.

#[path = "../xtask/src/build_ebpf/manifest.rs"]
#[allow(dead_code, reason = "only `xtask` writes the manifest")]
mod manifest;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// What stands before the list in the generated file. An ELF header holds 8-byte numbers.
const PRELUDE: &str = "\
#[repr(C, align(8))]
struct Aligned<Bytes: ?Sized>(Bytes);

/// The BPF objects: the name of the program's file, and the object.
pub const OBJECTS: &[(&str, &[u8])] = &[
";

fn main() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for path in ["monitor-ebpf", "Cargo.lock", "xtask/src/build_ebpf/manifest.rs"] {
        println!("cargo:rerun-if-changed={}", root.join(path).display());
    }
    println!("cargo:rerun-if-changed=build.rs");
    let changes = manifest::changes(&root)?;
    if !changes.is_empty() {
        println!(
            "cargo:warning=the BPF objects are older than {}; run `cargo xtask build-ebpf`",
            changes.join(", ")
        );
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("objects.rs"), objects(&root, &out)?)
        .map_err(|error| format!("cannot write objects.rs to {}: {error}", out.display()))
}

/// Copies the objects beside the generated file, so that a later build of them disturbs nothing.
fn objects(root: &Path, out: &Path) -> Result<String, String> {
    let mut text = String::from(PRELUDE);
    for name in manifest::programs(root)? {
        let object = root.join(manifest::OBJECTS).join(&name).with_extension("o");
        let copy = out.join(&name).with_extension("o");
        fs::copy(&object, &copy).map_err(|error| {
            format!("cannot copy {}: {error}; run `cargo xtask build-ebpf`", object.display())
        })?;
        text += &format!("    ({name:?}, &Aligned(*include_bytes!({copy:?})).0),\n");
    }
    Ok(text + "];\n")
}
