//! L8, the service: one loop that answers, one thread that reads.
//!
//! The loop owns the engine and every connection, and never waits for anything but its inputs.
//! It ends on SIGTERM and SIGINT: clients are told, what is attached is detached, the socket is
//! taken away.

mod clients;
mod desk;
mod files;
pub mod sampler;

use crate::backend::Backend;
use crate::cluster::link::{Letter, Link};
use crate::cluster::message::Message;
use crate::cluster::scope::Node;
use crate::cluster::{Act, Cluster};
use crate::engine::{Engine, Input, Limits, Output};
use crate::meter::need;
use crate::model::id::Ns;
use crate::model::sample::Note;
use crate::model::scope::Scope;
use crate::model::want::Capability;
use crate::serve::line::Arrival;
use crate::serve::policy::Hidden;
use crate::serve::socket::Listening;
use crate::sys::{clock, rights};
use clients::Clients;
use desk::Told;
use files::Files;
use sampler::{Sampler, Work};
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{Instant, sleep_until};

/// Lines that may wait for the loop before connections are read no further.
const ARRIVALS: usize = 1024;

/// What a service is started with.
pub struct Settings {
    /// Where it listens.
    pub socket: PathBuf,
    /// What users may have at once.
    pub limits: Limits,
    /// Bytes of samples that wait for one connection.
    pub queue_bytes: usize,
    /// Connections of one user.
    pub connections: usize,
    /// What `/proc` keeps from users.
    pub hidden: Hidden,
    /// This node among others; its name and number.
    pub node: Node,
    /// The way to them, if there is one.
    pub link: Option<Box<dyn Link>>,
}

/// Serves until it is told to end.
pub async fn serve(
    settings: Settings,
    backend: Box<dyn Backend>,
    opening: Vec<Note>,
) -> std::io::Result<()> {
    let listening = Listening::at(&settings.socket).await?;
    let alone = (!rights::may_change()).then(rights::own_user);
    let name = settings.node.name.as_str().into();
    let limits = Limits { files_of: alone, ..settings.limits };
    let (sender, arrivals) = channel(ARRIVALS);
    let mut it = Loop {
        cluster: Cluster::alone(Engine::new(name, limits), settings.node.clone()),
        clients: Clients::new(&settings, sender),
        sampler: Sampler::start(backend, opening)?,
        files: Files::default(),
        listening,
        arrivals,
        terminate: signal(SignalKind::terminate())?,
        interrupt: signal(SignalKind::interrupt())?,
        link: settings.link,
    };
    tracing::info!(socket = %settings.socket.display(), "serving");
    it.run().await;
    it.files.stop();
    it.clients.finish().await;
    it.sampler.stop();
    Ok(())
}

struct Loop {
    cluster: Cluster,
    link: Option<Box<dyn Link>>,
    clients: Clients,
    sampler: Sampler,
    files: Files,
    listening: Listening,
    arrivals: Receiver<Arrival>,
    terminate: Signal,
    interrupt: Signal,
}

impl Loop {
    async fn run(&mut self) {
        loop {
            let due = self.cluster.due().map(instant);
            let input = tokio::select! {
                biased;
                _ = self.terminate.recv() => Some(Input::Shutdown),
                _ = self.interrupt.recv() => Some(Input::Shutdown),
                Some(looks) = self.sampler.done.recv() => Some(Input::Seen(looks)),
                Some(told) = self.sampler.ranks.told.recv() => self.told(told),
                looked = self.files.next() => Some(looked),
                () = until(due) => Some(Input::Tick),
                letter = arrived(self.link.as_mut()) => {
                    self.receive(letter);
                    None
                }
                Some(arrival) = self.arrivals.recv() => self.clients.arrived(arrival),
                Ok((stream, _)) = self.listening.listener.accept() => self.clients.open(stream),
            };
            let Some(input) = input else { continue };
            let over = matches!(input, Input::Shutdown);
            self.input(input);
            if over {
                return;
            }
        }
    }

    fn input(&mut self, input: Input) {
        if let (Input::Called { .. }, Some(link)) = (&input, &self.link) {
            self.cluster.meet(link.others());
        }
        let acts = self.cluster.input(clock::boot(), input);
        self.act(acts);
    }

    /// What the thread tells of ranks.
    fn told(&mut self, told: Told) -> Option<Input> {
        match told {
            Told::Settled(key, settled) => Some(Input::Claimed(key, settled)),
            Told::Here(ranks) => {
                let own = self.cluster.inhabit(ranks);
                if let Some(link) = &mut self.link {
                    link.announce(own);
                }
                None
            }
        }
    }

    fn receive(&mut self, (from, message): Letter) {
        let acts = self.cluster.receive(clock::boot(), &from, message);
        self.act(acts);
    }

    fn act(&mut self, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Here(output) => self.deliver(output),
                Act::Send { to, message } => self.send(&to, message),
            }
        }
    }

    fn send(&mut self, to: &str, message: Message) {
        let Some(link) = &mut self.link else { return };
        if let Err(back) = link.send(to, message) {
            let acts = self.cluster.unreachable(clock::boot(), to, &back);
            self.act(acts);
        }
    }

    fn deliver(&mut self, output: Output) {
        match output {
            Output::Reply { to, tag, answer } => self.clients.reply(to, &tag, answer),
            Output::Event { to, event } => self.clients.event(to, event),
            Output::Look(looks) => {
                let capabilities = self.capabilities();
                // The thread lives as long as this does.
                let _ = self.sampler.work.send(Work { looks, capabilities });
            }
            Output::LookAt(at) => self.files.look(at),
            Output::Claim(key, claim) => {
                let _ = self.sampler.ranks.claims.send((key, claim));
            }
        }
    }

    /// What must be attached: what costs nothing always, the rest for those who asked.
    fn capabilities(&self) -> Vec<Capability> {
        let mut all = need::capabilities(Scope::Processes, &[], &[]);
        all.extend(self.cluster.engine().plans().flatten());
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// A time of `CLOCK_BOOTTIME` on the clock of the loop.
fn instant(at: Ns) -> Instant {
    Instant::now() + Duration::from_nanos(at.since(clock::boot()).0)
}

async fn until(due: Option<Instant>) {
    match due {
        Some(at) => sleep_until(at).await,
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
