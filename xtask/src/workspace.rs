//! Where things are: the root of the workspace and the files below it.
//!
//! Out: paths relative to the root, with `/` between the parts, in one order on every machine.
//! Knows nothing of git: what is ignored is listed here, and `.gitignore` says the same.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Built, not written: nobody reads these folders.
const IGNORED: &[&str] = &[".git", "target"];

/// The folder of the workspace's `Cargo.toml`.
pub fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask is a folder of the workspace").to_path_buf()
}

/// All files of the workspace, sorted.
pub fn files() -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    collect(&root(), "", &mut found)?;
    found.sort();
    Ok(found)
}

/// Reads one file of the workspace as text; `None` if it is not text.
pub fn text(path: &str) -> Result<Option<String>, String> {
    let bytes = fs::read(root().join(path)).map_err(|error| cannot("read", path, &error))?;
    Ok(String::from_utf8(bytes).ok().filter(|text| !text.contains('\0')))
}

/// One spelling for every failed file operation.
pub fn cannot(verb: &str, path: impl AsRef<Path>, error: &std::io::Error) -> String {
    format!("cannot {verb} {}: {error}", path.as_ref().display())
}

fn collect(root: &Path, folder: &str, found: &mut Vec<String>) -> Result<(), String> {
    let unreadable = |error| cannot("read the folder", root.join(folder), &error);
    for entry in fs::read_dir(root.join(folder)).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if folder.is_empty() && is_ignored(&name) {
            continue;
        }
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        if entry.file_type().map_err(unreadable)?.is_dir() {
            collect(root, &path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

fn is_ignored(name: &str) -> bool {
    IGNORED.contains(&name) || name.starts_with("target-")
}

/// Whether we may load programs and read everybody's files.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|ours| ours.uid() == 0)
}
