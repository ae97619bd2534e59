//! `monitor run` without privilege: exit codes, and which process counted.

use crate::served::{Served, monitor};

#[test]
fn a_command_that_cannot_be_executed_is_126_and_a_missing_one_127() {
    let code = |file: &str| {
        let got = monitor().args(["run", "--backend", "test", "--", file]).output().unwrap();
        (got.status.code(), String::from_utf8(got.stderr).unwrap())
    };
    let (cannot, why) = code("/dev/null");
    assert_eq!((cannot, why.starts_with("monitor: cannot run /dev/null: ")), (Some(126), true));
    assert_eq!(code("/no/such/file").0, Some(127));
}

#[test]
fn a_report_names_the_daemon_if_it_counted() {
    let daemon = Served::start("procfs");
    let got = daemon.command("run -- true").output().unwrap();
    let stderr = String::from_utf8(got.stderr).unwrap();
    assert!(stderr.contains("  [procfs, by the daemon]\n"), "{stderr}");
}
