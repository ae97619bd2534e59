//! The backend of a host where no other works.
//!
//! In: any read specification. Out: an error with the reason, instead of empty samples.

use monitor_backend::{Backend, Error};
use monitor_model::{BackendKind, Capability, Health, Probe, Process, ReadSpec, Sample};

/// A backend whose readings all fail, with the reason.
#[derive(Clone, Debug)]
pub struct Unsupported {
    why: String,
    fix: String,
}

impl Unsupported {
    /// A backend with what is missing, and what would make it work.
    pub fn new(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { why: why.into(), fix: fix.into() }
    }
}

impl Backend for Unsupported {
    fn kind(&self) -> BackendKind {
        BackendKind::Unsupported
    }

    fn probes(&mut self) -> Vec<Probe> {
        let health = Health::Unsupported { why: self.why.clone(), fix: self.fix.clone() };
        let probe = |&it| Probe { health: health.clone(), ..Probe::off(it) };
        Capability::ALL.iter().map(probe).collect()
    }

    fn read(&mut self, _: &ReadSpec) -> Result<Sample, Error> {
        Err(Error::unsupported("reading statistics", self.why.clone(), self.fix.clone()))
    }

    fn describe(&mut self, _: &mut [Process], _: &ReadSpec) {}
}
