//! Whatever looks at a reading: what must be read for it, and its look.

use super::account::Account;
use super::scrape::Scrape;
use super::view::{Reading, Seen, View};
use super::whole::Whole;
use monitor_backend::Backend;
use monitor_model::id::{Identity, Pid};
use monitor_model::sample::Process;
use monitor_model::status::Refusal;
use monitor_model::want::Want;
use monitor_model::whose::Whose;
use monitor_sys::pidfd::Held;

/// What looks at a reading.
pub enum Eye {
    /// For a monitor.
    View(Box<View>),
    /// For what the children of somebody use.
    Account(Box<Account>),
    /// For whoever collects metrics.
    Scrape(Box<Scrape>),
    /// For whoever wants all of it.
    Whole(Box<Whole>),
}

impl Eye {
    /// What must be read for it.
    pub fn want(&self) -> &Want {
        match self {
            Self::View(view) => view.want(),
            Self::Account(account) => account.want(),
            Self::Scrape(scrape) => scrape.want(),
            Self::Whole(whole) => whole.want(),
        }
    }

    /// Looks at a reading.
    pub fn see(
        &mut self,
        reading: &Reading<'_>,
        backend: &mut dyn Backend,
    ) -> Result<Seen, Refusal> {
        match self {
            Self::View(view) => view.see(reading, backend),
            Self::Account(account) => account.see(reading),
            Self::Scrape(scrape) => scrape.see(reading, backend),
            Self::Whole(whole) => Ok(whole.see(reading, backend)),
        }
    }

    /// The processes that a reading must have for it, if these are enough.
    pub fn few(&self) -> Option<Vec<Pid>> {
        match self {
            Self::View(view) => view.few(),
            Self::Account(_) | Self::Scrape(_) | Self::Whole(_) => None,
        }
    }

    /// Whose page tables it is about.
    pub fn pss_of(&self) -> Whose {
        match self {
            Self::View(view) => view.pss_of(),
            Self::Scrape(scrape) => scrape.pss_of(),
            Self::Account(_) | Self::Whole(_) => Whose::default(),
        }
    }

    /// Whether nobody of them is missing.
    pub fn finds_all(&self, processes: &[Process]) -> bool {
        match self {
            Self::View(view) => view.finds_all(processes),
            Self::Account(_) | Self::Scrape(_) | Self::Whole(_) => true,
        }
    }

    /// Holds those that it watches and that live.
    pub fn hold(&mut self, hold: &mut dyn FnMut(Identity) -> Option<Held>) {
        if let Self::View(view) = self {
            view.hold(hold);
        }
    }
}
