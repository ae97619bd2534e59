//! How soon stopped processes are resumed when the daemon is killed: the user worker undoes its
//! stops and breakpoints.

use crate::rules::target;
use crate::verdict::{Bar, line};
use crate::watch::MONITOR;
use monitor_control::process_ref::ProcessRef;
use monitor_control::user_worker::WorkerProxy;
use monitor_control::{ProbeUse, RequestTag, ToolId, UserWorker as _, WorkerRequest};
use monitor_model::id::{Identity, Pid};
use std::io::{BufRead as _, BufReader};
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Stopped processes, with a breakpoint each.
const HELD: u64 = 20;
const TOOL: ToolId = ToolId(1);
/// Interval between two checks.
const PAUSE: Duration = Duration::from_millis(1);

/// Prints the time until the last of them is resumed.
pub fn run() {
    let mut worker = WorkerProxy::start(Path::new(MONITOR), None, None).unwrap();
    let mut targets: Vec<Child> = (0..HELD).map(|n| held(&mut worker, n)).collect();
    // As the kernel closes the socket of a killed daemon.
    let socket = UnixStream::from(worker.as_fd().try_clone_to_owned().unwrap());
    let start = Instant::now();
    socket.shutdown(Shutdown::Both).unwrap();
    while targets.iter().any(is_held) {
        std::thread::sleep(PAUSE);
    }
    let took = start.elapsed().as_secs_f64() * 1e3;
    let what = format!("{HELD} held processes resumed after a kill -9");
    line(&what, took, "ms", Bar::AtMost(1000.0));
    for target in &mut targets {
        let _ = target.kill();
        let _ = target.wait();
    }
}

fn held(worker: &mut WorkerProxy, n: u64) -> Child {
    let mut command = target::command(1);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut text = String::new();
    let _ = BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut text).unwrap();
    let id: Identity = ProcessRef::open_current(Pid(child.id())).unwrap().id;
    let address = text.trim().parse().unwrap();
    let _set = worker
        .request(
            TOOL,
            WorkerRequest::SetBreakpoint(
                id.into(),
                address,
                RequestTag(n),
                ProbeUse::Refused,
                vec![],
            ),
        )
        .unwrap();
    let _stopped = worker.request(TOOL, WorkerRequest::Stop(id.into())).unwrap();
    child
}

fn is_held(child: &Child) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    text.contains("State:\tT") || text.contains("State:\tt") || !text.contains("TracerPid:\t0\n")
}
