//! The calls of library functions by processes.

use crate::tap::price::ProbePrice;
use monitor_event::{outcome::Refusal, tap::Tap};
use monitor_model::Identity;
use std::task::Poll;

/// Where every message comes by that the library of PVM puts into its queue.
pub const ARRIVAL: &str = "mesg_input";
/// Where every message comes by that a task of PVM receives.
pub const RECEIPT: &str = "pvm_setrbuf";

/// Whether calls of library functions can be observed.
pub trait LibraryCalls {
    /// Whether a call can be seen in a process: the function is there, and has a place for a probe;
    /// or the library that is named may be loaded later.
    /// Pending while its files are read; `PlatformEvent::FilesRead` comes then.
    fn check_tap(&mut self, tap: &Tap, id: Identity) -> Poll<Result<(), Refusal>>;

    /// The probes that a tap sets in a process, with the price of a hit as measured here.
    /// Pending as `check_tap`.
    fn probe_prices(&mut self, tap: &Tap, id: Identity) -> Poll<Result<Vec<ProbePrice>, Refusal>>;
}
