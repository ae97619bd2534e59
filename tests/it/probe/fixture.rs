//! Programs and libraries that are built for a test, of the files in `tests/fixture/code`.

use crate::root::privilege::skip;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is built of what.
pub struct Build<'a> {
    /// The test, whose folder it lies in.
    pub test: &'a str,
    /// The file in `tests/fixture/code`.
    pub source: &'a str,
    /// The name of the product.
    pub product: &'a str,
    /// What else the compiler is told.
    pub words: &'a [&'a str],
}

impl Build<'_> {
    /// Builds it; says why not where there is no compiler, or fails where a skip is not allowed.
    #[track_caller]
    pub fn done(&self) -> Option<PathBuf> {
        let product = folder(self.test).join(self.product);
        let mut command = Command::new("cc");
        command.arg("-o").arg(&product).args(self.words).arg(code(self.source));
        let output = match command.output() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                skip(self.test, "needs cc to build what it looks at (apt install gcc libc6-dev)");
                return None;
            }
            output => output.unwrap(),
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(product)
    }
}

/// The library with known first instructions.
#[track_caller]
pub fn sites(test: &str) -> Option<PathBuf> {
    let script = format!("-Wl,--version-script={}", code("sites.map").display());
    let words = ["-shared", "-nostdlib", "-Wl,--build-id=0x1234abcd", script.as_str()];
    Build { test, source: "sites.s", product: "libsites.so", words: &words }.done()
}

/// A folder of the test's own.
pub fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn code(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixture/code").join(name)
}
