//! Where a migration is on one node: a folder and a cgroup.
//!
//! In: paths. Out: folders that only their user may access; CRIU, run in the cgroup with a script
//! for its steps.

use super::cgroup::MigrationCgroup;
use crate::ControlError;
use crate::checkpoint::{criu, dump::MAX_CRIU_TIME, folder};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Instant;

/// The cgroup, for the scripts.
pub const CGROUP_VARIABLE: &str = "MONITOR_CGROUP";
/// The file that says that the service has ended, for the scripts.
pub const ABANDONED_VARIABLE: &str = "MONITOR_ABANDONED";

/// The folder of a migration on one node, which only its user may access, and its cgroup.
pub struct MigrationPlace {
    folder: PathBuf,
    /// Its cgroup.
    pub cgroup: MigrationCgroup,
}

impl MigrationPlace {
    /// With these; neither needs to exist.
    pub const fn new(folder: PathBuf, cgroup: MigrationCgroup) -> Self {
        Self { folder, cgroup }
    }

    /// The folder of the images.
    pub fn images(&self) -> PathBuf {
        self.folder.join("images")
    }

    /// Makes the folders.
    ///
    /// # Errors
    /// One cannot be made, or other users could change it.
    pub fn create(&self) -> Result<(), ControlError> {
        folder::create(&self.folder)?;
        folder::create(&self.images()).map(drop)
    }

    /// Waits until no CRIU that an earlier service has started works here.
    ///
    /// # Errors
    /// It takes longer than CRIU may.
    pub fn wait_for_criu(&self) -> Result<(), ControlError> {
        let until = Instant::now() + MAX_CRIU_TIME;
        while criu::is_running_in(&self.images()) {
            if Instant::now() >= until {
                return Err(ControlError::TimedOut(format!("CRIU in {}", self.folder.display())));
            }
            std::thread::sleep(criu::POLL_INTERVAL);
        }
        Ok(())
    }

    /// The file that says to CRIU that its service has ended.
    pub fn abandoned(&self) -> PathBuf {
        self.folder.join("abandoned")
    }

    /// Removes the folder; what cannot be removed is logged.
    pub fn remove_folder(&self) {
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!("cannot remove {}: {error}", self.folder.display());
            }
            _ => {}
        }
    }

    /// Runs CRIU in the cgroup, with a script for its steps.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn run_criu(
        &self,
        arguments: &[&str],
        (name, script): (&str, &str),
    ) -> Result<bool, ControlError> {
        let path = self.folder.join(name);
        let failed = |error| folder::io_error("writing", &path, &error);
        fs::write(&path, script).map_err(failed)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).map_err(failed)?;
        let script = path.to_str().ok_or_else(|| {
            ControlError::InvalidArgument(format!("{}: the path is not UTF-8", path.display()))
        })?;
        let mut words = arguments.to_vec();
        // The cgroups are ours, and not those that the process was in.
        words.extend(["--manage-cgroups=ignore", "--action-script", script]);
        let (cgroup, abandoned) = (self.cgroup.path(), self.abandoned());
        let variables = [(CGROUP_VARIABLE, cgroup), (ABANDONED_VARIABLE, abandoned.as_path())];
        let mut criu =
            criu::start_in(&words, &self.images(), (self.cgroup.open_procs()?, &variables))?;
        Ok(criu::wait(&mut criu, Instant::now() + MAX_CRIU_TIME))
    }
}
