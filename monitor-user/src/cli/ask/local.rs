//! Requests without a daemon: runs the request engine and the platform in this process.

use super::super::exit::Failure;
use super::{Incoming, Transport};
use monitor_backends::host;
use monitor_backends::select;
use monitor_backends::select::BackendChoice;
use monitor_event::right::{SessionId, Tool};
use monitor_model::read_spec::Capability;
use monitor_monitors::embedded::EmbeddedMonitors;
use monitor_omis::{Dialect, Node};
use monitor_platform::EventSource;
use monitor_platform::linux::Linux;
use monitor_sampling::shared_read::SharedReader;
use monitor_server::daemon::files;
use monitor_services::context::ClusterMember;
use monitor_services::requests::{EngineInput, EngineOutput, RequestEngine, RequestLimits};
use monitor_sys::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Maximum interval between two polls for events.
const LOOK: Duration = Duration::from_millis(5);

/// A request engine in this process.
pub struct LocalTransport {
    machine: RequestEngine,
    platform: Linux,
    sender: Sender<Incoming>,
}

impl LocalTransport {
    /// Opens a session that reads with this backend.
    pub fn new(choice: BackendChoice, sender: Sender<Incoming>) -> Self {
        let name = if choice == BackendChoice::Test { "test-node".into() } else { host::name() };
        let monitors = monitors(choice, &name);
        let own = ClusterMember { node: Node(0), name: name.to_string() };
        let machine = RequestEngine::new(own, RequestLimits::default());
        let mut it = Self { machine, platform: Linux::new(choice).with_monitors(monitors), sender };
        let tool = Tool::root(SessionId::default(), std::process::id());
        it.input(EngineInput::Opened(tool, Dialect::Extended));
        it
    }

    fn input(&mut self, input: EngineInput) {
        for output in self.machine.input(clock::boot(), input, &mut self.platform) {
            if let EngineOutput::Reply(_, line) | EngineOutput::Notice(_, line) = output {
                // Fails only when the session has ended.
                let _ = self.sender.send(Incoming::Reply(line));
            }
        }
    }
}

/// Monitors with a backend of their own: only they attach hooks.
fn monitors(choice: BackendChoice, node: &Arc<str>) -> Box<EmbeddedMonitors> {
    let now = clock::now();
    let open = move || {
        let (backend, opening) = select::open(choice, &[Capability::Snapshot], 0)?;
        Ok(SharedReader::new((0, backend), opening))
    };
    let (epoch, see) = (now.unix.since(now.boot), Box::new(files::stat));
    Box::new(EmbeddedMonitors::new(Arc::clone(node), epoch, Box::new(open), see))
}

/// Whether the descriptor is readable now.
fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..))
}

impl Transport for LocalTransport {
    fn send(&mut self, line: &[u8]) -> Result<(), Failure> {
        self.input(EngineInput::ClientLine(0, line.to_vec()));
        Ok(())
    }

    fn poll(&mut self) -> Option<Duration> {
        let now = clock::boot();
        let is_due = self.platform.next_poll().is_some_and(|due| due <= now);
        let happened = match is_due || self.platform.wake_fds().into_iter().any(is_readable) {
            true => self.platform.poll_events(now),
            false => Vec::new(),
        };
        self.input(EngineInput::Events(happened));
        if !self.platform.wake_fds().is_empty() {
            return Some(LOOK);
        }
        let due = [self.machine.due(), self.platform.next_poll()].into_iter().flatten().min()?;
        Some(Duration::from_nanos(due.since(now).0).min(LOOK))
    }
}
