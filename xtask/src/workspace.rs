//! The root of the workspace and the files below it.
//!
//! Out: paths relative to the root, with `/` between the parts, in one order on every machine.
//! Does not ask git: the ignored folders are listed here as in `.gitignore`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The package of the binary.
pub const PACKAGE: &str = "monitor";
/// The package of the C library.
pub const C_LIBRARY: &str = "monitor-capi";
/// The folder of the C headers.
pub const C_HEADERS: &str = "monitor-user/crates/client/capi/include";
/// The profile of what is shipped and measured.
pub const PROFILE: &str = "dist";

/// Build output.
const IGNORED: &[&str] = &[".git", "target"];

/// The folder of the workspace's `Cargo.toml`: the nearest one above the current folder, so that
/// one build of this program serves several checkouts.
pub fn root() -> PathBuf {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let here = std::env::current_dir().unwrap_or_default();
        // Without a workspace around it, the one that it was built from.
        let built_from = || Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        find_root(&here).unwrap_or_else(built_from)
    });
    ROOT.clone()
}

/// The folder that cargo builds to.
pub fn target() -> PathBuf {
    let folder = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    root().join(folder.unwrap_or_else(|| PathBuf::from("target")))
}

/// Another workspace may be below it, so the folder must also have this program.
fn find_root(here: &Path) -> Option<PathBuf> {
    let is_root = |folder: &&Path| {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        manifest.lines().any(|line| line == "[workspace]") && folder.join("xtask").is_dir()
    };
    here.ancestors().find(is_root).map(Path::to_path_buf)
}

/// A path of the command line, from the root of the workspace.
pub fn relative(path: &str) -> String {
    let full = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
    let inside = full.strip_prefix(root()).unwrap_or(&full);
    let parts = inside.components().map(|part| part.as_os_str().to_string_lossy());
    parts.collect::<Vec<_>>().join("/")
}

/// Whether a file is the path or below it; the empty path is the root.
pub fn is_below(file: &str, path: &str) -> bool {
    let rest = file.strip_prefix(path);
    path.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
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

/// Whether this process runs as root.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|folder| folder.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_found_from_any_folder_below_it() {
        let root = root();
        assert!(root.join("xtask/Cargo.toml").exists());
        assert_eq!(find_root(&root.join("xtask/src")), Some(root.clone()));
        assert_eq!(find_root(&root.join("tests/fuzz")), Some(root));
    }

    #[test]
    fn a_path_begins_with_whole_folders() {
        assert!(is_below("docs/a.md", "docs"));
        assert!(is_below("docs/a.md", "docs/a.md"));
        assert!(is_below("docs/a.md", ""));
        assert!(!is_below("docsx/a.md", "docs"));
    }
}
