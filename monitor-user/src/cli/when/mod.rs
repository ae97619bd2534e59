//! `monitor when EVENT ACTIONS`: event-action rules on the command line.
//!
//! In: an event, actions and processes. Out: a line per event, and a table at the end. Counting,
//! timing and signals run in the kernel, at the event. A command is watched from its first
//! instruction.

pub mod args;
mod command;
mod end;
pub mod event;
mod explain;
mod node_times;
mod nodes;
mod show;
mod total;
mod watch;
mod watched_processes;

use super::exit::{Exit, Failure};
use super::log;
use args::WhenArgs;
use event::{Actions, WhenEvent};
use monitor_backend as backend;
use monitor_platform::tap;
use monitor_symbols as probe;

/// Parses event and actions, then watches. Ends with the code of the command, if all was watched.
pub fn when(args: &WhenArgs) -> Result<u8, Failure> {
    log::start(0);
    let event = WhenEvent::from_text(&args.event)?;
    let actions = Actions::from_text(&args.actions)?;
    if let Some(nodes) = &args.nodes {
        let exit = nodes::when_nodes(args, (&event, actions), (nodes, args.within))?;
        return Ok(exit as u8);
    }
    actions.check(&event)?;
    watch::watch(args, &event, &actions)
}

impl From<probe::SymbolError> for Failure {
    fn from(error: probe::SymbolError) -> Self {
        use probe::SymbolError::{BadSpec, File, Gone, NotFound, NotLoaded};
        let exit = match &error {
            Gone { .. } => Exit::NoTarget,
            NotFound { .. } | NotLoaded { .. } => Exit::NothingWatched,
            BadSpec { .. } => Exit::Usage,
            File { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                Exit::Denied
            }
            _ => Exit::Failed,
        };
        Self { message: error.to_string(), exit }
    }
}

impl From<tap::TapError> for Failure {
    fn from(refusal: tap::TapError) -> Self {
        match refusal {
            tap::TapError::Symbol(error) => error.into(),
            tap::TapError::Kernel(error) => backend::Error::into(error),
        }
    }
}
