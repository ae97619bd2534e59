//! The folder that dumped processes lie in: its user's alone, and out of the reach of others.
//!
//! In: its path. Out: the same without links, when it may be trusted. What lies in it is the
//! memory of processes, and who writes it decides what is restored: so nobody else may look into
//! it, and nobody else may put another in its place, by any of the folders above.

use super::super::trouble::Trouble;
use monitor_sys::rights::own_user;
use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Whatever others may do.
const OF_OTHERS: u32 = 0o077;
/// That they may write.
const WRITTEN_BY_OTHERS: u32 = 0o022;
/// Who may write may move his own alone.
const STICKY: u32 = 0o1000;
const OWN_ALONE: u32 = 0o700;

/// Makes it, if it is not there.
pub fn made(folder: &Path) -> Result<PathBuf, Trouble> {
    let above = folder.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(above).map_err(|error| cannot("making", above, &error))?;
    match own(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(cannot("making", folder, &error))
        }
        _ => trusted(folder),
    }
}

/// Makes a folder that is its user's alone.
pub fn own(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(OWN_ALONE).create(folder)
}

/// One that is there, if it may be trusted.
pub fn trusted(folder: &Path) -> Result<PathBuf, Trouble> {
    is_own(folder)?;
    let real = folder.canonicalize().map_err(|error| cannot("following", folder, &error))?;
    is_own(&real)?;
    // Links are followed as they are found, so who can replace one above counts, too.
    let above = folder.ancestors().skip(1).chain(real.ancestors().skip(1));
    for above in above.filter(|it| *it != Path::new("")) {
        let seen = fs::metadata(above).map_err(|error| cannot("looking at", above, &error))?;
        if !is_safe(&seen) {
            let what = format!("keeping processes in {}", folder.display());
            let need = format!(
                "{} to be root's or its user's, and not to be written by others",
                above.display()
            );
            return Err(Trouble::denied(&what, &need));
        }
    }
    Ok(real)
}

/// Whether it is its user's alone.
pub fn is_own(folder: &Path) -> Result<(), Trouble> {
    let seen = fs::symlink_metadata(folder);
    let seen = seen.map_err(|error| cannot("looking at", folder, &error))?;
    if seen.is_dir() && seen.uid() == own_user() && seen.mode() & OF_OTHERS == 0 {
        return Ok(());
    }
    let what = format!("keeping processes in {}", folder.display());
    Err(Trouble::denied(&what, "a folder that is its user's and nobody else's, of mode 0700"))
}

/// Whether nobody else can put another in the place of what is in it.
fn is_safe(folder: &Metadata) -> bool {
    let is_trusted = folder.uid() == 0 || folder.uid() == own_user();
    is_trusted && (folder.mode() & WRITTEN_BY_OTHERS == 0 || folder.mode() & STICKY != 0)
}

/// Why a file could not be worked at: that one is not there says nothing of a process.
pub fn cannot(what: &str, path: &Path, error: &io::Error) -> Trouble {
    let call = format!("{what} {}", path.display());
    match error.kind() {
        io::ErrorKind::PermissionDenied => Trouble::denied(&call, "the rights of its user"),
        _ => Trouble::Failed { call, why: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_folder_is_trusted_if_nobody_else_can_change_or_replace_it() {
        let above = std::env::temp_dir().join(format!("monitor-trust-{}", std::process::id()));
        let folder = above.join("images");
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        fs::create_dir(&above).unwrap();
        mode(&above, 0o755);
        assert!(made(&folder).is_ok());
        for (of_above, of_it, is_trusted) in [
            (0o755, 0o700, true),
            (0o1777, 0o700, true),
            (0o777, 0o700, false),
            (0o775, 0o700, false),
            (0o755, 0o750, false),
        ] {
            mode(&above, of_above);
            mode(&folder, of_it);
            assert_eq!(trusted(&folder).is_ok(), is_trusted, "{of_above:o} {of_it:o}");
        }
        fs::remove_dir_all(above).unwrap();
        assert!(matches!(trusted(&folder), Err(Trouble::Failed { .. })));
    }
}
