//! L8, the service: one loop that answers, one thread that reads, one that acts.
//!
//! The loop owns the engine and every connection, and never waits for anything but its inputs.
//! It ends on SIGTERM and SIGINT: clients are told, what is attached is detached, the socket is
//! taken away. On SIGHUP it reads its configuration again.

mod account;
mod act;
mod clients;
pub mod config;
mod dead;
pub mod files;
mod flight;
mod hand;
mod heart;
mod missed;
mod own;
mod relay;
pub mod reload;
pub mod sampler;
mod timer;
mod web;

use crate::http;
use crate::http::Dial;
use crate::line::Arrival;
use crate::policy::{Hidden, Policy};
use crate::socket::Listening;
use account::Account;
use clients::{Clients, Said};
use config::{Config, Loaded};
use files::Files;
use hand::{Hand, Outgoing, Ways};
use heart::{Ask, Heart};
use monitor_backend::Backend;
use monitor_cluster::Cluster;
use monitor_cluster::link::{Letter, Link};
use monitor_cluster::scope::Node;
use monitor_control::hand::OWN;
use monitor_model::sample::Note;
use monitor_model::want::Capability;
use monitor_monitors::{Engine, Input, Limits};
use monitor_platform::live::recorder::Service;
use monitor_protocol::Conn;
use monitor_protocol::call::Tag;
use monitor_sampling::scrape::Exposed;
use monitor_services::ctx::Member;
use monitor_sys::rights;
use relay::Guests;
use reload::Reload;
use sampler::{Done, Sampler};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use timer::Timer;
use tokio::net::UnixStream;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, channel, unbounded_channel};
use web::Web;

/// Lines that may wait for the loop before connections are read no further.
const ARRIVALS: usize = 1024;

/// Where a service is found.
pub enum Place {
    /// At this socket, by everybody.
    Socket(PathBuf),
    /// At its page alone: no file of it is anywhere, so none is left behind. Who started it hears
    /// the address of the page, with the token that shows all.
    Page(fn(&str)),
}

impl Place {
    /// The socket, if there is one.
    pub fn socket(&self) -> Option<&Path> {
        match self {
            Self::Socket(path) => Some(path),
            Self::Page(_) => None,
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Socket(path) => path.display().fmt(out),
            Self::Page(_) => out.write_str("its page alone"),
        }
    }
}

/// What a service is started with.
pub struct Settings {
    /// Where it is found.
    pub place: Place,
    /// Its configuration.
    pub loaded: Loaded,
    /// What `/proc` keeps from users.
    pub hidden: Hidden,
    /// This node among others; its name and number.
    pub node: Node,
    /// The way to them, if there is one.
    pub link: Option<Box<dyn Link>>,
    /// Which program acts for users: this one, as a rule.
    pub hand: PathBuf,
    /// Where in a recording this is, if the backend plays one.
    pub dial: Option<Arc<Dial>>,
    /// Reads the configuration again.
    pub reload: Reload,
    /// Lets the log say as much as its argument names.
    pub log: Box<dyn Fn(&str)>,
}

impl Settings {
    /// All as it is without a configuration, for a node without others.
    pub fn new(place: Place, node: Node) -> Self {
        Self {
            place,
            loaded: Loaded::default(),
            hidden: Hidden::Nothing,
            node,
            link: None,
            hand: OWN.into(),
            dial: None,
            reload: Box::new(|| Ok(Loaded::default())),
            log: Box::new(|_| {}),
        }
    }
}

/// Serves until it is told to end.
pub async fn serve(
    settings: Settings,
    backend: Box<dyn Backend>,
    opening: Vec<Note>,
) -> std::io::Result<()> {
    let mut it = Loop::begin(settings, backend, opening).await?;
    it.keep(it.settings.loaded.config.keeping);
    it.hand.configure(it.settings.loaded.config.diag.clone());
    // Other nodes ask for ranks wherever they are.
    if it.link.is_some() {
        it.send(sampler::Job::Ranks);
    }
    tracing::info!("serving on {}", it.settings.place);
    heart::ready(&it.status_line());
    it.run().await;
    heart::stopping();
    it.end().await;
    Ok(())
}

/// A node as the request language knows it.
fn member(node: &Node) -> Member {
    Member { node: monitor_omis::Node(node.number), name: node.name.clone() }
}

/// Files can be watched for others only by who may take their rights.
fn own_files(limits: Limits) -> Limits {
    let files_of = (!rights::may_change()).then(rights::own_user);
    Limits { files_of, ..limits }
}

struct Loop {
    settings: Settings,
    cluster: Cluster,
    link: Option<Box<dyn Link>>,
    clients: Clients,
    hand: Hand,
    /// What the thread that acts has to say to other nodes.
    letters: UnboundedReceiver<Outgoing>,
    /// The nodes that it knows of.
    members: Vec<Member>,
    sampler: Sampler,
    /// Whether it keeps the last minutes, for the thread that acts.
    keeps: Arc<AtomicBool>,
    files: Files,
    account: Account,
    heart: Heart,
    /// Who waits for the reader to say how each capability is served.
    examining: Vec<(Conn, Tag)>,
    web: Web,
    /// Tools of the request language that have monitors.
    guests: Guests,
    /// What is exposed to those who collect metrics.
    exposed: Arc<Exposed>,
    /// The socket; a service that only a page shows has none.
    listening: Option<Listening>,
    arrivals: Receiver<Arrival>,
    timer: Timer,
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    /// What the thread that reads was last told to attach.
    told: Vec<Capability>,
}

/// What can wake the loop.
enum Woken {
    Input(Option<Input>),
    Letter(Letter),
    Done(Done),
    Beat(Ask),
    Web(http::Ask),
    Guest(relay::Ask),
    Hangup,
}

impl Loop {
    /// All of it, listening.
    async fn begin(
        mut settings: Settings,
        backend: Box<dyn Backend>,
        opening: Vec<Note>,
    ) -> std::io::Result<Self> {
        let listening = match settings.place.socket() {
            Some(path) => Some(Listening::at(path).await?),
            None => None,
        };
        let Config { limits, door, grants, budget, .. } = settings.loaded.config.clone();
        let policy = Policy { hidden: settings.hidden, grants };
        let exposed = Arc::new(settings.loaded.config.exposed.clone());
        let mut web = Web::new();
        web.open(&settings.loaded.config, (&settings.place, settings.dial.take())).await?;
        let name = settings.node.name.as_str().into();
        let own = member(&settings.node);
        let keeps = Arc::new(AtomicBool::new(false));
        let socket = settings.place.socket().map(Path::to_owned);
        let dumps = settings.loaded.config.dumps.clone();
        let hand = settings.hand.clone();
        let service = Service { socket, keeps: Arc::clone(&keeps), dumps, hand };
        let (monitors, guests) = relay::pair()?;
        let ways = Ways { service, monitors };
        let (outgoing, letters) = unbounded_channel();
        let (sender, arrivals) = channel(ARRIVALS);
        Ok(Self {
            cluster: Cluster::alone(Engine::new(name, own_files(limits)), settings.node.clone()),
            link: settings.link.take(),
            clients: Clients::new(door, policy, own.node.0, sender),
            hand: Hand::start(own, (settings.loaded.config.backend, ways), outgoing)?,
            guests,
            keeps,
            letters,
            members: Vec::new(),
            sampler: Sampler::start((settings.node.number, backend), opening)?,
            files: Files::default(),
            account: Account::new(budget),
            heart: Heart::new(Duration::from_nanos(budget.window.0)),
            examining: Vec::new(),
            web,
            exposed,
            listening,
            arrivals,
            timer: Timer::new()?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            told: Vec::new(),
            settings,
        })
    }

    /// Ends the threads and the conversations.
    async fn end(mut self) {
        self.files.stop();
        self.hand.stop();
        self.web.close().await;
        self.clients.finish().await;
        self.sampler.stop();
    }

    async fn run(&mut self) {
        loop {
            let input = match self.woken().await {
                Woken::Input(input) => input,
                Woken::Letter(letter) => self.receive(letter),
                Woken::Done(done) => self.done(done),
                Woken::Beat(ask) => self.ask(ask),
                Woken::Web(ask) => {
                    self.hear(ask);
                    None
                }
                Woken::Guest(ask) => {
                    self.relay(ask);
                    None
                }
                Woken::Hangup => self.reload(),
            };
            let Some(input) = input else { continue };
            let over = matches!(input, Input::Shutdown);
            self.input(input);
            if over {
                return;
            }
        }
    }

    async fn woken(&mut self) -> Woken {
        let due = self.cluster.due();
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Woken::Input(Some(Input::Shutdown)),
            _ = self.interrupt.recv() => Woken::Input(Some(Input::Shutdown)),
            _ = self.hangup.recv() => Woken::Hangup,
            Some(done) = self.sampler.done.recv() => Woken::Done(done),
            looked = self.files.next() => Woken::Input(Some(looked)),
            () = self.timer.until(due) => Woken::Input(Some(Input::Tick)),
            ask = self.heart.beat() => Woken::Beat(ask),
            Some((to, letter)) = self.letters.recv() => {
                self.write(to, letter);
                Woken::Input(None)
            }
            letter = arrived(self.link.as_mut()) => Woken::Letter(letter),
            ask = self.web.asked() => Woken::Web(ask),
            ask = self.guests.asked() => Woken::Guest(ask),
            () = self.hand.room(), if !self.hand.has_room() => Woken::Input(None),
            Some(arrival) = self.arrivals.recv(), if self.hand.has_room() => {
                Woken::Input(self.arrived(arrival))
            }
            Ok(stream) = connected(self.listening.as_ref()) => {
                Woken::Input(self.clients.open(stream))
            }
        }
    }
}

impl Loop {
    /// A call goes to the engine of monitors, a request to the thread that acts.
    fn arrived(&mut self, arrival: Arrival) -> Option<Input> {
        let mut input = None;
        for said in self.clients.arrived(arrival) {
            match said {
                Said::Input(it) => input = Some(it),
                Said::Closed(conn) => self.hand.closed(conn),
                Said::Request(conn, line, first) => {
                    self.meet();
                    if let Some((tool, outbox)) = first {
                        self.hand.opened(tool, outbox);
                    }
                    if !self.hand.said(conn, line) {
                        self.clients.unheard(conn);
                    }
                }
            }
        }
        input
    }
}

/// Waits for somebody who connects; for ever, where there is no socket.
async fn connected(listening: Option<&Listening>) -> std::io::Result<UnixStream> {
    match listening {
        Some(listening) => listening.listener.accept().await.map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}

/// Waits for a message of another node; for ever, where there is no link.
async fn arrived(link: Option<&mut Box<dyn Link>>) -> Letter {
    let letter = match link {
        Some(link) => link.arrivals().recv().await,
        None => None,
    };
    match letter {
        Some(letter) => letter,
        None => std::future::pending().await,
    }
}
