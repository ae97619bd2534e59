//! Whether tests that load BPF programs can run, and that they run one after another: what one
//! makes the kernel do, the hooks of another would see.

use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

static TURN: Mutex<()> = Mutex::new(());

/// The right to be the only test that runs.
pub type Turn = MutexGuard<'static, ()>;

/// Waits for this test's turn. Without privilege says why there is none, or fails where a skip is
/// not allowed.
pub fn granted(test: &str) -> Option<Turn> {
    if rustix::process::geteuid().is_root() {
        // A test that failed in its turn has left nothing behind that concerns the next.
        return Some(TURN.lock().unwrap_or_else(PoisonError::into_inner));
    }
    let reason = "needs root to load BPF programs";
    assert!(std::env::var_os("MONITOR_REQUIRE_ROOT").is_none(), "{test} {reason}");
    // Not `println!`: libtest hides that of a test that passes.
    let _ = writeln!(std::io::stderr(), "SKIP {test}: {reason}");
    None
}
