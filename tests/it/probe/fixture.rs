//! Builds programs and libraries for a test, from the files in `tests/fixture/code`.

use crate::root::privilege::skip;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program or library to build.
pub struct Build<'a> {
    /// The test; its folder gets the product.
    pub test: &'a str,
    /// The source file in `tests/fixture/code`.
    pub source: &'a str,
    /// The name of the product.
    pub product: &'a str,
    /// Further arguments of the compiler.
    pub words: &'a [&'a str],
}

impl Build<'_> {
    /// Builds it and returns its path. Without a compiler the test is skipped, or fails if skips
    /// are not allowed.
    #[track_caller]
    pub fn done(&self) -> Option<PathBuf> {
        let product = folder(self.test).join(self.product);
        let (compiler, package) = match self.source.rsplit_once('.') {
            Some((_, "cc")) => ("c++", "g++"),
            Some((_, "rs")) => ("rustc", "rustc"),
            Some((_, "go")) => ("go", "golang-go"),
            _ => ("cc", "gcc libc6-dev"),
        };
        let mut command = Command::new(compiler);
        command.args((compiler == "go").then_some("build"));
        command.arg("-o").arg(&product).args(self.words).arg(code(self.source));
        let output = match command.output() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let why = format!("needs {compiler} for its program (apt install {package})");
                skip(self.test, &why);
                return None;
            }
            output => output.unwrap(),
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(product)
    }
}

/// Builds the library whose functions begin with known instructions.
#[track_caller]
pub fn sites(test: &str) -> Option<PathBuf> {
    let script = format!("-Wl,--version-script={}", code("sites.map").display());
    let words = ["-shared", "-nostdlib", "-Wl,--build-id=0x1234abcd", script.as_str()];
    Build { test, source: "sites.s", product: "libsites.so", words: &words }.done()
}

/// Creates the folder of a test.
pub fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn code(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixture/code").join(name)
}
