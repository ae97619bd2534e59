//! A breakpoint that stops its thread, with one action: until the thread continues.

use super::target::Target;
use crate::service::Daemon;
use crate::verdict::{Bar, line};
use monitor_sys::probed_code::EMULATED;
use std::io::{BufRead as _, Write as _};

const HITS: usize = 5_000;

/// Prints microseconds for each hit.
pub fn run() {
    let daemon = Daemon::start();
    let (mut client, mut replies) = daemon.connect();
    let mut target = Target::start(HITS);
    let (pid, address) = (target.pid(), target.code + EMULATED);
    let request = format!("2 [0] breakpoint([{pid}],{address}): 3 [0] print(1)");
    for sent in [format!("1 [0] attach([{pid}])"), request, "4 [0] enable(2)".to_owned()] {
        writeln!(client, "{sent}").unwrap();
        let mut reply = String::new();
        let _bytes = replies.read_line(&mut reply).unwrap();
        assert!(reply.contains("(0)"), "{reply}");
    }
    let _reader = std::thread::spawn(move || replies.lines().count());
    line("a hit that stops the thread, with one action", target.run(), "us", Bar::None);
}
