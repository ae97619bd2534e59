//! Connections to a request engine: the one of the daemon, or one in this process.
//!
//! In: request lines. Out: reply lines, through a channel. A thread reads the replies of the
//! daemon.

use crate::cli::exit::{Exit, Failure};
use monitor_backend::BackendChoice;
use monitor_backend::Opener;
use monitor_backends::host;
use monitor_client::{Error, socket_path};
use monitor_event::right::{SessionId, Tool};
use monitor_loader::select;
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
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// An input of the session.
pub enum Incoming {
    /// A request to send.
    Request(Vec<u8>),
    /// No request follows.
    EndOfInput,
    /// A reply line.
    Reply(String),
    /// The daemon closed the connection.
    Disconnected,
}

/// A connection to a request engine. Replies arrive as `Incoming::Reply`.
pub trait Transport: Send {
    /// Sends a request.
    fn send(&mut self, line: &[u8]) -> Result<(), Failure>;

    /// Polls for events, where they do not arrive by themselves. Returns when to poll again.
    fn poll(&mut self) -> Option<Duration> {
        None
    }
}

/// A connection to the daemon.
pub struct DaemonTransport(UnixStream);

/// Connects to the daemon at this path, or at the first default path that answers.
pub fn connect(named: Option<&Path>, sender: Sender<Incoming>) -> Result<DaemonTransport, Failure> {
    let tried = named.map_or_else(|| socket_path::candidates(None), |path| vec![path.to_owned()]);
    let mut source = io::Error::from(io::ErrorKind::NotFound);
    for path in &tried {
        match UnixStream::connect(path).and_then(|stream| listen(stream, sender.clone())) {
            Ok(remote) => return Ok(remote),
            Err(why) => source = why,
        }
    }
    let absent = Failure::from(Error::Unreachable { tried, source });
    Err(Failure { message: format!("{}, or use --local", absent.message), ..absent })
}

fn listen(stream: UnixStream, sender: Sender<Incoming>) -> io::Result<DaemonTransport> {
    let reader = BufReader::new(stream.try_clone()?);
    let thread = std::thread::Builder::new().name("reader".into());
    let _ = thread.spawn(move || {
        for line in reader.lines().map_while(Result::ok) {
            if sender.send(Incoming::Reply(line)).is_err() {
                return;
            }
        }
        let _ = sender.send(Incoming::Disconnected);
    })?;
    Ok(DaemonTransport(stream))
}

impl Transport for DaemonTransport {
    fn send(&mut self, line: &[u8]) -> Result<(), Failure> {
        let written = self.0.write_all(line).and_then(|()| self.0.write_all(b"\n"));
        written.map_err(|why| Failure {
            message: format!("cannot write to the daemon: {why}"),
            exit: Exit::NoDaemon,
        })
    }
}

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
        let opener = select::opener(choice);
        let monitors = embedded_monitors(opener, &name);
        let own = ClusterMember { node: Node(0), name: name.to_string() };
        let machine = RequestEngine::new(own, RequestLimits::default());
        let mut it = Self { machine, platform: Linux::new(opener).with_monitors(monitors), sender };
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
fn embedded_monitors(opener: Opener, node: &Arc<str>) -> Box<EmbeddedMonitors> {
    let open = move || {
        let (backend, opening) = opener.backend(&[Capability::Snapshot])?;
        Ok(SharedReader::new((0, backend), opening))
    };
    let (epoch, see) = (clock::realtime_offset(), Box::new(files::stat));
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
