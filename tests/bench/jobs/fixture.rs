//! MPI programs of the tests, compiled for a bench.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a fixture, for the caller to remove.
pub fn build(compiler: &mut Command, source: &str) -> PathBuf {
    let program = std::env::temp_dir().join(format!("{source}-{}", std::process::id()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixture/code").join(source);
    let built = compiler.arg("-O2").arg("-o").arg(&program).arg(source).status().unwrap();
    assert!(built.success());
    program
}

/// A file of the runtimes that Debian does not have, where `cargo xtask wheels` puts it.
pub fn fetched(path: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("mpi").join(path)
}
