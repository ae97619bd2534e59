//! Finding the daemon, and what its refusals are as exit codes.
//!
//! A command that can read by itself asks the daemon only if one answers; one that was named must
//! answer.

use super::args::Reader;
use super::exit::{Exit, Failure};
use super::output::say;
use monitor_backends::select::Choice;
use monitor_client::{Client, Error};
use monitor_model::status::{Refusal, Status};
use monitor_sys::place;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// How long a daemon that went away is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// An event loop on this thread.
pub fn runtime() -> Result<Runtime, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::failed(format!("cannot start the event loop: {error}")))
}

/// The daemon, which must answer.
pub async fn connect(named: Option<&Path>) -> Result<Client, Failure> {
    let client = match named {
        Some(path) => Client::connect_to(path).await,
        None => Client::connect().await,
    };
    Ok(client?.with_patience(PATIENCE))
}

/// The daemon, for a command that can do without.
pub async fn found(reader: &Reader) -> Result<Option<Client>, Failure> {
    let forced = std::env::var_os("MONITOR_BACKEND").is_some();
    if reader.local || reader.backend != Choice::Auto || forced {
        // What the environment names is for the commands that ask.
        let named = reader.socket.is_some() && reader.socket != place::named();
        return match named {
            true if reader.local => Err(contradicted("--local")),
            true if !forced => Err(contradicted("--backend")),
            _ => Ok(None),
        };
    }
    if reader.socket.is_some() {
        return connect(reader.socket.as_deref()).await.map(Some);
    }
    match Client::connect().await {
        Ok(client) => Ok(Some(client.with_patience(PATIENCE))),
        Err(Error::Absent { source, .. })
            if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
        {
            Ok(None)
        }
        Err(error) => {
            say(&format!("{error}; reading without it"));
            Ok(None)
        }
    }
}

/// Reading here, and whom to ask.
fn contradicted(here: &str) -> Failure {
    Failure::usage(format!("{here} reads here, --socket asks a daemon: choose one"))
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = match &error {
            Error::Refused(refusal) => return refusal.clone().into(),
            Error::Absent { .. } => {
                format!("{error}; start one with monitor serve, or name it with --socket")
            }
            Error::Lost | Error::Garbled { .. } => error.to_string(),
        };
        Self { message, exit: Exit::NoDaemon }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let exit = match refusal.status {
            Status::BadParam => Exit::Usage,
            Status::NotFound => Exit::NoTarget,
            Status::NoPermissions => Exit::Denied,
            Status::Timeout => Exit::TimedOut,
            Status::Unreach | Status::NotAvailable => Exit::NoDaemon,
            _ => Exit::Failed,
        };
        Self { message: as_option(refusal.message), exit }
    }
}

/// A time that a call has in nanoseconds has an option of the same name here.
fn as_option(message: String) -> String {
    match message.split_once("_ns: ") {
        Some((name @ ("every" | "lease" | "keep"), why)) => format!("--{name}: {why}"),
        _ => message,
    }
}
