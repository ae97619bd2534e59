//! `cargo xtask build-ebpf`: the BPF objects from their sources.
//!
//! In: `monitor-ebpf`. Out: `monitor-ebpf/objects/NAME.o`, one for each file in `src/bin`, and
//! `SOURCES.sha256` beside them. Two builds give the same bytes, in any folder, but for the order
//! of types in `.BTF`.
//! The objects are committed, so only a change of the kernel half needs this.

mod manifest;
mod strip;
pub mod toolchain;
mod types;

use crate::arguments::Arguments;
use crate::verdict::Outcome;
use crate::{step, workspace};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use toolchain::Toolchain;

const TARGET: &str = "bpfel-unknown-none";
/// Below `target`, so that other builds do not wait for this one's lock.
const TARGET_DIR: &str = "target/bpf";

/// `build-ebpf`, `build-ebpf --setup` or `build-ebpf --check`.
pub fn run(arguments: &Arguments) -> Outcome {
    if arguments.has("--setup") {
        toolchain::set_up()
    } else if arguments.has("--check") {
        check(&Toolchain::find()?)
    } else {
        write(&Toolchain::find()?)
    }
}

/// Whether the committed objects come from the sources as they are now; needs no toolchain.
pub fn up_to_date() -> Outcome {
    let changes = manifest::changes(&workspace::root())?;
    if changes.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the objects in {} were not built from these sources, which changed since: {}; \
         run `cargo xtask build-ebpf` and commit the objects",
        manifest::OBJECTS,
        changes.join(", ")
    ))
}

/// Builds again, and compares with what is committed.
pub fn check(toolchain: &Toolchain) -> Outcome {
    up_to_date()?;
    let objects = build(toolchain)?;
    let versions = toolchain.versions()?;
    let built_by = manifest::built_by(&workspace::root()).unwrap_or_default();
    if versions != built_by {
        println!("The objects build. Not compared: they are by {built_by}, here is {versions}.");
        return Ok(());
    }
    for Object { name, bytes } in objects {
        let file = file(&name);
        let committed =
            fs::read(&file).map_err(|error| workspace::cannot("read", &file, &error))?;
        if types::sorted(&committed)? != types::sorted(&bytes)? {
            return Err(format!(
                "{} is not what its sources give with {versions}; \
                 run `cargo xtask build-ebpf` and commit the objects",
                file.display()
            ));
        }
    }
    println!("The committed objects are what their sources give, but for the order of types.");
    Ok(())
}

/// `cargo clippy` for the kernel half, on its own target.
pub fn clippy(toolchain: &Toolchain) -> Outcome {
    let mut command = toolchain.clippy()?;
    command.arg("clippy");
    arguments(&mut command, toolchain)?;
    step::run(command.args(["--", "--deny=warnings"]))
}

struct Object {
    name: String,
    bytes: Vec<u8>,
}

fn write(toolchain: &Toolchain) -> Outcome {
    let root = workspace::root();
    let folder = root.join(manifest::OBJECTS);
    fs::create_dir_all(&folder).map_err(|error| workspace::cannot("create", &folder, &error))?;
    let objects = build(toolchain)?;
    remove_obsolete(&folder, &objects)?;
    for Object { name, bytes } in &objects {
        let file = file(name);
        fs::write(&file, bytes).map_err(|error| workspace::cannot("write", &file, &error))?;
        println!("{:>7} bytes  {}/{name}.o", bytes.len(), manifest::OBJECTS);
    }
    manifest::write(&root, &toolchain.versions()?)
}

/// Objects whose program was renamed or removed.
fn remove_obsolete(folder: &Path, objects: &[Object]) -> Outcome {
    let unreadable = |error| workspace::cannot("read the folder", folder, &error);
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let is_object = path.extension().is_some_and(|extension| extension == "o");
        if is_object && !objects.iter().any(|object| file(&object.name) == path) {
            fs::remove_file(&path).map_err(|error| workspace::cannot("remove", &path, &error))?;
        }
    }
    Ok(())
}

fn build(toolchain: &Toolchain) -> Result<Vec<Object>, String> {
    let mut command = toolchain.cargo();
    command.arg("build");
    arguments(&mut command, toolchain)?;
    step::run(&mut command)?;
    let built = workspace::root().join(TARGET_DIR).join(TARGET).join("release");
    let object = |name: String| {
        let file = built.join(&name);
        let linked = fs::read(&file).map_err(|error| workspace::cannot("read", &file, &error))?;
        Ok(Object { bytes: strip::without_dwarf(&linked)?, name })
    };
    manifest::programs(&workspace::root())?.into_iter().map(object).collect()
}

fn arguments(command: &mut Command, toolchain: &Toolchain) -> Outcome {
    let mut flags: Vec<String> = manifest::FLAGS.iter().map(|&flag| flag.to_owned()).collect();
    flags.extend(without_paths(toolchain)?);
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    command.envs(manifest::PROFILE.iter().copied());
    command.args(["--release", "--locked", "--package=monitor-ebpf", "--bins"]);
    command.args(["-Zbuild-std=core", "--target", TARGET, "--target-dir", TARGET_DIR]);
    Ok(())
}

/// Line information names files; these flags make the names the same on every machine.
fn without_paths(toolchain: &Toolchain) -> Result<Vec<String>, String> {
    let registry = toolchain::cargo_home().map(|home| home.join("registry/src"));
    let mut names = vec![(workspace::root(), "."), (toolchain.library()?, "rust")];
    names.extend(registry.map(|folder| (folder, "registry")));
    let flag = |(from, to): (PathBuf, &str)| format!("--remap-path-prefix={}={to}", from.display());
    Ok(names.into_iter().map(flag).collect())
}

fn file(name: &str) -> PathBuf {
    workspace::root().join(manifest::OBJECTS).join(format!("{name}.o"))
}
