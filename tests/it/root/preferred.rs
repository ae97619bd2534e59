//! Priority over other work, for what must happen undisturbed.

use rustix::process::{getpriority_process, setpriority_process};

/// While it exists, the caller and its children run before nearly all other processes, so that
/// what must happen between two runs of the first process does, also on a busy machine.
pub struct Preferred(i32);

impl Preferred {
    /// Raises the priority until this is dropped.
    pub fn now() -> Self {
        let before = getpriority_process(None).unwrap();
        setpriority_process(None, -20).unwrap();
        Self(before)
    }
}

impl Drop for Preferred {
    fn drop(&mut self) {
        let _ = setpriority_process(None, self.0);
    }
}
