//! Prints the events of a series until it ends or is interrupted.
//!
//! If the connection to the daemon is lost, it waits for the daemon and notes the gap.

use super::client::{DISCONNECTED, reconnected};
use super::event_writer::EventWriter;
use super::exit::{Exit, Failure};
use super::output::{Output, OutputState, Screen, notice};
use super::run_loop::EndSignals;
use monitor_client::{Series, SeriesItem};
use monitor_protocol::event::{EndReason, Event};

/// Prints a series to an output.
pub struct SeriesPrinter {
    series: Series,
    writer: EventWriter,
    output: Output,
    signals: EndSignals,
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
        let signals = EndSignals::install()?;
        // After the signal handlers: a signal before them would leave the terminal changed.
        if draw_mode == DrawMode::Redraw {
            output = Output::Screen(Screen::open()?);
        }
        Ok(Self { series, writer, output, signals })
    }

    /// Prints until the series ends, or `max` events.
    pub async fn run(&mut self, max: Option<usize>) -> Result<Exit, Failure> {
        let mut left = max;
        while left != Some(0) {
            let event = tokio::select! {
                biased;
                end = self.signals.recv() => return Ok(end.exit()),
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
                Some(SeriesItem::Reconnected(after)) => self.writer.note(reconnected(after)),
            }
        }
        Ok(self.writer.exit())
    }

    fn print(&mut self, event: &Event) -> Result<OutputState, Failure> {
        let frame = self.writer.write(event, self.output.room())?;
        if frame.is_empty() { Ok(OutputState::Open) } else { self.output.put(frame) }
    }

    fn report_away(&mut self) -> Result<(), Failure> {
        match &mut self.output {
            Output::Screen(_) => drop(self.output.put(format!("{DISCONNECTED}\n").as_bytes())?),
            _ => notice(DISCONNECTED),
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
