//! The cgroup of a process that migrates: it freezes the process, whatever becomes of the service.
//!
//! ```text
//!  CGROUP/           CRIU, and the guard of the source
//!  CGROUP/process/   the process; cgroup.freeze
//! ```
//!
//! In: a process, or a name. Out: the process frozen, thawed or killed, also by a later run of the
//! service. A frozen process executes nothing, and no signal but SIGKILL changes that (cgroups(7),
//! Documentation/admin-guide/cgroup-v2.rst); after SIGSTOP each process of the user may send
//! SIGCONT. It needs version 2 of cgroups.

use crate::checkpoint::folder::io_error;
use crate::process_ref::ProcessRef;
use crate::{ControlError, step_cgroup};
use monitor_model::Pid;
use monitor_sys::pidfd::PidFd;
use procfs::ProcessCGroup;
use procfs::process::{MountInfo, Process};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The cgroup of the process, in that of the migration.
const PROCESS: &str = "process";
/// Most time until the kernel has frozen or ended all processes of a cgroup.
const MOST_WAIT: Duration = Duration::from_secs(10);
/// How often that is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
const KILL: u32 = Signal::KILL.as_raw().cast_unsigned();

/// The cgroup of a process that migrates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationCgroup {
    path: PathBuf,
}

impl MigrationCgroup {
    /// Where that of a process would be: in the cgroup of the process, whose limits go on to hold.
    ///
    /// # Errors
    /// The process has ended, or there is no version 2 of cgroups.
    pub fn of_process(process: &ProcessRef, name: &str) -> Result<Self, ControlError> {
        let procs = unified_procs(process.pid())?;
        let own = procs.parent().unwrap_or(Path::new("/"));
        Ok(Self { path: own.join(name) })
    }

    /// Whether a process is frozen: it is in one, or another program has frozen it.
    pub fn freezes(process: &ProcessRef) -> bool {
        let procs = unified_procs(process.pid());
        procs.ok().and_then(|it| event(it.parent()?, "frozen")).unwrap_or(false)
    }

    /// Where one of this name would be at the root of the hierarchy: no service ends with it.
    ///
    /// # Errors
    /// There is no version 2 of cgroups.
    pub fn at_root(name: &str) -> Result<Self, ControlError> {
        let mount = unified_mount(&mounts()).ok_or_else(missing)?;
        Ok(Self { path: mount.join(name) })
    }

    /// Removes those at the root whose names begin so, and whose process has ended. What is in use
    /// stays.
    pub fn remove_empty(beginning: &str) {
        let Some(mount) = unified_mount(&mounts()) else { return };
        for entry in fs::read_dir(mount).into_iter().flatten().flatten() {
            let it = Self { path: entry.path() };
            let is_one = entry.file_name().to_string_lossy().starts_with(beginning);
            if is_one && event(&it.path, "populated") == Some(false) {
                it.remove();
            }
        }
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it, empty.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn create(&self) -> Result<(), ControlError> {
        let process = self.process();
        fs::create_dir_all(&process).map_err(|error| io_error("making", &process, &error))?;
        let freeze = process.join("cgroup.freeze");
        if freeze.exists() {
            return Ok(());
        }
        self.remove();
        Err(ControlError::Unsupported(format!("this kernel has no {}", freeze.display())))
    }

    /// Lets a process enter, with all its threads.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn enter(&self, pid: Pid) -> Result<(), ControlError> {
        self.write_process("cgroup.procs", &pid.0.to_string())
    }

    /// Its `cgroup.procs`, open, for a program that starts in it.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open_procs(&self) -> Result<File, ControlError> {
        let path = self.path.join("cgroup.procs");
        let file = OpenOptions::new().write(true).open(&path);
        file.map_err(|error| io_error("opening", &path, &error))
    }

    /// Whether the process is in it, and frozen.
    pub fn is_frozen(&self) -> bool {
        let event = |key| event(&self.process(), key);
        event("populated") == Some(true) && event("frozen") == Some(true)
    }

    /// Whether it has a process that has not ended.
    pub fn is_populated(&self) -> bool {
        event(&self.path, "populated") == Some(true)
    }

    /// Thaws the process: it executes again. Nothing to do if it has gone.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn thaw(&self) -> Result<(), ControlError> {
        match self.process().is_dir() {
            true => self.write_process("cgroup.freeze", "0"),
            false => Ok(()),
        }
    }

    /// Thaws the process, and lets it return to the cgroup above.
    ///
    /// # Errors
    /// The kernel refuses to thaw it. It stays in this cgroup if it cannot return.
    pub fn dissolve(&self) -> Result<(), ControlError> {
        self.thaw()?;
        let above = self.path.parent().map(|it| it.join("cgroup.procs"));
        for pid in procs(&self.process()) {
            if let Some(Err(why)) = above.as_ref().map(|it| fs::write(it, pid.to_string())) {
                tracing::warn!("process {pid} stays in {}: {why}", self.path.display());
            }
        }
        self.remove();
        Ok(())
    }

    /// Kills all that is in it, frozen or not, and removes it.
    ///
    /// # Errors
    /// Something in it does not end in time.
    pub fn kill(&self) -> Result<(), ControlError> {
        let is_empty = self.is_empty_soon(|| {
            // Linux 5.14; before that, each process by itself.
            if fs::write(self.path.join("cgroup.kill"), "1").is_err() {
                let all = procs(&self.path).into_iter().chain(procs(&self.process()));
                let fds = all.filter_map(|pid| PidFd::open(Pid(pid)).ok());
                // One that has ended meanwhile needs no signal.
                fds.for_each(|it| drop(it.signal(KILL)));
            }
        });
        if !is_empty {
            let path = self.path.display();
            return Err(ControlError::TimedOut(format!("a process in {path} does not end")));
        }
        self.remove();
        Ok(())
    }

    /// Removes it when it is empty: the guard of an earlier service may still be in it.
    pub fn remove_when_empty(&self) {
        // What does not end in time stays.
        self.is_empty_soon(|| {});
        self.remove();
    }

    /// Waits until it has no process that has not ended; false if one has not ended in time.
    /// Until then, something is done again and again.
    fn is_empty_soon(&self, until_then: impl Fn()) -> bool {
        let end = Instant::now() + MOST_WAIT;
        while self.is_populated() {
            if Instant::now() >= end {
                return false;
            }
            until_then();
            std::thread::sleep(POLL_INTERVAL);
        }
        true
    }

    /// Removes it if it is empty.
    pub fn remove(&self) {
        for folder in [self.process(), self.path.clone()] {
            match fs::remove_dir(&folder) {
                Err(why) if why.kind() != ErrorKind::NotFound => {
                    tracing::debug!("{} stays: {why}", folder.display());
                }
                _ => {}
            }
        }
    }

    fn process(&self) -> PathBuf {
        self.path.join(PROCESS)
    }

    fn write_process(&self, file: &str, text: &str) -> Result<(), ControlError> {
        let path = self.process().join(file);
        fs::write(&path, text).map_err(|error| io_error("writing", &path, &error))
    }
}

/// A flag of `cgroup.events`; `None` if there is no such cgroup.
fn event(cgroup: &Path, key: &str) -> Option<bool> {
    let text = fs::read_to_string(cgroup.join("cgroup.events")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(value.trim() == "1")
}

/// The processes in a cgroup; none if there is no such cgroup.
fn procs(cgroup: &Path) -> Vec<u32> {
    let text: io::Result<String> = fs::read_to_string(cgroup.join("cgroup.procs"));
    text.unwrap_or_default().lines().filter_map(|line| line.parse().ok()).collect()
}

/// The `cgroup.procs` of the cgroup of version 2 that a process is in.
fn unified_procs(pid: i32) -> Result<PathBuf, ControlError> {
    let process = Process::new(pid).map_err(|_| ControlError::Gone)?;
    let groups = process.cgroups().map_err(|_| ControlError::Gone)?;
    let is_unified = |it: &ProcessCGroup| it.hierarchy == 0;
    let group = groups.into_iter().find(is_unified).ok_or_else(missing)?;
    step_cgroup::procs_file(&group, &mounts()).ok_or_else(missing)
}

fn unified_mount(mounts: &[MountInfo]) -> Option<PathBuf> {
    let root = ProcessCGroup { hierarchy: 0, controllers: Vec::new(), pathname: "/".to_owned() };
    Some(step_cgroup::procs_file(&root, mounts)?.parent()?.to_owned())
}

fn mounts() -> Vec<MountInfo> {
    let mounts = Process::myself().and_then(|own| own.mountinfo());
    mounts.map(|all| all.into_iter().collect()).unwrap_or_default()
}

fn missing() -> ControlError {
    let why =
        "a process that migrates is frozen by its cgroup: mount version 2 of cgroups (cgroups(7))";
    ControlError::Unsupported(why.to_owned())
}
