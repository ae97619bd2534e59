//! `monitor watch`: readings at a steady pace until somebody has enough.
//!
//! One thread waits for whatever comes first: the next tick, records that wait in a ring buffer,
//! a signal. A reading is never interrupted, so that a frame is whole or is not.

use super::args::{Reading, Watch, probe_log};
use super::client::{found, runtime};
use super::columns::Pace;
use super::exit::{Exit, Failure};
use super::follow::{Drawn, Follow};
use super::log;
use super::output::{self, Output, Reader, Screen};
use super::pen::Pen;
use super::pipeline::Pipeline;
use super::plan::Plan;
use crate::client::{Client, Error, Request, Status};
use crate::format::Form;
use crate::meter::schedule::Schedule;
use crate::model::id::Ns;
use crate::model::sample::Note;
use crate::sys::readable;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

/// Rows that a screen is given beyond its lines: it may grow.
const MORE_ROWS: usize = 256;

/// Reads until it is stopped or has done its count.
pub fn watch(words: &Watch) -> Result<Exit, Failure> {
    let plan = Plan::resolve(&words.reading, Pace::Again)?;
    let probe_log = probe_log(&words.probe_log);
    log::start(probe_log);
    let runtime = runtime()?;
    let output = words.reading.output.clone().map_or(Output::Stream, Output::Later);
    let client = match probe_log {
        0 => runtime.block_on(found(&words.reader))?,
        _ => None,
    };
    if let Some(client) = client {
        return runtime.block_on(relayed(words, &plan, output, &client));
    }
    let choice = words.reader.backend;
    let pipeline = Pipeline::open(plan, choice, probe_log, output::paint(&output))?;
    runtime.block_on(async {
        let mut it = Loop::new(pipeline, output, schedule(words))?;
        // Only once signals are heeded: they would leave the terminal as it is drawn on.
        if matches!(it.output, Output::Stream) && draws(&words.reading) {
            it.output = Output::Screen(Screen::open()?);
        }
        it.run().await
    })
}

/// The same, read by the daemon.
async fn relayed(
    words: &Watch,
    plan: &Plan,
    output: Output,
    client: &Client,
) -> Result<Exit, Failure> {
    let drawn = if draws(&words.reading) { Drawn::Over } else { Drawn::After };
    let rows = output::lines().filter(|_| drawn == Drawn::Over).map(|lines| lines + MORE_ROWS);
    let most = rows.filter(|_| words.reading.part.processes());
    let request = Request {
        every_ns: Some(Ns::from(words.every).0),
        count: words.count,
        // As without a daemon: it goes on when all that were named have ended.
        follow: true,
        top: plan.request.top.or(most.and_then(|most| u32::try_from(most).ok())),
        ..plan.request.clone()
    };
    let series = client.start(&request).await.map_err(|error| {
        let limit = matches!(&error, Error::Refused(it) if it.status == Status::OutOfResource);
        let mut failure = Failure::from(error);
        failure.message += if limit { "; --local reads without the daemon" } else { "" };
        failure
    })?;
    let pen = Pen::samples(plan, output::paint(&output));
    Follow::new(series, pen, output, drawn)?.run(None).await
}

fn schedule(words: &Watch) -> Schedule {
    Schedule::new(Ns(0), Ns::from(words.every), words.count)
}

/// Whether frames are drawn over each other.
pub fn draws(words: &Reading) -> bool {
    words.form() == Form::Table && words.output.is_none() && output::on_terminal()
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

struct Loop {
    pipeline: Pipeline,
    output: Output,
    schedule: Schedule,
    start: Instant,
    wake: Option<AsyncFd<OwnedFd>>,
    interrupt: Signal,
    terminate: Signal,
}

impl Loop {
    fn new(pipeline: Pipeline, output: Output, schedule: Schedule) -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| cannot("listen to signals", &error));
        let wake = pipeline.wake()?.map(readable::readable).transpose();
        Ok(Self {
            wake: wake.map_err(|error| cannot("wait for the ring buffer", &error))?,
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            start: Instant::now(),
            pipeline,
            output,
            schedule,
        })
    }

    async fn run(mut self) -> Result<Exit, Failure> {
        while let Some(due) = self.schedule.due() {
            match self.next(due).await {
                Input::Interrupt => return Ok(Exit::Interrupted),
                Input::Terminate => return Ok(Exit::Ok),
                Input::Records => self.pipeline.drain(),
                Input::Tick => {
                    if self.tick()? == Reader::Gone {
                        return Ok(Exit::Ok);
                    }
                }
            }
        }
        Ok(self.pipeline.exit())
    }

    /// Signals go first, so that a reading that takes longer than the interval can be stopped.
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

    fn tick(&mut self) -> Result<Reader, Failure> {
        let frame = self.pipeline.turn(self.output.room())?;
        let reader = self.output.put(frame)?;
        let now = Ns::from(self.start.elapsed());
        match self.schedule.taken(now) {
            0 => {}
            missed => self.pipeline.note(Note::remark(format!(
                "{missed} readings left out: the one before took longer than the interval"
            ))),
        }
        Ok(reader)
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
