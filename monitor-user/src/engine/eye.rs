//! Whatever looks at a reading: what must be read for it, and its look.

use crate::backend::Backend;
use crate::meter::account::Account;
use crate::meter::view::{Reading, Seen, View};
use crate::model::status::Refusal;
use crate::model::want::Want;

/// What looks at a reading.
pub enum Eye {
    /// For a monitor.
    View(Box<View>),
    /// For what the children of somebody use.
    Account(Box<Account>),
}

impl Eye {
    /// What must be read for it.
    pub fn want(&self) -> &Want {
        match self {
            Self::View(view) => view.want(),
            Self::Account(account) => account.want(),
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
        }
    }
}
