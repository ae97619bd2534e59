//! `monitor ask`: requests go in, replies come out, events for as long as they are waited for.
//!
//! In: words, or lines of the standard input. Out: reply lines; for people, what is wrong with a
//! line is drawn on the standard error too. The worst reply decides the exit code. A line is said
//! when the one before has its reply.

mod input;
pub mod local;
pub mod remote;
mod talk;
mod verdict;

use super::exit::{Exit, Failure};
use super::words::Ask;
use monitor_backends::select::Choice;
use std::sync::mpsc::channel;
use std::time::Duration;
use talk::Talk;

/// Something that came in.
pub enum Came {
    /// A line to say.
    Said(Vec<u8>),
    /// There are no more of them.
    NoMore,
    /// A line of the monitor.
    Heard(String),
    /// It is gone.
    Gone,
}

/// The way to a monitor. What it answers comes in as `Came::Heard`.
pub trait Way: Send {
    /// Says a line.
    fn say(&mut self, line: &[u8]) -> Result<(), Failure>;

    /// Looks for what happened, where that does not come by itself; gives how soon to look again.
    fn look(&mut self) -> Option<Duration> {
        None
    }
}

/// Asks.
pub fn ask(words: &Ask) -> Result<Exit, Failure> {
    let (sender, came) = channel();
    let way: Box<dyn Way> = match is_local(words) {
        true => Box::new(local::Local::new(words.reader.backend, sender.clone())),
        false => Box::new(remote::connect(words.reader.socket.as_deref(), sender.clone())?),
    };
    input::read(words, sender)?;
    Talk::new(words, way, came).run()
}

fn is_local(words: &Ask) -> bool {
    words.reader.local
        || words.reader.backend != Choice::Auto
        || std::env::var_os("MONITOR_BACKEND").is_some()
}
