//! The thread that talks: orders in, how the rules stand out.
//!
//! It begins with the first order, and waits for lines and for orders; what it hears goes into the
//! book. Of how the rules stand the screen sees the latest, at most twice a second.

use super::book::Book;
use crate::cli::ask::local::Local;
use crate::cli::ask::{Came, Way, remote};
use monitor_backends::hold;
use monitor_backends::select::Choice;
use monitor_sys::clock;
use monitor_tui::rule::{Order, Rules};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// From one look at the book to the next.
const LOOK: Duration = Duration::from_millis(500);
/// From one look at what happened to the next, at least: sooner it is not seen on a screen.
const PACE: Duration = Duration::from_millis(20);
/// Lines that are taken before the book is looked at again.
const MOST: usize = 4096;

/// Who carries out the rules.
#[derive(Clone, Debug)]
pub enum Source {
    /// The daemon at this path, or the one that is found.
    Daemon(Option<PathBuf>),
    /// This program, as this backend sees processes.
    Here(Choice),
}

/// The thread, from outside.
pub struct Desk {
    source: Source,
    told: watch::Receiver<Rules>,
    sender: watch::Sender<Rules>,
    thread: Option<Talking>,
}

/// The thread: where its orders go, what wakes it, and its end.
type Talking = (Sender<Order>, Sender<Came>, JoinHandle<()>);

impl Desk {
    /// One that has nothing to do yet.
    pub fn new(source: Source) -> Self {
        let (sender, told) = watch::channel(Rules::default());
        Self { source, told, sender, thread: None }
    }

    /// Gives it an order.
    pub fn order(&mut self, order: Order) -> Result<(), String> {
        if self.thread.is_none() {
            self.thread = Some(self.begin()?);
        }
        let gone = || "the thread that watches has ended".to_owned();
        let (orders, bell, _) = self.thread.as_ref().ok_or_else(gone)?;
        orders.send(order).map_err(|_| gone())?;
        ring(bell);
        Ok(())
    }

    fn begin(&self) -> Result<Talking, String> {
        let (orders, ordered) = channel();
        let (bell, came) = channel();
        let inside = Inside {
            source: self.source.clone(),
            ordered,
            came,
            sender: bell.clone(),
            told: self.sender.clone(),
            way: None,
            book: Book::default(),
        };
        let thread = std::thread::Builder::new().name("rules".into()).spawn(|| inside.run());
        let thread = thread.map_err(|why| format!("cannot start a thread for rules: {why}"))?;
        Ok((orders, bell, thread))
    }

    /// Waits until the rules stand otherwise.
    pub async fn told(&mut self) -> Rules {
        // The other end is ours, so there always is a next one.
        match self.told.changed().await {
            Ok(()) => self.told.borrow_and_update().clone(),
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let Some((orders, bell, thread)) = self.thread.take() else { return };
        drop(orders);
        ring(&bell);
        // A panic there was told as it happened; what was attached has gone with it.
        let _ = thread.join();
    }
}

/// Wakes the thread, which looks for orders then: an empty line is nothing to say.
fn ring(bell: &Sender<Came>) {
    let _ = bell.send(Came::Said(Vec::new()));
}

/// The thread, from inside.
struct Inside {
    source: Source,
    ordered: Receiver<Order>,
    came: Receiver<Came>,
    /// For ways to a monitor.
    sender: Sender<Came>,
    told: watch::Sender<Rules>,
    way: Option<Box<dyn Way>>,
    book: Book,
}

impl Inside {
    fn run(mut self) {
        let mut due = Instant::now();
        loop {
            let is_new = match self.orders() {
                Some(is_new) => is_new,
                None => return,
            };
            if is_new || Instant::now() >= due {
                self.look();
                due = Instant::now() + LOOK;
            }
            let pace = self.way.as_mut().and_then(|way| way.look());
            let left = due.saturating_duration_since(Instant::now());
            // Of a process that has ended, and of rates, only a look tells.
            let pause = pace.map_or(left, |pace| pace.max(PACE).min(left));
            match self.came.recv_timeout(pause) {
                Ok(came) => self.take(came),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Carries out the orders that wait, and says whether there were any; nothing at the end.
    fn orders(&mut self) -> Option<bool> {
        let mut is_new = false;
        loop {
            match self.ordered.try_recv() {
                Ok(order) => self.carry_out(order),
                Err(std::sync::mpsc::TryRecvError::Empty) => return Some(is_new),
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return None,
            }
            is_new = true;
        }
    }

    fn carry_out(&mut self, order: Order) {
        let lines = self.book.order(order, clock::boot());
        self.say_all(lines);
    }

    fn say_all(&mut self, lines: Vec<String>) {
        for line in lines {
            if let Err(why) = self.say(&line) {
                self.book.over(&why);
                self.way = None;
                return;
            }
        }
    }

    fn say(&mut self, line: &str) -> Result<(), String> {
        if self.way.is_none() {
            self.way = Some(match &self.source {
                Source::Here(choice) => Box::new(Local::new(*choice, self.sender.clone())),
                Source::Daemon(path) => {
                    let remote = remote::connect(path.as_deref(), self.sender.clone());
                    Box::new(remote.map_err(|why| why.message)?)
                }
            });
        }
        let way = self.way.as_mut().expect("it was opened above");
        way.say(line.as_bytes()).map_err(|why| why.message)
    }

    /// Takes what came, and what else is there already.
    fn take(&mut self, first: Came) {
        self.hear(first);
        for _ in 0..MOST {
            match self.came.try_recv() {
                Ok(came) => self.hear(came),
                Err(_) => return,
            }
        }
    }

    fn hear(&mut self, came: Came) {
        match came {
            Came::Heard(line) => self.book.hear(&line),
            Came::Gone => {
                self.book.over("the daemon went away");
                self.way = None;
            }
            Came::Said(_) | Came::NoMore => {}
        }
    }

    fn look(&mut self) {
        self.book.look(|id| hold::alone(id).is_some());
        if self.way.is_some() {
            let lines = self.book.ask(clock::boot());
            self.say_all(lines);
        }
        let rules = self.book.rules(clock::boot());
        let _ = self.told.send_if_modified(|before| {
            let is_other = *before != rules;
            *before = rules;
            is_other
        });
    }
}
