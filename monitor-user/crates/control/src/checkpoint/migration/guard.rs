//! The guard of a process that is dumped: it thaws the process if this service is killed.
//!
//! In: the place of a migration. Out: a program that waits for a line, or for the end of the
//! service. It is released before the other node may be asked to run a copy: from then on the
//! process stays frozen until the outcome is known, and the next start of the service asks for it.

use super::place::{ABANDONED_VARIABLE, CGROUP_VARIABLE, MigrationPlace};
use crate::ControlError;
use monitor_sys::spawn;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};

const GUARD: &str = include_str!("guard.sh");

/// A running guard.
pub struct Guard(Child);

impl Guard {
    /// Starts one in the cgroup of a place, which is there.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(place: &MigrationPlace) -> Result<Self, ControlError> {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", GUARD])
            .env(CGROUP_VARIABLE, place.cgroup.path())
            .env(ABANDONED_VARIABLE, place.abandoned())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        spawn::default_signals(&mut command);
        spawn::in_cgroups(&mut command, vec![place.cgroup.open_procs()?]);
        let child = command.spawn();
        child.map(Self).map_err(|error| ControlError::from_io("starting /bin/sh", &error))
    }

    /// Releases it: the process may stay frozen. Without that, its end is that of the service.
    pub fn release(mut self) {
        if let Some(mut to) = self.0.stdin.take() {
            // It may have been killed.
            let _gone = to.write_all(b"released\n");
        }
        let _status = self.0.wait();
    }
}
