//! Asking without a daemon: the machine and the node in this process.

use super::super::exit::Failure;
use super::{Came, Way};
use monitor_backends::host;
use monitor_backends::select;
use monitor_backends::select::Choice;
use monitor_event::right::{SessionId, Tool};
use monitor_model::want::Capability;
use monitor_monitors::alone::Alone;
use monitor_omis::{Dialect, Node};
use monitor_platform::Happenings;
use monitor_platform::live::Live;
use monitor_sampling::round::Rounds;
use monitor_server::daemon::files;
use monitor_services::ctx::Member;
use monitor_services::requests::{Input, Limits, Machine, Output};
use monitor_sys::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// How often is looked for what happened.
const LOOK: Duration = Duration::from_millis(5);

/// A monitor of our own.
pub struct Local {
    machine: Machine,
    ground: Live,
    sender: Sender<Came>,
}

impl Local {
    /// One that reads as was chosen.
    pub fn new(choice: Choice, sender: Sender<Came>) -> Self {
        let name = if choice == Choice::Test { "test-node".into() } else { host::name() };
        let monitors = monitors(choice, &name);
        let own = Member { node: Node(0), name: name.to_string() };
        let machine = Machine::new(own, Limits::default());
        let mut it = Self { machine, ground: Live::new(choice).with(monitors), sender };
        let tool = Tool::root(SessionId::default(), std::process::id());
        it.input(Input::Opened(tool, Dialect::Extended));
        it
    }

    fn input(&mut self, input: Input) {
        for output in self.machine.input(clock::boot(), input, &mut self.ground) {
            if let Output::Reply(_, line) | Output::Told(_, line) = output {
                // The other end is in our hands.
                let _ = self.sender.send(Came::Heard(line));
            }
        }
    }
}

/// Monitors that read for themselves: what attaches hooks is asked for by them alone.
fn monitors(choice: Choice, node: &Arc<str>) -> Box<Alone> {
    let now = clock::now();
    let open = move || {
        let (backend, opening) = select::open(choice, &[Capability::Snapshot], 0)?;
        Ok(Rounds::new((0, backend), opening))
    };
    let (epoch, see) = (now.unix.since(now.boot), Box::new(files::stat));
    Box::new(Alone::new(Arc::clone(node), epoch, Box::new(open), see))
}

/// Whether it is, now.
fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..))
}

impl Way for Local {
    fn say(&mut self, line: &[u8]) -> Result<(), Failure> {
        self.input(Input::Said(0, line.to_vec()));
        Ok(())
    }

    fn look(&mut self) -> Option<Duration> {
        let now = clock::boot();
        let is_due = self.ground.due().is_some_and(|due| due <= now);
        let happened = match is_due || self.ground.wakes().into_iter().any(is_readable) {
            true => self.ground.happened(now),
            false => Vec::new(),
        };
        self.input(Input::Happened(happened));
        if !self.ground.wakes().is_empty() {
            return Some(LOOK);
        }
        let due = [self.machine.due(), self.ground.due()].into_iter().flatten().min()?;
        Some(Duration::from_nanos(due.since(now).0).min(LOOK))
    }
}
