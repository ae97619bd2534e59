//! What a test starts ends with this program, however the program ends.
//!
//! Before `main` the program starts itself twice: the outer guardian, which cargo knows, waits for
//! the inner one, and that waits for the program that runs the tests. Both are subreapers: a
//! process whose parent has ended becomes a child of the inner one (of the outer one if the inner
//! one was killed), whatever its user, session or namespace is. When the tests are over, killed or
//! not, or the outer guardian is, all that is left is killed. Only one of the three may be killed
//! at a time.
//!
//! A machine that is the tests' own ends with them, and has no guardians: there, a process whose
//! parent has ended becomes a child of process 1.

mod tests;

use crate::deadline;
use monitor_model::id::Pid;
use monitor_sys::pidfd::PidFd;
use rustix::io::Errno;
use rustix::process::{
    Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper, wait,
};
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

/// The first argument of the inner guardian, and of the program that runs the tests.
const INNER: &str = "test-guardian";
pub const TESTS: &str = "guarded-tests";

/// Environment variable of a machine that runs nothing but the tests.
pub const OWN_MACHINE: &str = "MONITOR_OWN_MACHINE";

/// Runs before `main`, which belongs to the test harness.
#[used]
#[expect(unsafe_code, reason = "the C library calls what is in this section, with three arguments")]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    if std::env::var_os(OWN_MACHINE).is_some() {
        return;
    }
    let code = match std::env::args().next().as_deref() {
        Some(TESTS) => return,
        Some(INNER) => guard(&spawn(TESTS, Stdio::null()), end_with_outer),
        _ => guard(&spawn(INNER, Stdio::piped()), |_| {}),
    };
    std::process::exit(code);
}

/// The same program with the same arguments, in a process group that no terminal interrupts.
fn spawn(name: &str, stdin: Stdio) -> Child {
    set_child_subreaper(Some(getpid())).expect("it has no requirement");
    let mut command = Command::new(std::env::current_exe().expect("/proc is mounted"));
    command.arg0(name).args(std::env::args_os().skip(1)).stdin(stdin).process_group(0);
    command.spawn().expect("this program could be started too")
}

/// Waits for the child, ends all others, and returns the exit code of the child.
fn guard(child: &Child, watch: impl FnOnce(PidFd)) -> i32 {
    watch(PidFd::open(Pid(child.id())).expect("it is our child"));
    let code = loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == rustix::process::Pid::from_child(child) => {
                break code(status);
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(why) => panic!("the tests cannot be waited for: {why}"),
        }
    };
    let mut named = BTreeSet::new();
    deadline::until(|| (end_children(&mut named) == Err(Errno::CHILD)).then_some(()));
    code
}

/// Ends the tests when the pipe to the outer guardian is closed.
fn end_with_outer(tests: PidFd) {
    let _thread = std::thread::spawn(move || {
        let _end = std::io::stdin().read(&mut [0]);
        // They may be over.
        let _ended = tests.signal(9);
    });
}

/// Kills all children, and prints the new ones. Their own children become ours: this is repeated
/// until there are none.
fn end_children(named: &mut BTreeSet<i32>) -> Result<(), Errno> {
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for pid in children.split_whitespace().filter_map(|it| it.parse().ok()) {
            if named.insert(pid) {
                let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                // Not `eprintln!`: the reader may have ended.
                let _ = writeln!(std::io::stderr(), "tests left {}, process {pid}", name.trim());
            }
            let _killed =
                rustix::process::Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
        }
    }
    while wait(WaitOptions::NOHANG)?.is_some() {}
    Ok(())
}

/// As a shell reports it.
fn code(status: WaitStatus) -> i32 {
    status.exit_status().or(status.terminating_signal().map(|it| 128 + it)).unwrap_or(1)
}
