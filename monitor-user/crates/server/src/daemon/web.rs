//! What the HTTP listener asks of the service, and what it is given.
//!
//! In: asks. Out: jobs for the thread that reads, and answers. Who asks for the same metrics while
//! they are made gets the same; a reading is made when somebody asks, and at no other time.

use super::sampler::{Job, ScrapeJob};
use super::{Loop, Place};
use crate::http::push;
use crate::http::push::Pushed;
use crate::http::{Ask, Dial, Door, Shared, Sight};
use crate::line::Arrival;
use crate::outbox::Outbox;
use crate::policy::{Class, Peer, Policy};
use monitor_format::exposition::Encoding;
use monitor_model::want::Capability;
use monitor_protocol::Conn;
use monitor_protocol::status::{Http, Otlp};
use monitor_sampling::veil::Veil;
use monitor_sys::rights;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Asks that may wait for the loop.
const ASKS: usize = 64;
/// A user that owns nothing: `nobody` of every Linux.
const NOBODY: u32 = 65_534;

/// The listener as the loop sees it.
pub struct Web {
    asks: Receiver<Ask>,
    /// Keeps the queue open where nobody listens.
    sender: Sender<Ask>,
    shared: Option<Arc<Shared>>,
    pushed: Option<Pushed>,
    tasks: Vec<JoinHandle<()>>,
    /// Who waits for which metrics.
    waiting: Vec<(Sight, Encoding, Reply)>,
    /// Whether somebody has collected: then what that needs stays attached.
    collected: bool,
}

type Reply = oneshot::Sender<Result<Vec<u8>, String>>;

impl Web {
    /// Nobody listens yet.
    pub fn new() -> Self {
        let (sender, asks) = channel(ASKS);
        let (shared, pushed, tasks) = (None, None, Vec::new());
        Self { asks, sender, shared, pushed, tasks, waiting: Vec::new(), collected: false }
    }

    /// Listens, if that is configured.
    pub async fn open(
        &mut self,
        config: &super::Config,
        (place, dial): (&Place, Option<Arc<Dial>>),
    ) -> std::io::Result<()> {
        let beside = place.socket().map(|it| it.parent().unwrap_or(Path::new(".")));
        let door = Door::open(&config.http, (beside, dial), self.sender.clone()).await?;
        if let Some(door) = door {
            let shared = door.shared();
            tracing::info!(address = shared.status().address, "listening for HTTP");
            if let Place::Page(hear) = place {
                hear(&shared.page());
            }
            self.shared = Some(shared);
            self.tasks.push(tokio::spawn(door.run()));
        }
        if let Some((pushed, task)) = push::start(&config.push, self.sender.clone()) {
            self.pushed = Some(pushed);
            self.tasks.push(task);
        }
        Ok(())
    }

    /// The next that is asked.
    pub async fn asked(&mut self) -> Ask {
        match self.asks.recv().await {
            Some(ask) => ask,
            None => std::future::pending().await,
        }
    }

    /// The numbers of the listener.
    pub fn status(&self) -> Option<Http> {
        self.shared.as_ref().map(|it| it.status())
    }

    /// How pushing goes.
    pub fn pushed(&self) -> Option<Otlp> {
        self.pushed.as_ref().map(Pushed::status)
    }

    /// Closes the door.
    pub async fn close(&mut self) {
        self.shared = None;
        for task in self.tasks.drain(..) {
            task.abort();
            let _ = task.await;
        }
    }
}

impl Loop {
    pub(super) fn hear(&mut self, ask: Ask) {
        match ask {
            Ask::Metrics { sight, encoding, reply } => self.collect(sight, encoding, reply),
            Ask::Join { sight, outbox, reply } => {
                let joined = self.join(sight, outbox);
                // Whoever went meanwhile is seen off when he leaves.
                let _ = reply.send(joined);
            }
            Ask::Say { conn, line } => self.say(Arrival::Line(conn, line)),
            Ask::Leave { conn } => self.say(Arrival::Closed(conn)),
        }
    }

    fn say(&mut self, arrival: Arrival) {
        if let Some(input) = self.arrived(arrival) {
            self.input(input);
        }
    }

    /// A connection from within: of this service itself, or of a user who owns nothing.
    fn join(&mut self, sight: Sight, outbox: Arc<Outbox>) -> Result<Conn, String> {
        let veil = self.sight(sight).ok_or("users are not granted \"observe-own\" here")?;
        let (uid, pid) = match sight {
            Sight::Full => (rights::own_user(), std::process::id()),
            Sight::Open => (NOBODY, std::process::id()),
        };
        let peer = Peer { uid, gid: uid, pid, groups: Vec::new() };
        let (conn, input) = self.clients.admit(&peer, (veil, outbox))?;
        self.input(input);
        Ok(conn)
    }

    /// Orders an exposition, unless the same is under way.
    fn collect(&mut self, sight: Sight, encoding: Encoding, reply: Reply) {
        let Some(veil) = self.sight(sight) else {
            // Whoever does not wait any more needs no answer.
            let _ = reply.send(Err("users are not granted \"observe-own\" here".to_owned()));
            return;
        };
        let waits = self.web.waiting.iter().any(|it| (it.0, it.1) == (sight, encoding));
        self.web.waiting.push((sight, encoding, reply));
        if waits {
            return;
        }
        self.web.collected = true;
        let (capabilities, shed) = (self.needed(), self.account.shed());
        self.account.read();
        self.told.clone_from(&capabilities);
        let exposed = Arc::clone(&self.exposed);
        let job = ScrapeJob { sight, veil, exposed, encoding, own: self.own(), capabilities, shed };
        self.send(Job::Scrape(Box::new(job)));
    }

    /// An exposition is there.
    pub(super) fn collected(
        &mut self,
        (sight, encoding): (Sight, Encoding),
        result: &Result<Vec<u8>, String>,
    ) {
        let all = std::mem::take(&mut self.web.waiting);
        let (mine, rest) = all.into_iter().partition(|it| (it.0, it.1) == (sight, encoding));
        self.web.waiting = rest;
        let mine: Vec<(Sight, Encoding, Reply)> = mine;
        for (.., reply) in mine {
            let _ = reply.send(result.clone());
        }
    }

    /// Through which veil somebody looks; nothing is shown who may not ask.
    fn sight(&self, sight: Sight) -> Option<Veil> {
        let grants = self.settings.loaded.config.grants.clone();
        let policy = Policy { hidden: self.settings.hidden, grants };
        let nobody = Peer { uid: NOBODY, gid: NOBODY, ..Peer::default() };
        match sight {
            Sight::Full => Some(Veil::None),
            Sight::Open => policy.grants(&nobody, Class::ObserveOwn).then(|| policy.veil(&nobody)),
        }
    }

    /// What is attached for those who collect.
    pub(super) fn exposed_capabilities(&self) -> &[Capability] {
        if self.web.collected { &self.exposed.histograms } else { &[] }
    }
}
