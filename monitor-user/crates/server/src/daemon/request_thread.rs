//! The request thread: requests of the request language in, reply lines out.
//!
//! It owns the request engine of this node and the platform, and waits for lines, events and
//! deadlines. It never waits for the sampler thread, because actions on an event must run within
//! microseconds. Reply lines go directly into the outboxes of their connections.

use super::{drop_notices::DropNotices, loopback::LoopbackMonitors, rule_listing::RuleListing};
use crate::{line::Line, outbox::Outbox};
use monitor_backend::Opener;
use monitor_cluster::request::{ClusterRequests, RemoteInput, RequestOutput};
use monitor_event::right::Tool;
use monitor_model::Ns;
use monitor_omis::{Dialect, Status};
use monitor_platform::{EventSource, linux::Linux, linux::recorder::ServiceConfig};
use monitor_protocol::Conn;
use monitor_services::requests::{EngineInput, FollowSettings, RequestLimits};
use monitor_services::{context::ClusterMember, diag::DiagSettings};
use monitor_sys::clock;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::{
    collections::HashMap, io, os::fd::OwnedFd, sync::Arc, thread::JoinHandle, time::Duration,
};
use tokio::{sync::Notify, sync::mpsc::UnboundedSender};

/// Bytes of lines that may wait for the thread; beyond that, connections are not read.
const QUEUE_BYTES: usize = 8 << 20;
/// How soon a drop notice is tried again.
const RETRY_PAUSE: Ns = Ns(100_000_000);
/// How long the platform is kept without a session: to load the kernel's rules again takes up to a
/// second.
const IDLE_TIME: Ns = Ns(5_000_000_000);

/// A message from the loop to the thread.
enum RequestJob {
    Opened(Tool, Arc<Outbox>),
    Request(Conn, Line),
    Closed(Conn),
    Members(Vec<ClusterMember>),
    Remote(RemoteInput),
    Diag(DiagSettings),
    Follow(FollowSettings),
    Rules(RuleListing),
    End(String),
}

/// What the platform needs of the rest of the daemon.
#[derive(Clone)]
pub struct PlatformLinks {
    /// The socket and the flight recorder.
    pub service: ServiceConfig,
    /// The monitors.
    pub monitors: LoopbackMonitors,
}

impl PlatformLinks {
    fn platform(&self, opener: Opener) -> Linux {
        Linux::for_service(opener, self.service.clone())
            .with_monitors(Box::new(self.monitors.clone()))
    }
}

/// The handle of the request thread.
pub struct RequestThread {
    jobs: Option<Sender<RequestJob>>,
    waker: Arc<OwnedFd>,
    queue_room: Arc<QueueRoom>,
    thread: Option<JoinHandle<()>>,
}

/// The bytes that wait for the thread, and a notification when they fall below the limit.
#[derive(Default)]
struct QueueRoom {
    bytes: AtomicUsize,
    freed: Notify,
}

impl RequestThread {
    /// Starts the thread; `opener` opens the backend that its services read processes with, and
    /// `outgoing` takes what is for other nodes.
    pub fn start(
        own: ClusterMember,
        (opener, links): (Opener, PlatformLinks),
        outgoing: UnboundedSender<RequestOutput>,
    ) -> io::Result<Self> {
        let (jobs, queue) = channel();
        let waker = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let queue_room = Arc::new(QueueRoom::default());
        let request_loop = RequestLoop {
            queue,
            waker: Arc::clone(&waker),
            queue_room: Arc::clone(&queue_room),
            requests: ClusterRequests::single_node(own, RequestLimits::default()),
            outgoing,
            platform: links.platform(opener),
            opener,
            links,
            outboxes: HashMap::new(),
            drop_notices: DropNotices::default(),
            idle_since: None,
        };
        let builder = std::thread::Builder::new().name("requests".into());
        let thread = builder.spawn(|| request_loop.run())?;
        Ok(Self { jobs: Some(jobs), waker, queue_room, thread: Some(thread) })
    }

    /// Opens the session of a connection, before its first request.
    pub fn open_session(&self, tool: Tool, outbox: Arc<Outbox>) {
        self.send(RequestJob::Opened(tool, outbox));
    }

    /// Queues a request of a connection; false if the thread has ended.
    pub fn send_request(&self, conn: Conn, line: Line) -> bool {
        self.queue_room.bytes.fetch_add(line.len(), Ordering::Relaxed);
        self.send(RequestJob::Request(conn, line))
    }

    /// Closes the session of a connection.
    pub fn close_session(&self, conn: Conn) {
        self.send(RequestJob::Closed(conn));
    }

    /// Sets the nodes of the cluster.
    pub fn set_members(&self, members: Vec<ClusterMember>) {
        self.send(RequestJob::Members(members));
    }

    /// Adds the stored requests to a list.
    pub fn list_rules(&self, listing: RuleListing) {
        self.send(RequestJob::Rules(listing));
    }

    /// Sets the configured thresholds of diagnostic events.
    pub fn configure(&self, settings: DiagSettings) {
        self.send(RequestJob::Diag(settings));
    }

    /// Sets what is followed also while no tool waits for its changes.
    pub fn follow(&self, settings: FollowSettings) {
        self.send(RequestJob::Follow(settings));
    }

    /// Passes on what comes from other nodes.
    pub fn remote_input(&self, remote: RemoteInput) {
        self.send(RequestJob::Remote(remote));
    }

    /// Ends all sessions, and the thread; its clients are notified why.
    pub fn end(&self, why: String) {
        self.send(RequestJob::End(why));
    }

    /// Whether more requests may be queued.
    pub fn has_room(&self) -> bool {
        self.queue_room.bytes.load(Ordering::Relaxed) < QUEUE_BYTES
    }

    /// Waits until more requests may be queued.
    pub async fn wait_for_room(&self) {
        while !self.has_room() {
            self.queue_room.freed.notified().await;
        }
    }

    /// Ends the thread, which releases what its sessions hold.
    pub fn stop(&mut self) {
        self.jobs = None;
        self.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been logged.
            let _ = thread.join();
        }
    }

    fn send(&self, job: RequestJob) -> bool {
        let is_sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        self.wake();
        is_sent
    }

    fn wake(&self) {
        // The counter cannot overflow: the thread reads and resets it at each wakeup.
        let _ = rustix::io::write(&self.waker, &1_u64.to_ne_bytes());
    }
}

impl Drop for RequestThread {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The loop of the request thread.
struct RequestLoop {
    queue: Receiver<RequestJob>,
    waker: Arc<OwnedFd>,
    queue_room: Arc<QueueRoom>,
    requests: ClusterRequests,
    outgoing: UnboundedSender<RequestOutput>,
    platform: Linux,
    opener: Opener,
    links: PlatformLinks,
    outboxes: HashMap<Conn, Arc<Outbox>>,
    drop_notices: DropNotices,
    /// When the last session closed, while the platform is kept for the next one.
    idle_since: Option<Ns>,
}

impl RequestLoop {
    fn run(mut self) {
        loop {
            match self.queue.try_recv() {
                Ok(RequestJob::End(why)) => {
                    self.notify_end(&why);
                    return self.close_all();
                }
                Ok(job) => self.job(job),
                Err(TryRecvError::Empty) => self.wait(),
                Err(TryRecvError::Disconnected) => return self.close_all(),
            }
        }
    }

    fn job(&mut self, job: RequestJob) {
        match job {
            RequestJob::Opened(tool, outbox) => {
                self.idle_since = None;
                self.outboxes.insert(tool.session.conn, outbox);
                self.input(EngineInput::Opened(tool, Dialect::Extended));
            }
            RequestJob::Request(conn, line) => {
                if self.queue_room.bytes.fetch_sub(line.len(), Ordering::Relaxed) >= QUEUE_BYTES {
                    self.queue_room.freed.notify_one();
                }
                let began = clock::thread_cpu();
                self.input(EngineInput::ClientLine(conn, line.to_vec()));
                if let Some(outbox) = self.outboxes.get(&conn) {
                    outbox.charge(clock::thread_cpu().since(began));
                }
            }
            RequestJob::Closed(conn) => self.session_closed(conn),
            RequestJob::Rules(listing) => self.list_rules(listing),
            RequestJob::Members(members) => self.input(EngineInput::Members(members)),
            RequestJob::Diag(settings) => self.input(EngineInput::Diagnoses(settings)),
            RequestJob::Follow(settings) => self.follow(settings),
            RequestJob::Remote(remote) => {
                let outputs = self.requests.receive(clock::boot(), remote, &mut self.platform);
                self.dispatch(outputs);
                if self.requests.n_sessions() == 0 {
                    self.idle_since.get_or_insert_with(clock::boot);
                } else {
                    self.idle_since = None;
                }
            }
            // The loop ends with it.
            RequestJob::End(_) => {}
        }
    }

    fn list_rules(&mut self, listing: RuleListing) {
        let rules = self.requests.rules(|it| listing.shows(it), &mut self.platform);
        listing.add(rules);
    }

    /// Without a session, the platform is closed some time after nothing is followed any more.
    fn follow(&mut self, settings: FollowSettings) {
        let did = self.requests.follows_any();
        self.input(EngineInput::Follow(settings));
        if did && self.requests.n_sessions() == 0 {
            self.idle_since = Some(clock::boot());
        }
    }

    fn session_closed(&mut self, conn: Conn) {
        self.input(EngineInput::Closed(conn));
        self.outboxes.remove(&conn);
        self.drop_notices.forget(conn);
        if self.requests.n_sessions() == 0 {
            self.idle_since = Some(clock::boot());
        }
    }

    /// When the backend and its probes are not needed any more, unless a session opens before.
    fn end_of_idle_time(&self) -> Option<Ns> {
        let idle_since = self.idle_since.filter(|_| !self.requests.follows_any())?;
        Some(Ns(idle_since.0.saturating_add(IDLE_TIME.0)))
    }

    /// Notifies all clients that their session ends, and closes their connections.
    fn notify_end(&self, why: &str) {
        let Status(down) = Status::NODE_DOWN;
        for outbox in self.outboxes.values() {
            outbox.reply(format!("0 [] error({down},0,\"{why}\")\n").into_bytes());
            outbox.close();
        }
    }

    /// Closes all sessions, before the thread ends.
    fn close_all(mut self) {
        let all: Vec<Conn> = self.outboxes.keys().copied().collect();
        for conn in all {
            self.session_closed(conn);
        }
    }

    /// Waits for a job, an event of the platform or a deadline.
    fn wait(&mut self) {
        let due = [
            self.requests.due(),
            self.platform.next_poll(),
            self.drop_notices.due(RETRY_PAUSE),
            self.end_of_idle_time(),
        ];
        let due = due.into_iter().flatten().min();
        let left = due.map(|due| due.since(clock::boot()));
        let left = left.and_then(|left| Timespec::try_from(Duration::from_nanos(left.0)).ok());
        let mut fds = vec![PollFd::new(&*self.waker, PollFlags::IN)];
        let wakes = self.platform.wake_fds().into_iter();
        fds.extend(wakes.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        // If a signal interrupts it, `poll` below finds nothing, and the loop waits again.
        let _ = poll(&mut fds, left.as_ref());
        let is_woken = fds[1..].iter().any(|fd| !fd.revents().is_empty());
        drop(fds);
        let _ = rustix::io::read(&self.waker, &mut [0_u8; 8]);
        self.poll(is_woken);
    }

    fn poll(&mut self, is_woken: bool) {
        let now = clock::boot();
        if is_woken || self.platform.next_poll().is_some_and(|due| due <= now) {
            let events = self.platform.poll_events(now);
            if !events.is_empty() {
                self.input(EngineInput::Events(events));
            }
        }
        if self.requests.due().is_some_and(|due| due <= now) {
            self.input(EngineInput::Tick);
        }
        self.drop_notices.retry(now, &self.outboxes);
        if self.end_of_idle_time().is_some_and(|due| due <= now) {
            self.idle_since = None;
            self.platform = self.links.platform(self.opener);
        }
    }

    fn input(&mut self, input: EngineInput) {
        let outputs = self.requests.input(clock::boot(), input, &mut self.platform);
        self.dispatch(outputs);
    }

    fn dispatch(&mut self, outputs: Vec<RequestOutput>) {
        for output in outputs {
            match output {
                RequestOutput::Reply(conn, line) => {
                    if let Some(outbox) = self.outboxes.get(&conn) {
                        outbox.reply(with_newline(line));
                    }
                }
                RequestOutput::Notice(conn, line) => {
                    if let Some(outbox) = self.outboxes.get(&conn) {
                        self.drop_notices.send(conn, outbox, with_newline(line), clock::boot());
                    }
                }
                // Fails only if the daemon is shutting down.
                output => drop(self.outgoing.send(output)),
            }
        }
    }
}

fn with_newline(line: String) -> Vec<u8> {
    let mut line = line.into_bytes();
    line.push(b'\n');
    line
}
