//! Where claims of ranks are filed, between the loop and the thread that reads.
//!
//! In: claims, from the loop. Out, to the loop: what became of each, and which ranks are here.
//! Decides nothing.

use crate::engine::Key;
use crate::meter::census::{Census, Claim};
use crate::model::request::Rank;
use crate::model::status::Refusal;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A claim, and its name.
pub type Filed = (Key, Claim);

/// What is told of ranks.
pub enum Told {
    /// What became of a claim.
    Settled(Key, Result<(), Refusal>),
    /// The ranks that are here now.
    Here(Vec<Rank>),
}

/// The loop's ends.
pub struct Ends {
    /// Claims go in here. The engine bounds how many wait.
    pub claims: UnboundedSender<Filed>,
    /// What is told comes out here.
    pub told: UnboundedReceiver<Told>,
}

/// The thread's ends.
pub struct Desk {
    /// Claims that wait.
    pub claims: UnboundedReceiver<Filed>,
    told: UnboundedSender<Told>,
}

/// Both.
pub fn pair() -> (Ends, Desk) {
    let (claim, claims) = unbounded_channel();
    let (tell, told) = unbounded_channel();
    (Ends { claims: claim, told }, Desk { claims, told: tell })
}

impl Desk {
    /// This one and all that wait behind it.
    pub fn all(&mut self, first: Filed) -> Vec<Filed> {
        let mut all = vec![first];
        while let Ok(next) = self.claims.try_recv() {
            all.push(next);
        }
        all
    }

    /// Tells the loop.
    pub fn tell(&self, told: Told) {
        // The loop is gone only if the service ends.
        let _ = self.told.send(told);
    }

    /// Tells the loop which ranks are here, if that has changed.
    pub fn announce(&self, census: &mut Census) {
        if let Some(ranks) = census.news() {
            self.tell(Told::Here(ranks));
        }
    }
}
