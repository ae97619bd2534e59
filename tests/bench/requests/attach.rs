//! The first attach of a service, on a full machine: what it costs, and how long the requests of
//! another tool take beside it.

use super::session::Session;
use crate::service::Daemon;
use crate::verdict::{Bar, line};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Services that are started for each of both.
const SERVICES: usize = 10;
/// Requests of the other tool in each.
const REQUESTS: usize = 200;

/// Prints both.
pub fn run() {
    let _busy: Vec<Busy> = (0..2 * crate::measure::n_processors()).map(|_| Busy::start()).collect();
    let target = Busy::start();
    let (mut alone, mut beside, mut attached_ms, mut cpu_ms) = (vec![], vec![], vec![], vec![]);
    for _ in 0..SERVICES {
        let daemon = Daemon::start();
        alone.extend(requests(&mut Session::connect(&daemon)));
        drop(daemon);
        let daemon = Daemon::start();
        let mut other = Session::connect(&daemon);
        let mut tool = Session::connect(&daemon);
        let (cpu, start) = (daemon.cpu_ns(), Instant::now());
        tool.send(1, &format!("attach([{}])", target.pid()));
        let reply = std::thread::spawn(move || {
            let reply = tool.line();
            assert!(reply.contains("(0)"), "{reply}");
            start.elapsed().as_secs_f64() * 1e3
        });
        beside.extend(requests(&mut other));
        attached_ms.push(reply.join().unwrap());
        cpu_ms.push((daemon.cpu_ns() - cpu) / 1e6);
    }
    line("the first attach takes", crate::measure::median(attached_ms), "ms", Bar::None);
    line("  CPU, with 200 requests beside it", crate::measure::median(cpu_ms), "ms", Bar::None);
    let (alone, beside) = (p99(alone), p99(beside));
    line("a request of another tool, p99, without an attach", alone, "us", Bar::None);
    line("  beside the first attach", beside, "us", Bar::None);
    line("  by the one without", beside / alone, "x", Bar::AtMost(2.0));
}

/// Microseconds of each request.
fn requests(session: &mut Session) -> Vec<f64> {
    let one = || {
        let start = Instant::now();
        session.does(7, "node_info(1)");
        start.elapsed().as_secs_f64() * 1e6
    };
    std::iter::repeat_with(one).take(REQUESTS).collect()
}

fn p99(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() * 99 / 100]
}

/// A process that never waits.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        let mut command = Command::new("sh");
        Self(command.args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
