//! The flight recorder of the service: looks as often as it was told to, and keeps the last
//! minutes.

use super::config::Keeping;
use monitor_backends::host;
use monitor_model::id::Ns;
use monitor_model::status::{Refusal, Status};
use monitor_protocol::answer::Handed;
use monitor_protocol::params;
use monitor_recording::{Flight, Header, Next};
use monitor_sampling::eye::Eye;
use monitor_sampling::round::{Rounds, Turn};

/// What keeps the last minutes, while it is wanted.
pub struct Recorder {
    keeping: Keeping,
    flight: Flight,
    eye: Eye,
    due: Ns,
}

impl Recorder {
    /// From now on; nothing, if nothing is to be kept.
    pub fn new(keeping: Keeping, backend: &str, now: Ns) -> Option<Self> {
        let header = Header {
            node: host::name().to_string(),
            backend: backend.to_owned(),
            boot_id: host::boot_id(),
            every_ns: keeping.every.0,
            selection: "flight recorder".into(),
            processors: std::thread::available_parallelism()
                .map_or(0, |it| u32::try_from(it.get()).unwrap_or(0)),
            ..Header::default()
        };
        let flight = Flight::new(keeping.keep, header);
        let eye = Eye::Whole(Box::default());
        (keeping.keep > Ns(0)).then_some(Self { keeping, flight, eye, due: now })
    }

    /// How it was told to keep.
    pub const fn keeping(&self) -> Keeping {
        self.keeping
    }

    /// When it looks next.
    pub const fn due(&self) -> Ns {
        self.due
    }

    /// Looks.
    pub fn look(&mut self, rounds: &mut Rounds, now: Ns) {
        self.due = Ns(now.0.saturating_add(self.keeping.every.0));
        rounds.look(&mut [Turn { view: &mut self.eye, seen: None }]);
        let Eye::Whole(whole) = &mut self.eye else { return };
        let Some(sample) = whole.take() else { return };
        if let Err(error) = self.flight.take(&sample) {
            tracing::warn!("the flight recorder missed a sample: {error}");
        }
    }

    /// The part that is asked for.
    pub fn hand(&mut self, asked: params::Flight) -> Handed {
        let Some(block) = asked.block else {
            let (bytes, next) = self.flight.begin(asked.last_ns.map(Ns));
            return Handed::new(&bytes, next.map(goes_on));
        };
        let (bytes, next) = self.flight.part(Next { block, at: asked.at, until: asked.until });
        Handed::new(bytes, next.map(goes_on))
    }
}

fn goes_on(next: Next) -> params::Flight {
    let Next { block, at, until } = next;
    params::Flight { last_ns: None, block: Some(block), at, until }
}

/// What is said where nothing is kept.
pub fn off() -> Refusal {
    let text = "the flight recorder is off: set flight.keep in the configuration of the service";
    Refusal::new(Status::NotSupported, text)
}
