//! A series, printed until it ends or somebody has enough.
//!
//! A daemon that goes away is waited for, and both are said; of the time between nothing is
//! known.

use super::exit::{Exit, Failure};
use super::output::{Output, Reader, Screen, say};
use super::pen::Pen;
use monitor_client::{Series, Told};
use monitor_format::human;
use monitor_protocol::event::{Event, Reason};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Prints a series.
pub struct Follow {
    series: Series,
    pen: Pen,
    output: Output,
    interrupt: Signal,
    terminate: Signal,
}

/// Whether frames are drawn over each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// On a screen.
    Over,
    /// In a stream.
    After,
}

impl Follow {
    /// Of a series, to an output.
    pub fn new(
        series: Series,
        pen: Pen,
        mut output: Output,
        drawn: Drawn,
    ) -> Result<Self, Failure> {
        let listen = |kind| {
            let failed = |error| Failure::failed(format!("cannot listen to signals: {error}"));
            signal(kind).map_err(failed)
        };
        let (interrupt, terminate) =
            (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        // Only once signals are heeded: they would leave the terminal as it is drawn on.
        if drawn == Drawn::Over {
            output = Output::Screen(Screen::open()?);
        }
        Ok(Self { series, pen, output, interrupt, terminate })
    }

    /// Prints until the end; no more than so many events, if that is said.
    pub async fn run(&mut self, most: Option<usize>) -> Result<Exit, Failure> {
        let mut left = most;
        while left != Some(0) {
            let told = tokio::select! {
                biased;
                _ = self.interrupt.recv() => return Ok(Exit::Interrupted),
                _ = self.terminate.recv() => return Ok(Exit::Ok),
                told = self.series.next() => told?,
            };
            match told {
                None => break,
                Some(Told::Event(event)) => {
                    left = left.map(|left| left - 1);
                    if self.print(&event)? == Reader::Gone {
                        return Ok(Exit::Ok);
                    }
                    if let Some(reason) = event.ended {
                        return self.ended(reason, event.message.as_deref());
                    }
                }
                Some(Told::Away) => self.away()?,
                Some(Told::Back(after)) => {
                    let mut text = String::from("the daemon was away for ");
                    human::span(after.as_nanos() as f64, &mut text);
                    self.pen.note(text + ": of that time nothing is known");
                }
            }
        }
        Ok(self.pen.exit())
    }

    fn print(&mut self, event: &Event) -> Result<Reader, Failure> {
        let frame = self.pen.write(event, self.output.room())?;
        if frame.is_empty() { Ok(Reader::There) } else { self.output.put(frame) }
    }

    fn away(&mut self) -> Result<(), Failure> {
        const TEXT: &str = "the daemon went away; waiting for it to come back";
        match &mut self.output {
            Output::Screen(_) => drop(self.output.put(format!("{TEXT}\n").as_bytes())?),
            _ => say(TEXT),
        }
        Ok(())
    }

    fn ended(&self, reason: Reason, message: Option<&str>) -> Result<Exit, Failure> {
        let name = self.series.id();
        match reason {
            Reason::Count => {}
            Reason::TargetsGone => say("all processes that were named have ended"),
            Reason::Cancelled => say(&format!("the monitor {name:?} was cancelled")),
            Reason::Replaced => say(&format!("another monitor {name:?} has taken its place")),
            Reason::LeaseExpired => say(&format!("the lease of {name:?} ran out")),
            Reason::Shutdown | Reason::Failed => {
                let why = message.unwrap_or("the daemon could not read any more");
                return Err(Failure::failed(why));
            }
        }
        Ok(self.pen.exit())
    }
}
