//! Work that goes before that of others, for what must happen while nobody disturbs.

use rustix::process::{getpriority_process, setpriority_process};

/// While it is there, the caller and what he starts run before nearly everybody, so that what must
/// happen between two runs of the first process does, also on a busy machine.
pub struct Preferred(i32);

impl Preferred {
    /// From now on.
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
