//! The folder of all dumps, which only its user may access.
//!
//! In: its path. Out: the path without links, if it can be trusted. Dumps contain the memory of
//! processes and decide what is restored, so no other user may read the folder, and no other user
//! may replace it or any folder above it.

use crate::ControlError;
use monitor_sys::fsuid::effective_uid;
use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Any permission of group and others.
const ANY_BY_OTHERS: u32 = 0o077;
/// Write permission of group and others.
const WRITE_BY_OTHERS: u32 = 0o022;
/// Sticky bit: users may rename only their own entries.
const STICKY: u32 = 0o1000;
const OWNER_ONLY: u32 = 0o700;

/// Creates the folder unless it exists, and checks it.
pub fn create(folder: &Path) -> Result<PathBuf, ControlError> {
    let above = folder.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(above).map_err(|error| io_error("creating", above, &error))?;
    match create_private(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(io_error("creating", folder, &error))
        }
        _ => check_trusted(folder),
    }
}

/// Creates a folder that only its user may access.
pub fn create_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(OWNER_ONLY).create(folder)
}

/// Checks an existing folder; returns its path without links.
pub fn check_trusted(folder: &Path) -> Result<PathBuf, ControlError> {
    check_private(folder)?;
    let real = folder.canonicalize().map_err(|error| io_error("following", folder, &error))?;
    check_private(&real)?;
    // A link above could be replaced, so the folders before and after resolution are checked.
    let above = folder.ancestors().skip(1).chain(real.ancestors().skip(1));
    for above in above.filter(|it| *it != Path::new("")) {
        let metadata = fs::metadata(above).map_err(|error| io_error("checking", above, &error))?;
        if !is_safe(&metadata) {
            let what = format!("keeping dumps in {}", folder.display());
            let need = format!(
                "{} to belong to root or the user, and not to be writable by others",
                above.display()
            );
            return Err(ControlError::denied(&what, &need));
        }
    }
    Ok(real)
}

/// Checks that only its user may access the folder.
pub fn check_private(folder: &Path) -> Result<(), ControlError> {
    let metadata = fs::symlink_metadata(folder);
    let metadata = metadata.map_err(|error| io_error("checking", folder, &error))?;
    if metadata.is_dir()
        && metadata.uid() == effective_uid()
        && metadata.mode() & ANY_BY_OTHERS == 0
    {
        return Ok(());
    }
    let what = format!("keeping dumps in {}", folder.display());
    Err(ControlError::denied(&what, "a folder that belongs to the user, with mode 0700"))
}

/// Whether no other user can replace an entry of the folder.
fn is_safe(folder: &Metadata) -> bool {
    let is_trusted = folder.uid() == 0 || folder.uid() == effective_uid();
    is_trusted && (folder.mode() & WRITE_BY_OTHERS == 0 || folder.mode() & STICKY != 0)
}

/// Maps an error on a file. Unlike `from_io`, a missing file does not mean a missing process.
pub fn io_error(what: &str, path: &Path, error: &io::Error) -> ControlError {
    let call = format!("{what} {}", path.display());
    match error.kind() {
        io::ErrorKind::PermissionDenied => ControlError::denied(&call, "the same user"),
        _ => ControlError::Failed { call, why: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_folder_is_trusted_if_no_other_user_can_change_or_replace_it() {
        let above = std::env::temp_dir().join(format!("monitor-trust-{}", std::process::id()));
        let folder = above.join("images");
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        fs::create_dir(&above).unwrap();
        mode(&above, 0o755);
        assert!(create(&folder).is_ok());
        for (of_above, of_it, is_trusted) in [
            (0o755, 0o700, true),
            (0o1777, 0o700, true),
            (0o777, 0o700, false),
            (0o775, 0o700, false),
            (0o755, 0o750, false),
        ] {
            mode(&above, of_above);
            mode(&folder, of_it);
            assert_eq!(check_trusted(&folder).is_ok(), is_trusted, "{of_above:o} {of_it:o}");
        }
        fs::remove_dir_all(above).unwrap();
        assert!(matches!(check_trusted(&folder), Err(ControlError::Failed { .. })));
    }
}
