//! A breakpoint whose condition never holds: by `monitor gdb`, by gdb, and by gdbserver, which
//! evaluates gdb's bytecode itself.

use super::target::{Target, Workload};
use crate::service::Daemon;
use crate::verdict::{Bar, line};
use crate::watch::MONITOR;
use monitor_sys::probed_code::EMULATED;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

/// An instruction that the kernel steps: `mov rbp, rsp`.
const STEPPED: u64 = 1;
/// Hits; gdb itself gets fewer, because it takes hundreds of microseconds for each.
const HITS: usize = 100_000;
const HITS_OF_GDB: usize = 10_000;

/// Prints microseconds for each hit, and the ratios.
pub fn run() {
    let daemon = Daemon::start();
    for (what, offset, most) in
        [("an emulated instruction", EMULATED, 0.05), ("a stepped one", STEPPED, 0.25)]
    {
        let ours = hits(HITS, offset, |pid| {
            let mut command = Command::new(MONITOR);
            command.args(["gdb", &pid, "--"]).env("MONITOR_SOCKET", daemon.socket());
            command
        });
        let server = hits(HITS, offset, |pid| {
            let remote = format!("target remote | gdbserver --once --attach - {pid}");
            let mut command = Command::new("gdb");
            command.args(["-ex", &remote]);
            command
        });
        let gdb = hits(HITS_OF_GDB, offset, |pid| {
            let mut command = Command::new("gdb");
            command.args(["-p", &pid]);
            command
        });
        for (name, value) in [("monitor gdb", ours), ("gdbserver", server), ("gdb", gdb)] {
            let text = format!("a condition that does not hold, at {what}: {name}");
            line(&text, value, "us", Bar::None);
        }
        line("  monitor gdb, by gdbserver", ours / server, "x", Bar::AtMost(0.5));
        line("  monitor gdb, by gdb", ours / gdb, "x", Bar::AtMost(most));
    }
}

/// Microseconds for each hit of a target that this debugger has attached.
fn hits(calls: usize, offset: u64, debugger: impl FnOnce(String) -> Command) -> f64 {
    let mut target = Target::start();
    let mut command = debugger(target.pid().to_string());
    command.args(["-nx", "-batch", "-iex", "set debuginfod enabled off"]);
    command.args(["-ex", &format!("break *{} if $rsp == 1", target.code + offset)]);
    command.args(["-ex", "echo begins\\n", "-ex", "continue"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("gdb and gdbserver are there");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|it| it.is_ok_and(|it| it == "begins")), "the debugger has not attached");
    // The rest of its output is little.
    let _reader = std::thread::spawn(move || lines.count());
    let taken = target.run(Workload::Call, calls);
    drop(target);
    let _ = child.wait();
    taken
}
