//! The thread that runs the rules: orders in, rule states out.
//!
//! It starts with the first order and waits for replies and orders, which update the rule table.
//! The screen gets the latest state, at most twice a second.

use super::state::RuleTable;
use crate::cli::ask::transport::{self, Incoming, LocalTransport, Transport};
use monitor_backend::BackendChoice;
use monitor_backends::pidfd_watch;
use monitor_sys::clock;
use monitor_tui::rule::{RuleRequest, Rules};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Interval between two updates of the screen.
const REFRESH_EVERY: Duration = Duration::from_millis(500);
/// Minimum interval between two polls for events: a screen shows nothing faster.
const POLL_MIN: Duration = Duration::from_millis(20);
/// Maximum number of replies handled between two updates.
const BATCH: usize = 4096;

/// Where the rules run.
#[derive(Clone, Debug)]
pub enum RuleSource {
    /// At the daemon on this socket, or on a default one.
    Daemon(Option<PathBuf>),
    /// In this process, with this backend.
    Local(BackendChoice),
}

/// Handle of the thread.
pub struct RuleWorker {
    source: RuleSource,
    rules: watch::Receiver<Rules>,
    sender: watch::Sender<Rules>,
    thread: Option<WorkerThread>,
}

/// Sender of orders, sender that wakes the thread, and the thread.
type WorkerThread = (Sender<RuleRequest>, Sender<Incoming>, JoinHandle<()>);

impl RuleWorker {
    /// Starts no thread yet.
    pub fn new(source: RuleSource) -> Self {
        let (sender, rules) = watch::channel(Rules::default());
        Self { source, rules, sender, thread: None }
    }

    /// Sends an order; the first one starts the thread.
    pub fn send(&mut self, order: RuleRequest) -> Result<(), String> {
        if self.thread.is_none() {
            self.thread = Some(self.spawn()?);
        }
        let gone = || "the rule thread has ended".to_owned();
        let (orders, waker, _) = self.thread.as_ref().ok_or_else(gone)?;
        orders.send(order).map_err(|_| gone())?;
        wake(waker);
        Ok(())
    }

    fn spawn(&self) -> Result<WorkerThread, String> {
        let (orders, orders_in) = channel();
        let (waker, incoming) = channel();
        let worker_loop = WorkerLoop {
            source: self.source.clone(),
            orders: orders_in,
            incoming,
            sender: waker.clone(),
            rules: self.sender.clone(),
            transport: None,
            table: RuleTable::default(),
        };
        let thread = std::thread::Builder::new().name("rules".into()).spawn(|| worker_loop.run());
        let thread = thread.map_err(|why| format!("cannot start a thread for rules: {why}"))?;
        Ok((orders, waker, thread))
    }

    /// Waits until the rules have changed.
    pub async fn changed(&mut self) -> Rules {
        // Cannot end: this struct holds the sender.
        match self.rules.changed().await {
            Ok(()) => self.rules.borrow_and_update().clone(),
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for RuleWorker {
    fn drop(&mut self) {
        let Some((orders, waker, thread)) = self.thread.take() else { return };
        drop(orders);
        wake(&waker);
        // A panic was printed when it happened; its attachments are gone with the session.
        let _ = thread.join();
    }
}

/// Wakes the thread to check for orders. The empty request is not sent.
fn wake(waker: &Sender<Incoming>) {
    let _ = waker.send(Incoming::Request(Vec::new()));
}

/// The state of the thread.
struct WorkerLoop {
    source: RuleSource,
    orders: Receiver<RuleRequest>,
    incoming: Receiver<Incoming>,
    /// For transports.
    sender: Sender<Incoming>,
    rules: watch::Sender<Rules>,
    transport: Option<Box<dyn Transport>>,
    table: RuleTable,
}

impl WorkerLoop {
    fn run(mut self) {
        let mut due = Instant::now();
        loop {
            let is_new = match self.execute_orders() {
                Some(is_new) => is_new,
                None => return,
            };
            if is_new || Instant::now() >= due {
                self.refresh();
                due = Instant::now() + REFRESH_EVERY;
            }
            let poll_after = self.transport.as_mut().and_then(|transport| transport.poll());
            let left = due.saturating_duration_since(Instant::now());
            // Exits and rates are noticed only by a refresh.
            let pause = poll_after.map_or(left, |poll_after| poll_after.max(POLL_MIN).min(left));
            match self.incoming.recv_timeout(pause) {
                Ok(incoming) => self.drain(incoming),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Executes the queued orders. Returns whether there were any; `None` at the end.
    fn execute_orders(&mut self) -> Option<bool> {
        let mut is_new = false;
        loop {
            match self.orders.try_recv() {
                Ok(order) => self.execute(order),
                Err(std::sync::mpsc::TryRecvError::Empty) => return Some(is_new),
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return None,
            }
            is_new = true;
        }
    }

    fn execute(&mut self, order: RuleRequest) {
        let lines = self.table.execute(order, clock::boot());
        self.send_all(lines);
    }

    fn send_all(&mut self, lines: Vec<String>) {
        for line in lines {
            if let Err(why) = self.send_line(&line) {
                self.table.end_all(&why);
                self.transport = None;
                return;
            }
        }
    }

    fn send_line(&mut self, line: &str) -> Result<(), String> {
        if self.transport.is_none() {
            self.transport = Some(match &self.source {
                RuleSource::Local(choice) => {
                    Box::new(LocalTransport::new(*choice, self.sender.clone()))
                }
                RuleSource::Daemon(path) => {
                    let remote = transport::connect(path.as_deref(), self.sender.clone());
                    Box::new(remote.map_err(|why| why.message)?)
                }
            });
        }
        let transport = self.transport.as_mut().expect("opened above");
        transport.send(line.as_bytes()).map_err(|why| why.message)
    }

    /// Handles an input and those queued behind it.
    fn drain(&mut self, first: Incoming) {
        self.handle(first);
        for _ in 0..BATCH {
            match self.incoming.try_recv() {
                Ok(incoming) => self.handle(incoming),
                Err(_) => return,
            }
        }
    }

    fn handle(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Reply(line) => self.table.handle_reply(&line),
            Incoming::Disconnected => {
                self.table.end_all("connection to the daemon lost");
                self.transport = None;
            }
            Incoming::Request(_) | Incoming::EndOfInput => {}
        }
    }

    fn refresh(&mut self) {
        self.table.end_exited(|id| pidfd_watch::open(id).is_some());
        let mut lines = self.table.remove_failed(clock::boot());
        if self.transport.is_some() {
            lines.extend(self.table.read_lines(clock::boot()));
            self.send_all(lines);
        }
        let rules = self.table.rules(clock::boot());
        let _ = self.rules.send_if_modified(|before| {
            let is_other = *before != rules;
            *before = rules;
            is_other
        });
    }
}
