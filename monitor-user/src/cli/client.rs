//! Connects to the daemon, and maps its refusals to exit codes.
//!
//! A command that can read by itself uses the daemon only if one answers. A daemon that was named
//! explicitly must answer.

use super::args::SourceArgs;
use super::exit::{Exit, Failure};
use super::output::notice;
use super::run_loop::skipped_note;
use monitor_backend::BackendChoice;
use monitor_client::{Client, Error, socket_path};
use monitor_format::human;
use monitor_model::rates::Rates;
use monitor_model::sample::Note;
use monitor_model::status::{Refusal, Status};
use monitor_protocol::event::Event;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// How long to wait for a daemon after the connection is lost.
const RECONNECT_FOR: Duration = Duration::from_secs(5);

/// A single-threaded event loop.
pub fn runtime() -> Result<Runtime, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::failed(format!("cannot start the event loop: {error}")))
}

/// Connects to the daemon; fails if it does not answer.
pub async fn connect(named: Option<&Path>) -> Result<Client, Failure> {
    let client = match named {
        Some(path) => Client::connect_to(path).await,
        None => Client::connect().await,
    };
    Ok(client?.with_reconnect_timeout(RECONNECT_FOR))
}

/// Connects to the daemon, and runs an exchange with it to its end.
pub fn with_daemon<T, E: Into<Failure>>(
    named: Option<&Path>,
    exchange: impl AsyncFnOnce(Client) -> Result<T, E>,
) -> Result<T, Failure> {
    runtime()?.block_on(async { exchange(connect(named).await?).await.map_err(Into::into) })
}

/// The message while the daemon is away.
pub const DISCONNECTED: &str = "connection to the daemon lost; waiting for it";

/// The message when the daemon is back after this time.
pub fn reconnected(after: Duration) -> String {
    let after = human::duration_text(after.as_nanos() as f64);
    format!("connection to the daemon was lost for {after}: no samples of that time")
}

/// The rates of an event; `None` if it has no sample.
pub fn rates(event: &Event) -> Result<Option<Rates>, Error> {
    event.rates().map_err(|error| Error::Protocol { why: error.to_string() })
}

/// Notes on readings that were skipped, and on samples that were dropped since the event before.
/// `missed` is the count of that event.
pub fn delivery_notes(event: &Event, missed: &mut u64) -> Vec<Note> {
    let late = event.missed.saturating_sub(std::mem::replace(missed, event.missed));
    let dropped = format!("{} samples dropped: this client read too slowly", event.dropped);
    let dropped = (event.dropped > 0).then(|| Note::missing(dropped));
    skipped_note(late).into_iter().chain(dropped).collect()
}

/// Connects to the daemon for a command that can do without; `None` to read locally.
pub async fn find(reader: &SourceArgs) -> Result<Option<Client>, Failure> {
    let forced = std::env::var_os("MONITOR_BACKEND").is_some();
    if reader.local || reader.backend != BackendChoice::Auto || forced {
        // A socket named by the environment does not contradict --local or --backend.
        let named = reader.socket.is_some() && reader.socket != socket_path::from_env();
        return match named {
            true if reader.local => Err(contradiction("--local")),
            true if !forced => Err(contradiction("--backend")),
            _ => Ok(None),
        };
    }
    if reader.socket.is_some() {
        return connect(reader.socket.as_deref()).await.map(Some);
    }
    match Client::connect().await {
        Ok(client) => Ok(Some(client.with_reconnect_timeout(RECONNECT_FOR))),
        Err(Error::Unreachable { source, .. })
            if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
        {
            Ok(None)
        }
        Err(error) => {
            notice(&format!("{error}; reading without it"));
            Ok(None)
        }
    }
}

/// The failure for `--socket` together with an option that reads locally.
fn contradiction(option: &str) -> Failure {
    Failure::usage(format!("{option} reads without the daemon and --socket with it: choose one"))
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = match &error {
            Error::Refused(refusal) => return refusal.clone().into(),
            Error::Unreachable { .. } => {
                format!("{error}; start it with monitor serve, or name its socket with --socket")
            }
            Error::InvalidRequest { .. } => return Self::usage(error.to_string()),
            Error::NotDone { .. } => return Self::failed(error),
            Error::Lost | Error::Protocol { .. } => error.to_string(),
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

/// Replaces the name of a call's parameter in nanoseconds by that of the option.
fn as_option(message: String) -> String {
    match message.split_once("_ns: ") {
        Some((name @ ("every" | "lease" | "keep"), why)) => format!("--{name}: {why}"),
        _ => message,
    }
}
