//! Whether tests that load BPF programs can run, and that they run one after another: what one
//! makes the kernel do, the hooks of another would see.

use rustix::process::{Gid, Uid};
use std::cell::RefCell;
use std::io::Write as _;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

static TURN: Mutex<()> = Mutex::new(());

thread_local! {
    /// Each test runs on a thread of its own, and has its turn until that ends.
    static HELD: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// Waits for this test's turn. Without privilege it prints a skip, or fails where a skip is not
/// allowed.
pub fn granted(test: &str) -> bool {
    if rustix::process::geteuid().is_root() {
        // A test that failed in its turn has left nothing behind that concerns the next.
        let turn = || TURN.lock().unwrap_or_else(PoisonError::into_inner);
        HELD.with_borrow_mut(|held| _ = held.get_or_insert_with(turn));
        return true;
    }
    skip(test, "needs root to load BPF programs");
    false
}

/// The same, where others' rights must be taken on with setpriv(1).
pub fn able(test: &str) -> bool {
    let there = Command::new("setpriv").arg("--version").output().is_ok();
    if !there {
        skip(test, "needs setpriv");
    }
    there && granted(test)
}

/// The user of the requests; no other process has this uid while the tests run.
pub const USER: u32 = 61_234;

/// Does something as an ordinary user, on a thread of its own.
pub fn as_user<T: Send>(groups: &[u32], act: impl FnOnce() -> T + Send) -> T {
    as_uid(USER, groups, act)
}

/// The same as this user.
pub fn as_uid<T: Send>(uid: u32, groups: &[u32], act: impl FnOnce() -> T + Send) -> T {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(uid));
    let groups: Vec<_> = groups.iter().map(|&it| Gid::from_raw(it)).collect();
    let changed = || {
        rustix::thread::set_thread_groups(&groups).unwrap();
        rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        act()
    };
    std::thread::scope(|scope| scope.spawn(changed).join().unwrap())
}

/// Says why a test is skipped, or fails where a skip is not allowed.
pub fn skip(test: &str, reason: &str) {
    assert!(std::env::var_os("MONITOR_REQUIRE_ROOT").is_none(), "{test}: {reason}");
    // Not `println!`: libtest hides that of a test that passes.
    let _ = writeln!(std::io::stderr(), "SKIP {test}: {reason}");
}
