//! The connection to the daemon, which is opened again after a restart of the daemon.
//!
//! In: the paths of its socket. Out: a connection to a daemon of this protocol version, and the
//! parser of samples.

use super::{Error, connection::Connection};
use monitor_model::Status;
use monitor_protocol::answer::{Hello, PROTOCOL};
use monitor_protocol::{call::Call, event::Event};
use serde::Deserialize;
use std::{io, path::PathBuf, time::Duration};
use tokio::{sync::Mutex, time::timeout};

/// Timeout of `hello`.
const HELLO_TIMEOUT: Duration = Duration::from_secs(2);

/// The daemon: the paths of its socket, and the connection to it.
pub struct Daemon {
    paths: Vec<PathBuf>,
    connection: Mutex<(Connection, Hello)>,
}

impl Daemon {
    /// Connects to the first path where a daemon answers.
    ///
    /// # Errors
    /// If no path has a daemon that answers, in this version of the protocol.
    pub async fn connect(paths: Vec<PathBuf>) -> Result<Self, Error> {
        let connection = Mutex::new(connect_any(&paths).await?);
        Ok(Self { paths, connection })
    }

    /// The service and the caller's identity.
    pub async fn hello(&self) -> Hello {
        self.connection.lock().await.1.clone()
    }

    /// The connection; a new one if the daemon has closed it.
    ///
    /// # Errors
    /// If no path has a daemon that answers, in this version of the protocol.
    pub async fn connection(&self) -> Result<Connection, Error> {
        let mut held = self.connection.lock().await;
        if held.0.is_closed() {
            *held = connect_any(&self.paths).await?;
        }
        Ok(held.0.clone())
    }

    /// The error when the daemon did not come back.
    pub fn unreachable(&self) -> Error {
        let why = "the daemon has gone away and did not come back";
        let source = io::Error::new(io::ErrorKind::TimedOut, why);
        Error::Unreachable { tried: self.paths.clone(), source }
    }
}

/// A single sample.
#[derive(Debug)]
pub struct SampleReply {
    /// The event with the sample.
    pub event: Event,
    /// Whether requested data is missing; its notes describe it.
    pub partial: bool,
}

/// Connects to the first path where a daemon answers.
async fn connect_any(paths: &[PathBuf]) -> Result<(Connection, Hello), Error> {
    let mut source = io::Error::from(io::ErrorKind::NotFound);
    for path in paths {
        match Connection::open(path).await {
            Ok(connection) => match timeout(HELLO_TIMEOUT, connection.call(&Call::Hello)).await {
                Ok(hello) => return Ok((connection, check_hello(&hello?)?)),
                Err(_) => source = io::Error::new(io::ErrorKind::TimedOut, "no reply to hello"),
            },
            Err(error) => source = error,
        }
    }
    Err(Error::Unreachable { tried: paths.to_vec(), source })
}

fn check_hello(text: &str) -> Result<Hello, Error> {
    let hello: Hello = serde_json::from_str(text).map_err(Error::protocol)?;
    if hello.protocol != PROTOCOL {
        return Err(Error::protocol(format!("protocol {}, not {PROTOCOL}", hello.protocol)));
    }
    Ok(hello)
}

impl SampleReply {
    /// Parses the result of `monitor`: an event, and whether it is partial.
    ///
    /// # Errors
    /// If the text is not such a result.
    pub fn from_result(text: &str) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct StatusOnly {
            status: String,
        }
        // Parsed twice, because a raw sample cannot be combined with flattened fields.
        let reply: StatusOnly = serde_json::from_str(text).map_err(Error::protocol)?;
        let event = serde_json::from_str(text).map_err(Error::protocol)?;
        Ok(Self { event, partial: reply.status == Status::PartialSuccess.name() })
    }
}
