//! A job that a PMIx server has started for this process, from its start to its end.
//!
//! In: events of the server, signals of the user. Out: how the job ended, when all of its output
//! has come; a job that the user ends is ended by the server.

use super::hold_report::report_hold;
use crate::cli::client::runtime;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::notice;
use monitor_control::output_log::OutputLog;
use monitor_control::terminal_input::pass_input;
use monitor_format::human;
use monitor_jobs::hold_table::HoldPoint;
use monitor_pmix::attribute::ProcName;
use monitor_pmix::status::{IOF_COMPLETE, NOT_SUPPORTED};
use monitor_pmix::{InputSender, MOST_INPUT, Tool, ToolEvent};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// Signals that end the job.
const ENDING: [SignalKind; 3] =
    [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
/// How long the server may take to end a job while output waits for a reader: then output is
/// dropped, because it comes before the answers of the server.
const ENDS_WITHIN: Duration = Duration::from_secs(2);
/// How long a job may take to end when the user ends it a second time.
const LEFT_WITHIN: Duration = Duration::from_secs(1);
/// How long nothing may come from the server until the output of a job that has ended is taken for
/// complete, if the server does not say so.
const OUTPUT_FOLLOWS: Duration = Duration::from_secs(5);
/// How long the end of a job that has not begun may take to come.
const FAILS_WITHIN: Duration = Duration::from_secs(1);
/// The exit code of a program whose reader has gone: 128 plus SIGPIPE.
const NOT_READ: u8 = 141;
/// The exit code when the user has ended the job.
const INTERRUPTED: u8 = Exit::Interrupted as u8;

/// What happens.
#[derive(Debug)]
pub enum LaunchEvent {
    /// At the server.
    Tool(ToolEvent),
    /// The user ends the job.
    Interrupted,
    /// All output is printed, or it is read no longer, if the job has not ended.
    Printed,
}

/// A job.
pub struct PmixJob<'a> {
    /// The connection to its server.
    pub tool: &'a Tool,
    /// Its namespace.
    pub id: &'a str,
    /// What happens.
    pub events: &'a Receiver<LaunchEvent>,
    /// Its output.
    pub log: &'a OutputLog,
    /// Whether the output is printed, as long as it is read.
    pub is_printed: bool,
    /// Where its ranks are held, if they are.
    pub place: Option<HoldPoint>,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobEnd {
    /// The exit code of the command.
    pub code: u8,
    /// That of the job, if the server has said it.
    pub of_job: Option<u8>,
    /// Whether the user does not wait any longer.
    pub is_left: bool,
}

impl PmixJob<'_> {
    /// Waits for the end of the job, and until its output has come.
    pub fn wait(&mut self) -> JobEnd {
        let mut forced: Option<(u8, Instant)> = None;
        loop {
            let received = match forced {
                Some(_) => self.events.recv_timeout(ENDS_WITHIN),
                None => self.events.recv().map_err(RecvTimeoutError::from),
            };
            let event = match received {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => {
                    if forced.is_some_and(|(_, since)| since.elapsed() >= ENDS_WITHIN) {
                        self.discard_what_waits();
                    }
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return lost(),
            };
            match event {
                LaunchEvent::Tool(ToolEvent::Ended(nspace, code)) if nspace == self.id => {
                    let code = u8::try_from(code.unwrap_or(0)).unwrap_or(1);
                    let is_left = self.wait_for_output();
                    let (returned, of_job) = (forced.map_or(code, |(code, _)| code), Some(code));
                    return JobEnd { code: returned, of_job, is_left };
                }
                LaunchEvent::Tool(ToolEvent::Waiting(nspace)) if nspace == self.id => {
                    report_hold(self.id, self.place);
                }
                LaunchEvent::Tool(ToolEvent::Lost) => return lost(),
                LaunchEvent::Tool(ToolEvent::KillRefused(status)) => {
                    self.notice(&format!("the PMIx server does not end it: status {status}"));
                }
                LaunchEvent::Interrupted if forced.is_some() => return self.leave(),
                LaunchEvent::Interrupted => {
                    forced = Some((INTERRUPTED, Instant::now()));
                    self.kill();
                }
                LaunchEvent::Printed => {
                    self.is_printed = false;
                    if forced.is_none() {
                        forced = Some((NOT_READ, Instant::now()));
                        self.kill();
                    }
                }
                LaunchEvent::Tool(
                    ToolEvent::Ended(..) | ToolEvent::Waiting(_) | ToolEvent::Answered,
                ) => {}
            }
        }
    }

    /// Waits for what the server has sent before it answers. Returns whether the user waits no
    /// longer.
    fn wait_for_output(&mut self) -> bool {
        if self.tool.ask_for_answer().is_err() {
            return false;
        }
        let mut seen = (self.log.added(), Instant::now());
        loop {
            match self.events.recv_timeout(OUTPUT_FOLLOWS) {
                Ok(LaunchEvent::Interrupted) => return true,
                Ok(LaunchEvent::Tool(ToolEvent::Answered | ToolEvent::Lost)) => return false,
                Ok(LaunchEvent::Printed) => self.is_printed = false,
                Ok(LaunchEvent::Tool(_)) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => {
                    let added = self.log.added();
                    if added.1 > 0 || added != seen.0 {
                        seen = (added, Instant::now());
                    }
                }
            }
            if seen.1.elapsed() >= OUTPUT_FOLLOWS {
                self.notice("the PMIx server does not say whether all output has come");
                return false;
            }
        }
    }

    /// Leaves a job that the user ends a second time; what waits for a reader no longer keeps the
    /// server from ending it.
    fn leave(&self) -> JobEnd {
        self.log.discard_new();
        let until = Instant::now() + LEFT_WITHIN;
        let next = || self.events.recv_timeout(until.saturating_duration_since(Instant::now()));
        while let Ok(event) = next() {
            let is_end = match event {
                LaunchEvent::Tool(ToolEvent::Ended(nspace, _)) => nspace == self.id,
                LaunchEvent::Tool(ToolEvent::Lost) | LaunchEvent::Interrupted => true,
                LaunchEvent::Tool(_) | LaunchEvent::Printed => false,
            };
            if is_end {
                break;
            }
        }
        JobEnd { code: INTERRUPTED, of_job: None, is_left: true }
    }

    fn kill(&self) {
        if let Err(error) = self.tool.kill(self.id) {
            self.notice(&error.to_string());
        }
    }

    /// Drops what ranks write from now on, if it waits for a reader: so do the answers of the
    /// server.
    fn discard_what_waits(&self) {
        if self.log.added().1 > 0 {
            self.log.discard_new();
        }
    }

    fn notice(&self, text: &str) {
        notice(&format!("job {}: {text}", human::escaped_text(self.id)));
    }
}

fn lost() -> JobEnd {
    notice("host lost: the connection to the PMIx server has ended, and so may the job");
    JobEnd { code: 1, of_job: None, is_left: false }
}

/// Whether a job that the server has refused to start, and named, has begun and ended: then the
/// event of its end is sent again.
pub fn has_ended_at_once(
    (sender, events): (&Sender<LaunchEvent>, &Receiver<LaunchEvent>),
    id: &str,
) -> bool {
    let until = Instant::now() + FAILS_WITHIN;
    while let Ok(event) = events.recv_timeout(until.saturating_duration_since(Instant::now())) {
        match event {
            LaunchEvent::Tool(ToolEvent::Ended(nspace, Some(code))) if nspace == id => {
                if code < 0 {
                    return false;
                }
                // The receiver is there.
                let again = LaunchEvent::Tool(ToolEvent::Ended(nspace, Some(code)));
                return sender.send(again).is_ok();
            }
            LaunchEvent::Tool(ToolEvent::Lost) => return false,
            _ => {}
        }
    }
    false
}

/// Sends an event at a signal that ends the job.
///
/// # Errors
/// If signals cannot be handled.
pub fn interrupted_by_signals(events: Sender<LaunchEvent>) -> Result<(), Failure> {
    let runtime = runtime()?;
    let failed = |error| Failure::failed(format!("job launch: cannot handle signals: {error}"));
    let entered = runtime.enter();
    let [mut interrupt, mut terminate, mut hangup] = {
        let all: Result<Vec<_>, _> = ENDING.into_iter().map(signal).collect();
        let all: Result<[_; 3], _> = all.map_err(failed)?.try_into();
        all.map_err(|_| Failure::failed("job launch: cannot handle signals"))?
    };
    drop(entered);
    let _ends_with_the_process = std::thread::spawn(move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
                if events.send(LaunchEvent::Interrupted).is_err() {
                    return;
                }
            }
        });
    });
    Ok(())
}

/// Sends the standard input of this process to rank 0, or only its end, on a thread.
pub fn send_input(input: InputSender, job: &str, has_input: bool) {
    let first = ProcName { nspace: job.to_owned(), rank: 0 };
    let send = move |bytes: &[u8]| match input.send(&first, bytes) {
        Ok(()) => true,
        Err(status) => {
            // It does not read any longer, or has ended, otherwise.
            if status == NOT_SUPPORTED {
                notice("the PMIx server does not take input: rank 0 gets none");
            }
            tracing::debug!(status, is_end = status == IOF_COMPLETE, "input");
            false
        }
    };
    let _ends_with_the_process = std::thread::spawn(move || {
        if has_input {
            pass_input(io::stdin(), MOST_INPUT, send);
        } else {
            send(&[]);
        }
    });
}
