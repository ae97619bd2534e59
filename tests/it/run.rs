//! `monitor run` where it needs no privilege: codes, and who counted.

use crate::served::{Served, monitor};

#[test]
fn a_file_that_cannot_be_executed_is_126_and_one_that_is_not_there_127() {
    let code = |file: &str| {
        let got = monitor().args(["run", "--backend", "test", "--", file]).output().unwrap();
        (got.status.code(), String::from_utf8(got.stderr).unwrap())
    };
    let (cannot, why) = code("/dev/null");
    assert_eq!((cannot, why.starts_with("monitor: cannot run /dev/null: ")), (Some(126), true));
    assert_eq!(code("/no/such/file").0, Some(127));
}

#[test]
fn a_run_that_the_daemon_counted_says_so_as_tables_do() {
    let service = Served::start("procfs");
    let got = service.command("run -- true").output().unwrap();
    let said = String::from_utf8(got.stderr).unwrap();
    assert!(said.contains("  [procfs, by the daemon]\n"), "{said}");
}
