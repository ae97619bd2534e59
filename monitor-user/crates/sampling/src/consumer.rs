//! The consumers of a reading: a monitor, an accounting, a scrape, the flight recorder.
//!
//! In: a reading. Out: the output of the consumer. Each consumer says what must be read for it.

use super::view::{Output, Reading, View};
use super::{child_usage::ChildUsage, flight_consumer::FlightConsumer, scrape::MetricsConsumer};
use monitor_backend::Backend;
use monitor_model::{Identity, Pid, Process, ProcessFilter, ReadSpec, Refusal};
use monitor_sys::pidfd::PidFd;

/// A consumer of readings.
pub enum Consumer {
    /// A monitor.
    View(Box<View>),
    /// An accounting of the children of a process.
    ChildUsage(Box<ChildUsage>),
    /// A scrape of metrics.
    Scrape(Box<MetricsConsumer>),
    /// The flight recorder, which takes all fields.
    FlightRecorder(Box<FlightConsumer>),
}

impl Consumer {
    /// What must be read for it.
    pub fn read_spec(&self) -> &ReadSpec {
        match self {
            Self::View(view) => view.read_spec(),
            Self::ChildUsage(usage) => usage.read_spec(),
            Self::Scrape(scrape) => scrape.read_spec(),
            Self::FlightRecorder(flight) => flight.read_spec(),
        }
    }

    /// Consumes a reading.
    ///
    /// # Errors
    /// If the reading has no target of the consumer, or its output cannot be made.
    pub fn consume(
        &mut self,
        reading: &Reading<'_>,
        backend: &mut dyn Backend,
    ) -> Result<Output, Refusal> {
        match self {
            Self::View(view) => view.consume(reading, backend),
            Self::ChildUsage(usage) => usage.consume(reading),
            Self::Scrape(scrape) => scrape.consume(reading, backend),
            Self::FlightRecorder(flight) => Ok(flight.consume(reading, backend)),
        }
    }

    /// The processes that suffice for it; `None` if it needs all.
    pub fn sufficient_pids(&self) -> Option<Vec<Pid>> {
        if let Self::View(view) = self { view.sufficient_pids() } else { None }
    }

    /// The processes whose page tables are read for it.
    pub fn pss_filter(&self) -> ProcessFilter {
        match self {
            Self::View(view) => view.pss_filter(),
            Self::Scrape(scrape) => scrape.pss_filter(),
            Self::ChildUsage(_) | Self::FlightRecorder(_) => ProcessFilter::default(),
        }
    }

    /// Whether all its processes are in the list.
    pub fn finds_all(&self, processes: &[Process]) -> bool {
        if let Self::View(view) = self { view.finds_all(processes) } else { true }
    }

    /// Opens a pidfd for each living target.
    pub fn open_pidfds(&mut self, hold: &mut dyn FnMut(Identity) -> Option<PidFd>) {
        if let Self::View(view) = self {
            view.open_pidfds(hold);
        }
    }
}
