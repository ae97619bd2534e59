//! Probes in a process, removed when this is dropped.

use monitor_sys::exit_closer;
use std::os::fd::OwnedFd;

/// A link: a probe, or several.
#[derive(Debug)]
pub struct UprobeLink(Option<OwnedFd>);

impl UprobeLink {
    /// The probes of this link.
    pub const fn new(link: OwnedFd) -> Self {
        Self(Some(link))
    }
}

impl Drop for UprobeLink {
    /// Waits until the probes are removed, also if this program is killed meanwhile.
    fn drop(&mut self) {
        if let Some(link) = self.0.take() {
            exit_closer::close(link);
        }
    }
}
