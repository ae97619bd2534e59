//! Child processes: prints a command, runs it, and describes its failure.
//!
//! A child of `cargo xtask` inherits what rustup and cargo set for `xtask` itself; `fresh` takes
//! that away, so that a child chooses its own compiler.

use std::path::Path;
use std::process::{Command, Stdio};

/// Variables that cargo and rustup set for a child, and those that change the code that a compiler
/// makes.
const INHERITED: &[&str] = &[
    "CARGO",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_INCREMENTAL",
    "CARGO_MANIFEST_DIR",
    "CARGO_MANIFEST_PATH",
    "LD_LIBRARY_PATH",
    "RUSTC",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "RUSTDOC",
    "RUSTFLAGS",
    "RUSTUP_TOOLCHAIN",
];

/// A command in the root of the workspace, without the environment of the cargo that runs this one.
pub fn fresh(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    for name in INHERITED {
        command.env_remove(name);
    }
    command.current_dir(crate::workspace::root());
    command
}

/// The cargo that runs this program, in the root of the workspace, without the variables that it
/// set about `xtask`: a build script that watches one would run again when cargo is called by hand.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let of_xtask =
        |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(of_xtask)) {
        command.env_remove(name);
    }
    command.current_dir(crate::workspace::root());
    command
}

/// Runs the command on this terminal.
pub fn run(command: &mut Command) -> Result<(), String> {
    let line = line(command);
    eprintln!("$ {line}");
    let status = command.stdin(Stdio::null()).status().map_err(|error| {
        format!("cannot run `{line}`: {error}; is it installed and on the PATH?")
    })?;
    if status.success() {
        return Ok(());
    }
    let first = command.get_args().next().unwrap_or_default();
    let program = program_name(command);
    Err(format!("`{program} {}` failed ({status}); its output is above", first.display()))
}

/// The output of the command, or nothing if it cannot be run or fails.
pub fn answer(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The output of the command, or its errors.
pub fn output(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} failed ({}): {}", output.status, errors.trim()))
}

/// The command as one would type it: its environment (except the PATH, which is long), the program
/// by its name, the arguments.
pub fn line(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value.filter(|_| name != "PATH") {
            let value = value.to_string_lossy().replace('\u{1f}', " ");
            words.push(format!("{}={}", name.to_string_lossy(), quoted(&value)));
        }
    }
    words.push(program_name(command));
    words.extend(command.get_args().map(|word| quoted(&word.to_string_lossy())));
    words.join(" ")
}

fn program_name(command: &Command) -> String {
    let program = Path::new(command.get_program());
    program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned()
}

fn quoted(word: &str) -> String {
    if word.contains([' ', '\'']) { format!("\"{word}\"") } else { word.to_owned() }
}
