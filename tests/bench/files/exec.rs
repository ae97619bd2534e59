//! From writing `exec` to the first instructions of the program, beside fork and exec of the same
//! program.

use super::service::Service;
use crate::measure::median;
use crate::verdict::{Bar, line};
use rustix::time::{ClockId, clock_gettime};
use std::process::Command;

const ROUNDS: usize = 40;
/// The argument with which this program prints the time and ends.
const PRINTS_TIME: &str = "files-print-time";

/// Prints the time, if this process was started for that.
pub fn serve_as_program() -> bool {
    let is_program = std::env::args().nth(1).as_deref() == Some(PRINTS_TIME);
    if is_program {
        println!("{}", now_ns());
    }
    is_program
}

fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub fn run(service: &Service) {
    let program = std::env::current_exe().unwrap();
    let took = |began: u64, text: &[u8]| {
        let at: u64 = String::from_utf8_lossy(text).trim().parse().unwrap();
        (at - began) as f64 / 1e6
    };
    let (mut direct, mut session) = (Vec::new(), Vec::new());
    let mut connection = service.connect();
    for _ in 0..ROUNDS {
        let began = now_ns();
        let output = Command::new(&program).arg(PRINTS_TIME).output().unwrap();
        direct.push(took(began, &output.stdout));
        let at = service.session(&mut connection);
        connection.put(&format!("{at}/argv"), &format!("program {PRINTS_TIME}"));
        connection.open(2, &format!("{at}/ctl"), 1);
        connection.open(3, &format!("{at}/stdout"), 0);
        let command = format!("exec {}\n", program.display());
        let began = now_ns();
        connection.write(2, command.as_bytes());
        session.push(took(began, &connection.read(3, 0)));
        connection.write(2, b"wipe\n");
        connection.clunk(2);
        connection.clunk(3);
    }
    let (direct, session) = (median(direct), median(session));
    line("from fork and exec to main, p50", direct, "ms", Bar::None);
    let what = "from writing exec to main, beyond that, p50";
    line(what, session - direct, "ms", Bar::AtMost(2.0));
}
