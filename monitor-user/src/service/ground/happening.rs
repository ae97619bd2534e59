//! What happens on a node by itself.

use super::Ticket;
use super::act::Each;
use crate::model::id::{Identity, Ns};
use crate::service::desk::{Occurrence, Topic};
use crate::service::outcome::Refusal;
use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    /// An event of the language, which rules may wait for.
    Occurred(Occurrence),
    /// A process came to be; told while births are looked out for.
    Born {
        /// Who.
        child: Identity,
        /// Who made it.
        parent: Option<Identity>,
    },
    /// A process ended; told while ends are looked out for.
    Ended(Identity),
    /// An act that was begun has ended.
    Acted(Ticket, Each),
    /// What is looked out for failed, or ended too late; it goes on unless it was an errand.
    Failed(Topic, Refusal),
    /// So many occurrences were lost since they were asked for last.
    Lost(u64),
}

/// Who tells what happens.
pub trait Happenings {
    /// Whether these can be looked out for here; the reason, if not.
    fn can(&mut self, topic: &Topic) -> Result<(), Refusal>;

    /// From now on these are looked out for, and no others.
    fn watch(&mut self, topics: &BTreeSet<Topic>);

    /// From now on these processes matter to somebody who waits for calls.
    fn follow(&mut self, _: &BTreeSet<Identity>) {}

    /// Becomes readable when something has happened that should be told at once.
    fn wake(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// When it must be asked what happened, if nothing wakes before; never, if absent.
    fn due(&self) -> Option<Ns>;

    /// What happened since it was asked last, in order.
    fn happened(&mut self, now: Ns) -> Vec<Happening>;
}
