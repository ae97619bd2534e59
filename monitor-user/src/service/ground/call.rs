//! The calls of library functions by processes.

use crate::model::id::Identity;
use crate::probe::tap::Tap;
use crate::service::outcome::Refusal;

/// Who can see calls.
pub trait Calls {
    /// Whether a call can be seen in a process: the function is there, and has a place for a probe.
    fn has(&mut self, tap: &Tap, id: Identity) -> Result<(), Refusal>;
}
