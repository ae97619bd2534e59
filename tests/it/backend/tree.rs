//! Trees of files that stand for `/proc` and `/sys`: the one in `fixture`, and copies to spoil.

use std::fs;
use std::path::{Path, PathBuf};

/// The tree in `tests/fixture/node`.
pub fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixture/node")
}

/// A copy of a tree that goes when it is dropped.
pub struct Copy {
    /// Its top.
    pub path: PathBuf,
}

impl Copy {
    /// A copy of the fixture, for the test of that name.
    pub fn of_fixture(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("monitor-{test}-{}", std::process::id()));
        let copy = Self { path };
        for file in files(&fixture()) {
            let to = copy.path.join(file.strip_prefix(fixture()).unwrap());
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::write(to, fs::read(file).unwrap()).unwrap();
        }
        copy
    }

    /// Its files, in order.
    pub fn files(&self) -> Vec<PathBuf> {
        files(&self.path)
    }

    /// Writes one of its files again.
    pub fn write(&self, file: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path.join(file), text).unwrap();
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}
