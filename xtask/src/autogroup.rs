//! Automatic task groups (sched(7), `sched_autogroup_enabled`), which the tests do without.
//!
//! On Linux 6.18, a group whose weight changes at each tick loses virtual run time while it runs:
//! a busy loop of the session of the tests, at nice 10, keeps both processors for a minute, and the
//! kernel logs a lockup of its workqueues. docs/journal/2026-11-27-automatic-groups.md has
//! the figures.

use std::fs;

const SETTING: &str = "/proc/sys/kernel/sched_autogroup_enabled";

/// Processes that start while it exists are in no automatic group.
#[must_use = "the setting comes back when it is dropped"]
pub struct Off(());

impl Off {
    /// None if there are no such groups, or without the right to change the setting.
    pub fn begin() -> Option<Self> {
        let is_on = fs::read_to_string(SETTING).is_ok_and(|text| text.trim() == "1");
        (is_on && fs::write(SETTING, "0").is_ok()).then(|| {
            println!("kernel.sched_autogroup_enabled is 0 until this command ends");
            Self(())
        })
    }
}

impl Drop for Off {
    fn drop(&mut self) {
        if let Err(error) = fs::write(SETTING, "1") {
            eprintln!("kernel.sched_autogroup_enabled stays 0: {error}; it was 1");
        }
    }
}
