//! Arguments of the command line that depend on a daemon.

use crate::root::privilege::granted;
use crate::served::{Folder, Served, monitor};
use std::os::unix::fs::chown;
use std::os::unix::net::UnixListener;
use std::process::Command;

#[track_caller]
fn refused(mut command: Command, want: &str) {
    let got = command.output().unwrap();
    let said = String::from_utf8(got.stderr).unwrap();
    assert!(said.starts_with(want), "{said}");
    assert!(got.stdout.is_empty());
}

#[test]
fn a_limit_of_the_daemon_is_reported_with_the_option_name() {
    let service = Served::start("test");
    let start = |words: &str| service.command(&format!("start a {words}"));
    refused(start("--every 5ms"), "monitor: --every: the shortest is 10 ms");
    refused(start("--every 1s --detach --lease 99days"), "monitor: --lease: the longest is");
}

#[test]
fn local_reading_excludes_naming_a_daemon() {
    let words = |here: &[&str]| {
        let mut it = monitor();
        it.arg("sample").args(here).args(["--socket", "/nowhere"]);
        it
    };
    let local = "monitor: --local reads without the daemon and --socket with it: choose one";
    refused(words(&["--local"]), local);
    let backend = "monitor: --backend reads without the daemon and --socket with it: choose one";
    refused(words(&["--backend", "test"]), backend);
    // The environment variable only applies to commands that use a daemon.
    let mut command = monitor();
    command.args(["sample", "--backend", "test"]).env("MONITOR_SOCKET", "/nowhere");
    assert!(command.output().unwrap().status.success());
}

#[test]
fn root_does_not_use_the_daemon_of_another_user() {
    if !granted("root_does_not_use_the_daemon_of_another_user") {
        return;
    }
    let folder = Folder::new();
    let place = folder.join("monitor");
    std::fs::create_dir(&place).unwrap();
    let socket = place.join("monitor.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    chown(&socket, Some(65534), None).unwrap();
    let mut command = monitor();
    command.args(["sample", "--top", "1"]).env("XDG_RUNTIME_DIR", folder.path());
    assert!(command.output().unwrap().status.success());
    assert!(listener.accept().is_err(), "the daemon was contacted");
}
