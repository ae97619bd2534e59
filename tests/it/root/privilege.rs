//! Whether a test can run here.

/// Whether to go on; if not, says why, or fails where a skip is not allowed.
pub fn granted(test: &str) -> bool {
    if rustix::process::geteuid().is_root() {
        return true;
    }
    skip(test, "needs root to load BPF programs");
    false
}

/// Says why a test is skipped, or fails where a skip is not allowed.
pub fn skip(test: &str, reason: &str) {
    assert!(std::env::var_os("MONITOR_REQUIRE_ROOT").is_none(), "{test}: {reason}");
    // Not `println!`: libtest hides that of a test that passes.
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "SKIP {test}: {reason}");
}
