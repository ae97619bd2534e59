//! How soon those who are held run on when whoever holds them is killed: the hand undoes it.

use crate::rules::target;
use crate::verdict::{Bar, line};
use crate::watch::MONITOR;
use monitor_control::hand::Remote;
use monitor_control::subject::Subject;
use monitor_control::{Act, Hand as _, Mark, Tool};
use monitor_model::id::{Identity, Pid};
use std::io::{BufRead as _, BufReader};
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Processes that are stopped, with a breakpoint each.
const HELD: u64 = 20;
const TOOL: Tool = Tool(1);
/// From one look to the next.
const PAUSE: Duration = Duration::from_millis(1);

/// Prints how long the last of them stood.
pub fn run() {
    let mut hand = Remote::start(Path::new(MONITOR), None).unwrap();
    let mut targets: Vec<Child> = (0..HELD).map(|n| held(&mut hand, n)).collect();
    // What the kernel does with the socket of a daemon that is killed.
    let socket = UnixStream::from(hand.as_fd().try_clone_to_owned().unwrap());
    let start = Instant::now();
    socket.shutdown(Shutdown::Both).unwrap();
    while targets.iter().any(stands) {
        std::thread::sleep(PAUSE);
    }
    let took = start.elapsed().as_secs_f64() * 1e3;
    let what = format!("{HELD} held processes run on after a kill -9");
    line(&what, took, "ms", Bar::AtMost(1000.0));
    for target in &mut targets {
        let _ = target.kill();
        let _ = target.wait();
    }
}

fn held(hand: &mut Remote, n: u64) -> Child {
    let mut command = target::command(1);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut text = String::new();
    let _ = BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut text).unwrap();
    let id: Identity = Subject::now(Pid(child.id())).unwrap().id;
    let place = text.trim().parse().unwrap();
    let _placed = hand.act(TOOL, Act::Break(id.into(), place, Mark(n))).unwrap();
    let _stopped = hand.act(TOOL, Act::Stop(id.into())).unwrap();
    child
}

fn stands(child: &Child) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    text.contains("State:\tT") || text.contains("State:\tt") || !text.contains("TracerPid:\t0\n")
}
