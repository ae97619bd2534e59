//! `monitor ask`: sends OMIS requests and prints replies, and events until a limit is reached.
//!
//! In: requests, as arguments or lines of standard input. Out: reply lines; syntax errors are also
//! shown on standard error, with a caret. The worst reply decides the exit code. A request is sent
//! when the one before has its reply.

mod exit_status;
mod input;
pub mod local;
pub mod remote;
mod session;

use super::daemon_args::AskArgs;
use super::exit::{Exit, Failure};
use monitor_backends::select::BackendChoice;
use session::AskSession;
use std::sync::mpsc::channel;
use std::time::Duration;

/// An input of the session.
pub enum Incoming {
    /// A request to send.
    Request(Vec<u8>),
    /// No request follows.
    EndOfInput,
    /// A reply line.
    Reply(String),
    /// The daemon closed the connection.
    Disconnected,
}

/// A connection to a request engine. Replies arrive as `Incoming::Reply`.
pub trait Transport: Send {
    /// Sends a request.
    fn send(&mut self, line: &[u8]) -> Result<(), Failure>;

    /// Polls for events, where they do not arrive by themselves. Returns when to poll again.
    fn poll(&mut self) -> Option<Duration> {
        None
    }
}

/// Sends the requests and prints the replies.
pub fn ask(args: &AskArgs) -> Result<Exit, Failure> {
    let (sender, incoming) = channel();
    let transport: Box<dyn Transport> = match is_local(args) {
        true => Box::new(local::LocalTransport::new(args.reader.backend, sender.clone())),
        false => Box::new(remote::connect(args.reader.socket.as_deref(), sender.clone())?),
    };
    input::read(args, sender)?;
    AskSession::new(args, transport, incoming).run()
}

fn is_local(args: &AskArgs) -> bool {
    args.reader.local
        || args.reader.backend != BackendChoice::Auto
        || std::env::var_os("MONITOR_BACKEND").is_some()
}
