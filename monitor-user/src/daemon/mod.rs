//! L8, the service: one loop that answers, one thread that reads.
//!
//! The loop owns the engine and every connection, and never waits for anything but its inputs.
//! It ends on SIGTERM and SIGINT: clients are told, what is attached is detached, the socket is
//! taken away. On SIGHUP it reads its configuration again.

mod account;
mod clients;
pub mod config;
mod heart;
pub mod reload;
pub mod sampler;

use crate::backend::{Backend, host};
use crate::engine::{About, Answer, Conn, Engine, Input, Output};
use crate::meter::budget;
use crate::meter::need;
use crate::model::id::Ns;
use crate::model::sample::Note;
use crate::model::scope::Scope;
use crate::model::status::Refusal;
use crate::model::want::Capability;
use crate::serve::line::Arrival;
use crate::serve::policy::{Hidden, Policy};
use crate::serve::socket::Listening;
use crate::sys::clock;
use crate::wire::call::Tag;
use crate::wire::status::Own;
use account::Account;
use clients::Clients;
use config::{Config, Loaded};
use heart::{Ask, Heart};
use reload::Reload;
use sampler::{Done, Job, Sampler, Work};
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
    /// Its configuration.
    pub loaded: Loaded,
    /// What `/proc` keeps from users.
    pub hidden: Hidden,
    /// Reads the configuration again.
    pub reload: Reload,
    /// Lets the log say as much as its argument names.
    pub log: Box<dyn Fn(&str)>,
}

/// Serves until it is told to end.
pub async fn serve(
    settings: Settings,
    backend: Box<dyn Backend>,
    opening: Vec<Note>,
) -> std::io::Result<()> {
    let listening = Listening::at(&settings.socket).await?;
    let Config { limits, door, grants, budget, .. } = settings.loaded.config.clone();
    let policy = Policy { hidden: settings.hidden, grants };
    let (sender, arrivals) = channel(ARRIVALS);
    let mut it = Loop {
        engine: Engine::new(host::name(), limits),
        clients: Clients::new(door, policy, sender),
        sampler: Sampler::start(backend, opening)?,
        account: Account::new(budget),
        heart: Heart::new(Duration::from_nanos(budget.window.0)),
        examining: Vec::new(),
        listening,
        arrivals,
        terminate: signal(SignalKind::terminate())?,
        interrupt: signal(SignalKind::interrupt())?,
        hangup: signal(SignalKind::hangup())?,
        settings,
    };
    tracing::info!(socket = %it.settings.socket.display(), "serving");
    heart::ready(&it.status_line());
    it.run().await;
    heart::stopping();
    it.clients.finish().await;
    it.sampler.stop();
    Ok(())
}

struct Loop {
    settings: Settings,
    engine: Engine,
    clients: Clients,
    sampler: Sampler,
    account: Account,
    heart: Heart,
    /// Who waits for the reader to say how each capability is served.
    examining: Vec<(Conn, Tag)>,
    listening: Listening,
    arrivals: Receiver<Arrival>,
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

/// What can wake the loop.
enum Woken {
    Input(Option<Input>),
    Done(Done),
    Beat(Ask),
    Hangup,
}

impl Loop {
    async fn run(&mut self) {
        loop {
            let due = self.engine.due().map(instant);
            let woken = tokio::select! {
                biased;
                _ = self.terminate.recv() => Woken::Input(Some(Input::Shutdown)),
                _ = self.interrupt.recv() => Woken::Input(Some(Input::Shutdown)),
                _ = self.hangup.recv() => Woken::Hangup,
                Some(done) = self.sampler.done.recv() => Woken::Done(done),
                () = until(due) => Woken::Input(Some(Input::Tick)),
                ask = self.heart.beat() => Woken::Beat(ask),
                Some(arrival) = self.arrivals.recv() => {
                    Woken::Input(self.clients.arrived(arrival))
                }
                Ok((stream, _)) = self.listening.listener.accept() => {
                    Woken::Input(self.clients.open(stream))
                }
            };
            let input = match woken {
                Woken::Input(input) => input,
                Woken::Done(done) => self.done(done),
                Woken::Beat(ask) => self.ask(ask),
                Woken::Hangup => self.reload(),
            };
            let Some(input) = input else { continue };
            let over = matches!(input, Input::Shutdown);
            let outputs = self.engine.input(clock::boot(), input);
            self.deliver(outputs);
            if over {
                return;
            }
        }
    }

    fn deliver(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Reply { to, tag, answer } => {
                    if let Ok(Answer::Sample { event, .. }) = &answer {
                        self.account.gave(Ns(event.late_ns));
                    }
                    self.clients.reply(to, &tag, answer);
                }
                Output::Event { to, event } => {
                    if event.sample.is_some() {
                        self.account.gave(Ns(event.late_ns));
                    }
                    self.clients.event(to, event);
                }
                Output::Look(looks) => self.look(looks),
                Output::Asked { to, tag, about: About::Service } => {
                    self.clients.reply(to, &tag, Ok(self.own()));
                }
                Output::Asked { to, tag, about: About::Probes } => self.examine(to, tag),
            }
        }
    }

    fn look(&mut self, looks: Vec<crate::engine::Look>) {
        let (shed, capabilities) = (self.account.shed(), self.needed());
        self.account.read();
        self.send(Job::Look(Work { looks, capabilities, shed }));
    }

    /// One question at a time; who asks meanwhile gets the same answer.
    fn examine(&mut self, to: Conn, tag: Tag) {
        if self.examining.is_empty() {
            self.send(Job::Examine);
        }
        self.examining.push((to, tag));
    }

    fn ask(&mut self, ask: Ask) -> Option<Input> {
        if let Ask::Account { counted } = ask {
            self.send(Job::Account { capabilities: self.needed(), counted });
        }
        None
    }

    fn send(&self, job: Job) {
        // The thread lives as long as this does.
        let _ = self.sampler.work.send(job);
    }

    fn done(&mut self, done: Done) -> Option<Input> {
        match done {
            Done::Looked(looks) => return Some(Input::Seen(looks)),
            Done::Examined(found) => {
                for (to, tag) in std::mem::take(&mut self.examining) {
                    self.clients.reply(to, &tag, Ok::<_, Refusal>(&found));
                }
            }
            Done::Accounted(probes) => {
                self.heart.answered();
                let change = self.account.take(probes, &self.asked());
                if let Some(change) = change {
                    self.changed(change);
                }
            }
        }
        None
    }

    fn changed(&self, change: budget::Change) {
        let budget = self.account.own().budget;
        let (share, used) = (budget.share, budget.used.unwrap_or_default());
        match change {
            budget::Change::Shed(it) => {
                tracing::warn!(share, used, "over the budget: {} is given up", it.name());
            }
            budget::Change::Resume(it) => {
                tracing::info!(share, used, "within the budget: {} is back", it.name());
            }
            budget::Change::Bare => {
                tracing::warn!(share, used, "over the budget, and nothing is left to give up");
            }
        }
        heart::say(&self.status_line());
    }

    /// What must be attached: what is asked for and not given up.
    fn needed(&self) -> Vec<Capability> {
        let shed = self.account.shed();
        let mut all = self.asked();
        all.retain(|it| !shed.iter().any(|(shed, _)| shed == it));
        all
    }

    /// What is asked for: what costs nothing always, the rest by somebody.
    fn asked(&self) -> Vec<Capability> {
        let mut all = need::capabilities(Scope::Processes, &[], &[]);
        all.extend(self.engine.plans().flatten());
        all.sort_unstable();
        all.dedup();
        all
    }

    fn reload(&mut self) -> Option<Input> {
        heart::reloading();
        match (self.settings.reload)() {
            Ok(loaded) => self.take(loaded),
            Err(wrong) => {
                wrong.lines().for_each(|line| tracing::error!("{line}"));
                tracing::error!("the configuration stays as it was");
            }
        }
        heart::ready(&self.status_line());
        None
    }

    fn take(&mut self, loaded: Loaded) {
        let reload::Change { config, waits } =
            reload::change(&self.settings.loaded.config, loaded.config);
        waits.iter().for_each(|line| tracing::warn!("{line}"));
        let policy = Policy { hidden: self.settings.hidden, grants: config.grants.clone() };
        self.engine.limit(config.limits);
        self.clients.rule(config.door, policy);
        self.account.limit(config.budget);
        (self.settings.log)(config.log);
        self.settings.loaded = Loaded { config, ..loaded };
        tracing::info!("the configuration was read again");
    }

    /// The service's own numbers.
    fn own(&self) -> Own {
        let refused = self.engine.refused().iter().chain(self.clients.refused());
        let config = self.settings.loaded.path.as_ref();
        Own {
            node: host::name().to_string(),
            config: config.map(|path| path.display().to_string()),
            connections: self.clients.len() as u64,
            monitors: self.engine.len() as u64,
            queue_bytes: self.clients.queued() as u64,
            dropped: self.clients.dropped(),
            refused: refused.map(|(kind, n)| ((*kind).to_owned(), *n)).collect(),
            ..self.account.own()
        }
    }

    /// One line for `systemctl status`.
    fn status_line(&self) -> String {
        let shed = self.account.own().budget.shed;
        let socket = self.settings.socket.display();
        match shed.is_empty() {
            true => format!("serving on {socket}"),
            false => format!("serving on {socket}; given up: {}", shed.join(", ")),
        }
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
