//! `monitor when EVENT ACTIONS`: rules for people.
//!
//! In: what happens, what to do then, and to which processes. Out: lines as it happens, and a table
//! at the end. What can be done in the kernel is done there, at the event: counting, timing, a
//! signal. A command is watched from its first instruction.

mod action;
mod command;
pub mod event;
mod show;
mod watch;
pub mod words;

use super::exit::{Exit, Failure};
use super::log;
use action::Actions;
use event::Event;
use monitor_backend as backend;
use monitor_platform::tap;
use monitor_symbols as probe;
use words::When;

/// Watches.
pub fn when(words: &When) -> Result<Exit, Failure> {
    log::start(0);
    let event = Event::from_text(&words.event)?;
    let actions = Actions::from_text(&words.actions)?;
    actions.fit(&event)?;
    watch::watch(words, &event, &actions)
}

impl From<probe::Error> for Failure {
    fn from(error: probe::Error) -> Self {
        use probe::Error::{File, Gone, Missing, Unloaded, Unreadable};
        let exit = match &error {
            Gone { .. } => Exit::NoTarget,
            Missing { .. } | Unloaded { .. } | Unreadable { .. } => Exit::Usage,
            File { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                Exit::Denied
            }
            _ => Exit::Failed,
        };
        Self { message: error.to_string(), exit }
    }
}

impl From<tap::Refusal> for Failure {
    fn from(refusal: tap::Refusal) -> Self {
        match refusal {
            tap::Refusal::Place(error) => error.into(),
            tap::Refusal::Kernel(error) => backend::Error::into(error),
        }
    }
}
