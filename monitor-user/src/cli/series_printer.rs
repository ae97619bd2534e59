//! Prints the events of a series until it ends or is interrupted.
//!
//! If the connection to the daemon is lost, it waits for the daemon and notes the gap.

use super::event_writer::EventWriter;
use super::exit::{Exit, Failure};
use super::output::{Output, OutputState, Screen, notice};
use monitor_client::{Series, SeriesItem};
use monitor_format::human;
use monitor_protocol::event::{EndReason, Event};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Prints a series to an output.
pub struct SeriesPrinter {
    series: Series,
    writer: EventWriter,
    output: Output,
    interrupt: Signal,
    terminate: Signal,
}

/// How one frame follows the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawMode {
    /// Each frame is drawn over the one before, on a terminal.
    Redraw,
    /// Frames are appended to a stream.
    Append,
}

impl SeriesPrinter {
    /// Installs the signal handlers, then opens the screen for `DrawMode::Redraw`.
    pub fn new(
        series: Series,
        writer: EventWriter,
        mut output: Output,
        draw_mode: DrawMode,
    ) -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Failure::failed(format!("cannot install signal handlers: {error}"))
            })
        };
        let (interrupt, terminate) =
            (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        // After the signal handlers: a signal before them would leave the terminal changed.
        if draw_mode == DrawMode::Redraw {
            output = Output::Screen(Screen::open()?);
        }
        Ok(Self { series, writer, output, interrupt, terminate })
    }

    /// Prints until the series ends, or `max` events.
    pub async fn run(&mut self, max: Option<usize>) -> Result<Exit, Failure> {
        let mut left = max;
        while left != Some(0) {
            let event = tokio::select! {
                biased;
                _ = self.interrupt.recv() => return Ok(Exit::Interrupted),
                _ = self.terminate.recv() => return Ok(Exit::Ok),
                event = self.series.next() => event?,
            };
            match event {
                None => break,
                Some(SeriesItem::Event(event)) => {
                    left = left.map(|left| left - 1);
                    if self.print(&event)? == OutputState::Closed {
                        return Ok(Exit::Ok);
                    }
                    if let Some(reason) = event.ended {
                        return self.finish(reason, event.message.as_deref());
                    }
                }
                Some(SeriesItem::Disconnected) => self.report_away()?,
                Some(SeriesItem::Reconnected(after)) => {
                    let mut text = String::from("connection to the daemon was lost for ");
                    human::duration(after.as_nanos() as f64, &mut text);
                    self.writer.note(text + ": no samples of that time");
                }
            }
        }
        Ok(self.writer.exit())
    }

    fn print(&mut self, event: &Event) -> Result<OutputState, Failure> {
        let frame = self.writer.write(event, self.output.room())?;
        if frame.is_empty() { Ok(OutputState::Open) } else { self.output.put(frame) }
    }

    fn report_away(&mut self) -> Result<(), Failure> {
        const TEXT: &str = "connection to the daemon lost; waiting for it";
        match &mut self.output {
            Output::Screen(_) => drop(self.output.put(format!("{TEXT}\n").as_bytes())?),
            _ => notice(TEXT),
        }
        Ok(())
    }

    fn finish(&self, reason: EndReason, message: Option<&str>) -> Result<Exit, Failure> {
        let name = self.series.id();
        match reason {
            EndReason::Count => {}
            EndReason::TargetsGone => notice("all named processes have exited"),
            EndReason::Cancelled => notice(&format!("the monitor {name:?} was cancelled")),
            EndReason::Replaced => {
                notice(&format!("the monitor {name:?} was replaced by another of that name"));
            }
            EndReason::LeaseExpired => {
                notice(&format!("the lease of the monitor {name:?} expired"));
            }
            EndReason::Shutdown | EndReason::Failed => {
                let why = message.unwrap_or("the daemon could not read any longer");
                return Err(Failure::failed(why));
            }
        }
        Ok(self.writer.exit())
    }
}
