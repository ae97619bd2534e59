//! What an event costs its thread at each level, by the floor of the same run: an empty uprobe on
//! the same instruction, and a stop of a tracer that does nothing.

use super::session::Session;
use super::target::{Act, Target};
use crate::measure::median;
use crate::rules::{Both, Empty, site_of};
use crate::service::Daemon;
use crate::verdict::{Bar, line};
use monitor_backend::rule::Site;
use monitor_sys::probed_code::EMULATED;
use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

/// Hits in each slice of a level that does not stop its thread, and of one that does.
const HITS: usize = 20_000;
const STOPS: usize = 1_000;
/// Slices of each level, in turn.
const ROUNDS: usize = 11;

const COUNTED: u32 = 10;
const COPIED: u32 = 20;
const HELD: u32 = 30;

/// Prints microseconds for each hit, and the ratios.
pub fn run() {
    let daemon = Daemon::start();
    let mut session = Session::connect(&daemon);
    let mut target = Target::start();
    let (pid, address) = (target.pid(), target.code + EMULATED);
    let site = site_of(pid, address);
    let name = "monitor_sys::probed_code::call";
    session.does(1, &format!("attach([{pid}])"));
    session.does(2, "cnt_create(\"hits\")");
    let call = format!("start_lib_call([{pid}],\"{name}\"): 90 [0]");
    session.does(COUNTED, &format!("{call} cnt_add(\"hits\",1)"));
    session.does(COPIED, &format!("{call} print($1)"));
    session.does(HELD, &format!("breakpoint([{pid}],{address}): 90 [0] print(1)"));
    // The number of the request that lists them is its own: replies have another.
    for (number, want) in [(COUNTED, "kernel"), (COPIED, "copy"), (HELD, "held")] {
        let level = session.ask(3, &format!("request_level({number})"));
        assert!(level.contains(want), "{level}");
    }
    let mut slices: [Vec<f64>; 5] = Default::default();
    for _ in 0..ROUNDS {
        slices[0].push(floor(&mut target, &site));
        for (slice, number) in [(1, COUNTED), (2, COPIED), (3, HELD)] {
            slices[slice].push(level(&mut session, &mut target, number));
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
fn level(session: &mut Session, target: &mut Target, number: u32) -> f64 {
    let times = if number == HELD { STOPS } else { HITS };
    session.does(number + 1, &format!("enable({number})"));
    target.begin(Act::Call, times);
    // Copied events and stops are reported: each is read, as a tool would.
    let begin = "90 ";
    for _ in 0..if number == COUNTED { 0 } else { times } {
        while !session.line().starts_with(begin) {}
    }
    let taken = target.end(times);
    session.does(number + 2, &format!("disable({number})"));
    taken
}

fn floor(target: &mut Target, site: &Site) -> f64 {
    let _probe = Empty::at(site, Both::Entry);
    target.run(Act::Call, HITS)
}

/// A slice of signals that stop the target for a tracer.
fn bare_stop(target: &mut Target) -> f64 {
    let pid = Pid::from_raw(i32::try_from(target.pid()).unwrap());
    ptrace::seize(pid, Options::empty()).unwrap();
    target.begin(Act::Raise, STOPS);
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
