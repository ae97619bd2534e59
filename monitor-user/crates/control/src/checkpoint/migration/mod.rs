//! A process that migrates without a folder that both nodes see: dumped and left frozen, and restored
//! frozen.
//!
//! In: a process, or its images. Out: images and a frozen process. Nothing thaws it but the caller,
//! by `MigrationCgroup`, when it knows which of the two copies is to run. These calls block.

mod cgroup;
mod changed_code;
mod guard;

use super::{blockers, check::CriuCheck, criu, dump::MAX_CRIU_TIME, folder};
use crate::process_ref::ProcessRef;
use crate::{ControlError, deadline::DeadlineWait};
pub use cgroup::MigrationCgroup;
use guard::ABANDONED;
pub use guard::Guard;
use monitor_model::{Identity, Pid};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Most time of `criu check`, which tries the kernel features that it needs.
const MAX_CHECK_TIME: Duration = Duration::from_secs(10);
/// The cgroup, for scripts that CRIU executes.
const CGROUP: &str = "MONITOR_CGROUP";
const FREEZE: &str = include_str!("freeze.sh");
const HOLD: &str = include_str!("hold.sh");

/// The folder of a migration on one node, which only its user may access, and its cgroup.
pub struct MigrationPlace {
    folder: PathBuf,
    /// The cgroup.
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

    /// Whether a CRIU that an earlier service has started works here.
    pub fn has_criu(&self) -> bool {
        criu::is_running_in(&self.images())
    }

    /// Waits until none does any longer.
    ///
    /// # Errors
    /// It takes longer than CRIU may.
    pub fn wait_for_criu(&self) -> Result<(), ControlError> {
        let until = Instant::now() + MAX_CRIU_TIME;
        while self.has_criu() {
            if Instant::now() >= until {
                return Err(ControlError::TimedOut(format!("CRIU in {}", self.folder.display())));
            }
            std::thread::sleep(criu::POLL_INTERVAL);
        }
        Ok(())
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
    fn run_criu(
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
        let (cgroup, abandoned) = (self.cgroup.path(), self.folder.join(ABANDONED));
        let variables = [(CGROUP, cgroup), (guard::VARIABLE, abandoned.as_path())];
        let mut criu =
            criu::start_in(&words, &self.images(), (self.cgroup.open_procs()?, &variables))?;
        Ok(criu::wait(&mut criu, Instant::now() + MAX_CRIU_TIME))
    }
}

/// Whether CRIU works here.
///
/// # Errors
/// It is missing, or fails its own check.
pub fn check_criu() -> Result<String, ControlError> {
    CriuCheck::default().version(&mut DeadlineWait::new(MAX_CHECK_TIME, None))
}

/// Checks that a process can migrate: nothing that it shares with others here would be lost, no tool
/// has it, and its code is that of its files.
///
/// # Errors
/// What prevents it.
pub fn check_migratable(process: &ProcessRef) -> Result<(), ControlError> {
    if let state @ ('T' | 't' | 'Z' | 'X') = process.stat()?.state {
        let pid = process.pid();
        let why = format!("process {pid} is stopped or ends (state {state}): resume it first");
        return Err(ControlError::WrongState(why));
    }
    if let Some(tracer) = process.tracer() {
        return Err(ControlError::AlreadyTraced { tracer });
    }
    super::refuse_if(blockers::first_relative(process)?)?;
    super::refuse_if(blockers::first_blocker(process)?)?;
    super::refuse_if(changed_code::first_changed(process)?)
}

/// Dumps a process, and leaves it frozen in the cgroup of the place.
///
/// # Errors
/// It cannot be dumped. It runs on then, and nothing is left.
pub fn dump_frozen(process: &ProcessRef, place: &MigrationPlace) -> Result<(), ControlError> {
    place.create()?;
    place.cgroup.create()?;
    let dumped = dump_in(process, place);
    if dumped.is_err() {
        place.cgroup.dissolve()?;
        place.remove_folder();
    }
    dumped
}

fn dump_in(process: &ProcessRef, place: &MigrationPlace) -> Result<(), ControlError> {
    place.cgroup.enter(process.id.pid)?;
    if process.pidfd.has_ended() {
        return Err(ControlError::Gone);
    }
    let pid = process.pid().to_string();
    let words = ["dump", "--tree", &pid, "--leave-running"];
    let started = Instant::now();
    if !place.run_criu(&words, ("freeze.sh", FREEZE))? {
        let is_late = started.elapsed() >= MAX_CRIU_TIME;
        return Err(criu::failure("dumped; it runs on as before", &place.images(), is_late));
    }
    if process.pidfd.has_ended() {
        return Err(ControlError::Gone);
    }
    if !place.cgroup.is_frozen() {
        let why = "the process was thawed by another program during its dump; it runs on as before";
        return Err(ControlError::wrong_state(why));
    }
    // What was put into it while CRIU came is in the images.
    super::refuse_if(changed_code::first_changed(process)?)
}

/// Restores a process from the images of the place, and leaves it frozen in the cgroup.
///
/// # Errors
/// It cannot be restored. There is no copy then.
pub fn restore_frozen(pid: Pid, place: &MigrationPlace) -> Result<Identity, ControlError> {
    let restored = restore_in(pid, place);
    if restored.is_err() {
        place.cgroup.kill()?;
    }
    restored
}

fn restore_in(pid: Pid, place: &MigrationPlace) -> Result<Identity, ControlError> {
    if Path::new(&format!("/proc/{}", pid.0)).exists() {
        let why = format!("another process of this node has the pid {}", pid.0);
        return Err(ControlError::WrongState(why));
    }
    place.cgroup.create()?;
    let started = Instant::now();
    if !place.run_criu(&["restore", "--restore-detached"], ("hold.sh", HOLD))? {
        let is_late = started.elapsed() >= MAX_CRIU_TIME;
        return Err(criu::failure("restored", &place.images(), is_late));
    }
    let id = ProcessRef::open_current(pid)?.id;
    match place.cgroup.is_frozen() {
        true => Ok(id),
        false => Err(ControlError::wrong_state("CRIU has not left the process frozen")),
    }
}
