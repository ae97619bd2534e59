//! What an event costs its thread at each level, by the floor of the same run: an empty uprobe on
//! the same instruction, and a stop of a tracer that does nothing.

use super::session::Session;
use super::target::{Target, Workload};
use crate::measure::median;
use crate::rules::{Both, Empty, site_of};
use crate::service::Daemon;
use crate::verdict::{Bar, line};
use monitor_backend::rule::Site;
use monitor_sys::probed_code::{self, EMULATED};
use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

/// Hits in each slice of a level that does not stop its thread, and of one that does.
const HITS: usize = 20_000;
const STOPS: usize = 1_000;
/// Slices of each level, in turn.
const ROUNDS: usize = 11;

/// Requests, and the level of their action.
const COUNTED: (u32, &str) = (10, "kernel");
const COPIED: (u32, &str) = (20, "copy");
const HELD: (u32, &str) = (30, "held");

/// Prints microseconds for each hit, and the ratios.
pub fn run() {
    let daemon = Daemon::start();
    let mut session = Session::connect(&daemon);
    let mut target = Target::start();
    let (pid, address) = (target.pid(), target.code + EMULATED);
    let site = site_of(pid, address);
    let name = probed_code::NAME;
    session.does(1, &format!("attach([{pid}])"));
    session.does(2, "cnt_create(\"hits\",\"counter\",\"\")");
    let call = format!("start_lib_call([{pid}],\"{name}\"): 90 [0]");
    session.does(COUNTED.0, &format!("{call} cnt_add(\"hits\",1)"));
    session.does(COPIED.0, &format!("{call} print($1)"));
    session.does(HELD.0, &format!("breakpoint([{pid}],{address}): 90 [0] print(1)"));
    let mut slices: [Vec<f64>; 5] = Default::default();
    for _ in 0..ROUNDS {
        slices[0].push(floor(&mut target, &site));
        for (slice, it) in [(1, COUNTED), (2, COPIED), (3, HELD)] {
            slices[slice].push(level(&mut session, &mut target, it));
        }
        slices[4].push(bare_stop(&mut target));
    }
    let [empty, counted, copied, held, stop] = slices.map(median);
    line("an empty uprobe", empty, "us", Bar::None);
    line("a stop of a tracer that does nothing", stop, "us", Bar::None);
    for (what, value, floor, most) in [
        ("an event that is counted in the kernel", counted, empty, 1.1),
        ("an event whose parameters are copied", copied, empty, 3.0),
        ("an event that holds its thread, with one action", held, stop, 1.5),
    ] {
        line(what, value, "us", Bar::None);
        line("  by its floor", value / floor, "x", Bar::AtMost(most));
    }
}

/// A slice with a request enabled.
fn level(session: &mut Session, target: &mut Target, it @ (number, level): (u32, &str)) -> f64 {
    let times = if it == HELD { STOPS } else { HITS };
    session.does(number + 1, &format!("enable({number})"));
    let reply = session.ask(number + 2, &format!("request_level({number})"));
    assert!(reply.contains(level), "{reply}");
    target.begin(Workload::Call, times);
    // Copied events and stops are reported: each is read, as a tool would.
    for _ in 0..if it == COUNTED { 0 } else { times } {
        while !session.line().starts_with("90 ") {}
    }
    let taken = target.end(times);
    session.does(number + 3, &format!("disable({number})"));
    taken
}

fn floor(target: &mut Target, site: &Site) -> f64 {
    let _probe = Empty::at(site, Both::Entry);
    target.run(Workload::Call, HITS)
}

/// A slice of signals that stop the target for a tracer.
fn bare_stop(target: &mut Target) -> f64 {
    let pid = Pid::from_raw(i32::try_from(target.pid()).unwrap());
    ptrace::seize(pid, Options::empty()).unwrap();
    target.begin(Workload::Raise, STOPS);
    for _ in 0..STOPS {
        assert!(matches!(waitpid(pid, None), Ok(WaitStatus::Stopped(..))));
        ptrace::cont(pid, None).unwrap();
    }
    let taken = target.end(STOPS);
    ptrace::interrupt(pid).unwrap();
    let _stopped = waitpid(pid, None).unwrap();
    ptrace::detach(pid, None).unwrap();
    taken
}
