//! L8, the service: one loop that answers, one thread that reads.
//!
//! The loop owns the engine and every connection, and never waits for anything but its inputs.
//! It ends on SIGTERM and SIGINT: clients are told, what is attached is detached, the socket is
//! taken away.

mod clients;
mod dead;
pub mod sampler;

use crate::backend::{Backend, host};
use crate::engine::{Engine, Input, Limits, Look, Output};
use crate::meter::need;
use crate::model::id::Ns;
use crate::model::sample::Note;
use crate::model::scope::Scope;
use crate::model::want::Capability;
use crate::serve::line::Arrival;
use crate::serve::policy::Hidden;
use crate::serve::socket::Listening;
use crate::sys::clock;
use clients::Clients;
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
}

/// Serves until it is told to end.
pub async fn serve(
    settings: Settings,
    backend: Box<dyn Backend>,
    opening: Vec<Note>,
) -> std::io::Result<()> {
    let listening = Listening::at(&settings.socket).await?;
    let node = host::name();
    let (sender, arrivals) = channel(ARRIVALS);
    let mut it = Loop {
        engine: Engine::new(node, settings.limits),
        clients: Clients::new(&settings, sender),
        sampler: Sampler::start(backend, opening)?,
        listening,
        arrivals,
        terminate: signal(SignalKind::terminate())?,
        interrupt: signal(SignalKind::interrupt())?,
        needed: Vec::new(),
    };
    tracing::info!(socket = %settings.socket.display(), "serving");
    it.run().await;
    it.clients.finish().await;
    it.sampler.stop();
    Ok(())
}

struct Loop {
    engine: Engine,
    clients: Clients,
    sampler: Sampler,
    listening: Listening,
    arrivals: Receiver<Arrival>,
    terminate: Signal,
    interrupt: Signal,
    /// What the thread that reads was last told to attach.
    needed: Vec<Capability>,
}

impl Loop {
    async fn run(&mut self) {
        loop {
            let due = self.engine.due().map(instant);
            let input = tokio::select! {
                biased;
                _ = self.terminate.recv() => Some(Input::Shutdown),
                _ = self.interrupt.recv() => Some(Input::Shutdown),
                Some(input) = self.sampler.done.recv() => Some(input),
                () = until(due) => Some(Input::Tick),
                Some(arrival) = self.arrivals.recv() => self.clients.arrived(arrival),
                Ok((stream, _)) = self.listening.listener.accept() => self.clients.open(stream),
            };
            let Some(input) = input else { continue };
            let over = matches!(input, Input::Shutdown);
            let outputs = self.engine.input(clock::boot(), input);
            self.deliver(outputs);
            self.release();
            if over {
                return;
            }
        }
    }

    fn deliver(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Reply { to, tag, answer } => self.clients.reply(to, &tag, answer),
                Output::Event { to, event } => self.clients.event(to, event),
                Output::Look(looks) => {
                    self.needed = self.capabilities();
                    self.work(looks);
                }
            }
        }
    }

    /// Tells the thread when somebody was the last to need something.
    fn release(&mut self) {
        let needed = self.capabilities();
        if needed != self.needed {
            self.needed = needed;
            self.work(Vec::new());
        }
    }

    fn work(&self, looks: Vec<Look>) {
        let capabilities = self.needed.clone();
        // The thread lives as long as this does.
        let _ = self.sampler.work.send(Work { looks, capabilities });
    }

    /// What must be attached: what costs nothing always, the rest for those who asked.
    fn capabilities(&self) -> Vec<Capability> {
        let mut all = need::capabilities(Scope::Processes, &[], &[]);
        all.extend(self.engine.capabilities());
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
