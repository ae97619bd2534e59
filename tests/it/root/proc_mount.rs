//! Another file system mounted over `/proc`: an error of one line.

use super::privilege::granted;
use std::process::{Command, Output};

/// Runs the monitor where an empty file system hides `/proc`.
fn without_proc(words: &str) -> Output {
    Command::new("unshare")
        .args(["--mount", "sh", "-c", &format!("mount -t tmpfs none /proc && $0 {words}")])
        .arg(env!("CARGO_BIN_EXE_monitor"))
        .env_remove("MONITOR_BACKEND")
        .output()
        .unwrap()
}

#[test]
fn root_a_path_that_is_not_a_proc_file_system_is_refused_in_one_line() {
    if !granted("root_a_path_that_is_not_a_proc_file_system_is_refused_in_one_line") {
        return;
    }
    let why = "/proc is not a proc file system; mount one: mount -t proc proc /proc\n";
    let forced = without_proc("sample --backend procfs");
    let said = String::from_utf8_lossy(&forced.stderr).into_owned();
    let want = format!("monitor: reading processes without eBPF is not supported here: {why}");
    assert_eq!((forced.status.code(), said), (Some(1), want));
    assert!(forced.stdout.is_empty());
    let node = without_proc("sample node --backend ebpf --format csv");
    let said = String::from_utf8_lossy(&node.stderr).into_owned();
    let want = format!("monitor: no node, disks and interfaces: {why}");
    assert_eq!((node.status.code(), said), (Some(4), want));
}
