//! The process executes another program: gdb sees it, and nothing of the former one is left.
//!
//! In: the stop for it. Out: the path of the new program, which the stop reply has.

use super::{Debuggee, Stop};
use std::os::unix::ffi::OsStrExt as _;

impl Debuggee {
    /// The process has executed another program: nothing of the former one is left.
    pub(super) fn forget_program(&mut self) {
        self.breakpoints.delete_all(&self.session);
        self.watchpoints.delete_all(&self.session);
        for request in std::mem::take(&mut self.steps).into_values() {
            self.session.delete(request);
        }
        self.thread_locals = Default::default();
        self.signals.clear();
        self.pending.retain(|it| matches!(it, Stop::Ended { .. }));
        self.retry_at = None;
    }

    /// What the stop reply has besides, of the execution of another program: its path.
    pub fn take_stop_details(&mut self) -> Option<String> {
        let is_exec = std::mem::take(&mut self.is_at_exec);
        let path = std::fs::read_link(format!("/proc/{}/exe", self.session.pid()));
        let path = path.ok().filter(|_| is_exec)?;
        let digits = path.as_os_str().as_bytes().iter().map(|byte| format!("{byte:02x}"));
        Some(format!("exec:{};", digits.collect::<String>()))
    }
}
