//! `monitor run` through a daemon: the usage of a command, counted for an unprivileged user.

use super::privilege::granted;
use super::workload::exact;
use crate::served::Served;
use monitor_model::read_spec::Capability;
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A user who may nothing.
const UNPRIVILEGED: u32 = 65534;

fn report(service: &Served, script: &str, uid: u32) -> (Option<i32>, Value) {
    let mut command: Command = service.command("run --format json -- sh -c");
    let output = command.arg(script).uid(uid).gid(uid).output().unwrap();
    let line = output.stdout.split(|&byte| byte == b'\n').rfind(|line| !line.is_empty());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), serde_json::from_slice(line.expect(&said)).unwrap())
}

#[test]
fn root_a_run_by_the_daemon_counts_every_descendant_for_any_user() {
    if !granted("root_a_run_by_the_daemon_counts_every_descendant_for_any_user") {
        return;
    }
    let service = Served::start("ebpf");
    let script = "i=0; while [ $i -lt 23 ]; do /bin/true; i=$((i+1)); done; exit 7";
    let (code, report) = report(&service, script, UNPRIVILEGED);
    assert_eq!((code, &report["backend"]), (Some(7), &"ebpf".into()));
    assert_eq!(
        (&report["processes_started"], &report["processes_running"]),
        (&24.into(), &0.into())
    );
    assert!(report["cpu_ns"].as_u64().unwrap() > 23 * 100_000);
}

#[test]
fn root_tcp_of_an_unprivileged_command_is_exact() {
    let test = "root_tcp_of_an_unprivileged_command_is_exact";
    if !granted(test) || exact(test, &[Capability::Tcp]).is_none() {
        return;
    }
    let service = Served::start("ebpf");
    let script = "python3 -c \"
import socket
a = socket.create_server(('127.0.0.1', 0))
b = socket.create_connection(a.getsockname())
c, _ = a.accept()
b.sendall(b'x' * 7919)
n = 0
while n < 7919: n += len(c.recv(8192))
b.close(); c.close()\"";
    let (code, report) = report(&service, script, UNPRIVILEGED);
    assert_eq!(code, Some(0));
    assert_eq!(report["tcp_sent_bytes"], 7919, "{report}");
    assert_eq!(report["tcp_received_bytes"], 7919, "{report}");
}
