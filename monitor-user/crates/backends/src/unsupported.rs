//! The backend of a host where no other works.
//!
//! In: anything. Out: the same clear error, so that a tool learns why instead of seeing nothing.

use monitor_backend::{Backend, Error};
use monitor_model::probe::{Health, Probe};
use monitor_model::sample::{Process, Sample, Source};
use monitor_model::want::{Capability, Want};

/// The backend, and why there is no better one.
#[derive(Clone, Debug)]
pub struct Unsupported {
    why: String,
    fix: String,
}

impl Unsupported {
    /// What is missing, and what would make it work.
    pub fn new(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { why: why.into(), fix: fix.into() }
    }
}

impl Backend for Unsupported {
    fn source(&self) -> Source {
        Source::Unsupported
    }

    fn probes(&mut self) -> Vec<Probe> {
        let health = Health::Unsupported { why: self.why.clone(), fix: self.fix.clone() };
        let probe = |&it| Probe { health: health.clone(), ..Probe::off(it) };
        Capability::ALL.iter().map(probe).collect()
    }

    fn read(&mut self, _: &Want) -> Result<Sample, Error> {
        Err(Error::Unsupported {
            what: "reading statistics".to_owned(),
            why: self.why.clone(),
            fix: self.fix.clone(),
        })
    }

    fn describe(&mut self, _: &mut [Process], _: &Want) {}
}
