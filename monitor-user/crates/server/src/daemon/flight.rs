//! The flight recorder of the daemon: reads at its configured period, and keeps the last minutes
//! in memory.

use super::config::FlightConfig;
use monitor_backends::host;
use monitor_model::{Ns, Refusal, Status};
use monitor_protocol::{answer::FlightPart, params};
use monitor_recording::{FlightBuffer, FlightCursor, Header};
use monitor_sampling::consumer::Consumer;
use monitor_sampling::shared_read::{ReadJob, SharedReader};

/// A recorder of the last minutes.
pub struct FlightRecorder {
    config: FlightConfig,
    flight: FlightBuffer,
    consumer: Consumer,
    due: Ns,
}

impl FlightRecorder {
    /// A recorder that starts now; `None` if it is off.
    pub fn new(config: FlightConfig, backend: &str, now: Ns) -> Option<Self> {
        let header = Header {
            node: host::name().to_string(),
            backend: backend.to_owned(),
            boot_id: host::boot_id(),
            every_ns: config.every.0,
            selection: "flight recorder".into(),
            processors: std::thread::available_parallelism()
                .map_or(0, |it| u32::try_from(it.get()).unwrap_or(0)),
            ..Header::default()
        };
        let flight = FlightBuffer::new(config.keep, header);
        let consumer = Consumer::FlightRecorder(Box::default());
        (config.keep > Ns(0)).then_some(Self { config, flight, consumer, due: now })
    }

    /// Its configuration.
    pub const fn config(&self) -> FlightConfig {
        self.config
    }

    /// When it reads next.
    pub const fn due(&self) -> Ns {
        self.due
    }

    /// Reads a sample and keeps it.
    pub fn record(&mut self, reader: &mut SharedReader, now: Ns) {
        self.due = Ns(now.0.saturating_add(self.config.every.0));
        reader.read_for_all(&mut [ReadJob::new(&mut self.consumer)]);
        let Consumer::FlightRecorder(flight) = &mut self.consumer else { return };
        let Some(sample) = flight.take_sample() else { return };
        if let Err(error) = self.flight.push(&sample) {
            tracing::warn!("the flight recorder missed a sample: {error}");
        }
    }

    /// The requested part of the recording.
    pub fn export(&mut self, part: params::Flight) -> FlightPart {
        let Some(block) = part.block else {
            let (bytes, next) = self.flight.export(part.last_ns.map(Ns));
            return FlightPart::new(&bytes, next.map(next_part));
        };
        let cursor = FlightCursor { block, at: part.at, until: part.until };
        let (bytes, next) = self.flight.export_part(cursor);
        FlightPart::new(bytes, next.map(next_part))
    }
}

fn next_part(next: FlightCursor) -> params::Flight {
    let FlightCursor { block, at, until } = next;
    params::Flight { last_ns: None, block: Some(block), at, until }
}

/// The refusal when the flight recorder is off.
pub fn off_refusal() -> Refusal {
    let text = "the flight recorder is off: set flight.keep in the configuration of the daemon";
    Refusal::new(Status::NotSupported, text)
}
