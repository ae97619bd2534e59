//! Work at a pace, until it is done or somebody has enough.
//!
//! One thread waits for whatever comes first: the next turn, records that wait in a ring buffer,
//! a signal. A turn is never interrupted, so that a frame is whole or is not.

use super::exit::{Exit, Failure};
use super::output::Reader;
use monitor_model::id::Ns;
use monitor_model::sample::Note;
use monitor_sys::readable;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

/// What is done turn by turn. Times are from the start on.
pub trait Work {
    /// When the next turn is due; nothing, if there is none.
    fn due(&self) -> Option<Ns>;

    /// Does it.
    fn turn(&mut self) -> Result<Reader, Failure>;

    /// It was done by now.
    fn taken(&mut self, _: Ns) {}

    /// What becomes readable when records wait, as a descriptor of our own.
    fn wake(&self) -> Option<std::io::Result<OwnedFd>> {
        None
    }

    /// Fetches the records that wait.
    fn drain(&mut self) {}

    /// Ends it.
    fn finish(&mut self, ended: Ended) -> Result<Exit, Failure>;
}

/// Why it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All was done.
    Done,
    /// Nobody reads what it writes, or there is no room for more.
    Gone,
    /// The user interrupted it.
    Interrupted,
    /// It was told to end.
    Terminated,
}

/// What is told of turns that came too late to be done, if there were any.
pub fn left_out(missed: u64) -> Option<Note> {
    let text = format!("{missed} readings left out: the one before took longer than the interval");
    (missed > 0).then(|| Note::remark(text))
}

/// Works until the end.
pub async fn run(work: impl Work) -> Result<Exit, Failure> {
    run_with(|| Ok(work)).await
}

/// The same, with work that must not begin before signals are heeded.
pub async fn run_with<W: Work>(
    begin: impl FnOnce() -> Result<W, Failure>,
) -> Result<Exit, Failure> {
    let listen = |kind| signal(kind).map_err(|error| cannot("listen to signals", &error));
    let (interrupt, terminate) =
        (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    let work = begin()?;
    let wake = work.wake().transpose().and_then(|fd| fd.map(readable::readable).transpose());
    let wake = wake.map_err(|error| cannot("wait for the ring buffer", &error))?;
    let mut it = Loop { work, start: Instant::now(), wake, interrupt, terminate };
    let ended = it.run().await?;
    it.work.finish(ended)
}

fn cannot(what: &str, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot {what}: {error}"))
}

/// What came first.
enum Input {
    Tick,
    Records,
    Interrupt,
    Terminate,
}

struct Loop<W> {
    work: W,
    start: Instant,
    wake: Option<AsyncFd<OwnedFd>>,
    interrupt: Signal,
    terminate: Signal,
}

impl<W: Work> Loop<W> {
    async fn run(&mut self) -> Result<Ended, Failure> {
        while let Some(due) = self.work.due() {
            match self.next(due).await {
                Input::Interrupt => return Ok(Ended::Interrupted),
                Input::Terminate => return Ok(Ended::Terminated),
                Input::Records => self.work.drain(),
                Input::Tick => {
                    let reader = self.work.turn()?;
                    let now = self.start.elapsed().as_nanos();
                    self.work.taken(Ns(u64::try_from(now).unwrap_or(u64::MAX)));
                    if reader == Reader::Gone {
                        return Ok(Ended::Gone);
                    }
                }
            }
        }
        Ok(Ended::Done)
    }

    /// Signals go first, so that a turn that takes longer than the interval can be stopped.
    async fn next(&mut self, due: Ns) -> Input {
        let at = self.start.checked_add(Duration::from_nanos(due.0));
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => Input::Interrupt,
            _ = self.terminate.recv() => Input::Terminate,
            () = records(self.wake.as_ref()) => Input::Records,
            () = tick(at) => Input::Tick,
        }
    }
}

/// Waits for records; for ever, where there is no ring buffer.
async fn records(wake: Option<&AsyncFd<OwnedFd>>) {
    let Some(wake) = wake else { return std::future::pending().await };
    let ready: std::io::Result<AsyncFdReadyGuard<'_, OwnedFd>> = wake.readable().await;
    if let Ok(mut ready) = ready {
        ready.clear_ready();
    }
}

/// Waits for a time; for ever, if it is beyond the clock.
async fn tick(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
