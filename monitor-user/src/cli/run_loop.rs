//! Runs a periodic task until it is done or interrupted.
//!
//! One thread waits for the first of: the next tick, records in a ring buffer, a signal. A tick is
//! never interrupted, so a frame is written whole or not at all.

use super::exit::{Exit, Failure};
use super::output::OutputState;
use monitor_model::id::Ns;
use monitor_model::sample::Note;
use monitor_sys::readable;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

/// A task that runs at intervals. Times count from the start of the loop.
pub trait PeriodicTask {
    /// When the next tick is due; `None` ends the loop.
    fn next_due(&self) -> Option<Ns>;

    /// Runs once.
    fn tick(&mut self) -> Result<OutputState, Failure>;

    /// Called after each tick with the current time.
    fn ticked(&mut self, _: Ns) {}

    /// A duplicated descriptor that becomes readable when records are queued.
    fn wake(&self) -> std::io::Result<Option<OwnedFd>> {
        Ok(None)
    }

    /// Fetches the queued records.
    fn drain(&mut self) {}

    /// Called once when the loop ends. Returns the exit code.
    fn finish(&mut self, ended: LoopEnd) -> Result<Exit, Failure>;
}

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopEnd {
    /// No tick is left.
    Done,
    /// The reader closed the output, or there is no room for more.
    Gone,
    /// The user interrupted it.
    Interrupted,
    /// SIGTERM was received.
    Terminated,
}

impl LoopEnd {
    /// The exit code of a command that has nothing else to report.
    pub fn exit(self) -> Exit {
        if self == Self::Interrupted { Exit::Interrupted } else { Exit::Ok }
    }
}

/// The note about `missed` readings; `None` for 0.
pub fn skipped_note(missed: u64) -> Option<Note> {
    let text = format!("{missed} readings skipped: the previous one took longer than the interval");
    (missed > 0).then(|| Note::remark(text))
}

/// Runs a task to its end. It is created after the signal handlers are installed.
pub async fn run<W: PeriodicTask>(
    begin: impl FnOnce() -> Result<W, Failure>,
) -> Result<Exit, Failure> {
    let signals = EndSignals::install()?;
    let task = begin()?;
    let wake = task.wake().and_then(|fd| fd.map(readable::readable).transpose());
    let wake = wake.map_err(|error| cannot("wait for the ring buffer", &error))?;
    let mut run_loop = RunLoop { task, start: Instant::now(), wake, signals };
    let ended = run_loop.run().await?;
    run_loop.task.finish(ended)
}

fn cannot(what: &str, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot {what}: {error}"))
}

/// The signals that end a command: SIGINT and SIGTERM.
pub struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl EndSignals {
    /// Installs the handlers. Needs a running event loop.
    pub fn install() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| cannot("install signal handlers", &error));
        let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
        Ok(Self { interrupt: listen(interrupt)?, terminate: listen(terminate)? })
    }

    /// Waits for the first of them. Cancel-safe.
    pub async fn recv(&mut self) -> LoopEnd {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => LoopEnd::Interrupted,
            _ = self.terminate.recv() => LoopEnd::Terminated,
        }
    }
}

struct RunLoop<W> {
    task: W,
    start: Instant,
    wake: Option<AsyncFd<OwnedFd>>,
    signals: EndSignals,
}

impl<W: PeriodicTask> RunLoop<W> {
    async fn run(&mut self) -> Result<LoopEnd, Failure> {
        while let Some(due) = self.task.next_due() {
            let at = self.start.checked_add(Duration::from_nanos(due.0));
            // Signals go first, so that a loop whose ticks exceed the interval can be stopped.
            tokio::select! {
                biased;
                end = self.signals.recv() => return Ok(end),
                () = records(self.wake.as_ref()) => self.task.drain(),
                () = tick(at) => {
                    let reader = self.task.tick()?;
                    let now = self.start.elapsed().as_nanos();
                    self.task.ticked(Ns(u64::try_from(now).unwrap_or(u64::MAX)));
                    if reader == OutputState::Closed {
                        return Ok(LoopEnd::Gone);
                    }
                }
            }
        }
        Ok(LoopEnd::Done)
    }
}

/// Waits for records. Never returns without a ring buffer.
async fn records(wake: Option<&AsyncFd<OwnedFd>>) {
    let Some(wake) = wake else { return std::future::pending().await };
    let ready: std::io::Result<AsyncFdReadyGuard<'_, OwnedFd>> = wake.readable().await;
    if let Ok(mut ready) = ready {
        ready.clear_ready();
    }
}

/// Waits until a time. Never returns without one, such as a time that exceeds the clock.
pub async fn tick(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
