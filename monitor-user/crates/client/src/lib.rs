//! L7, the other end of a door: what a program asks of the daemon of its node.
//!
//! [`Client`] is asynchronous and runs on tokio; [`blocking::Client`] does the same for a program
//! without an event loop. Any number of calls may be in flight on one connection.
//! [`tool::Tool`] speaks the request language. Knows the words of the socket, not how they are
//! answered.
//!
//! ```no_run
#![doc = include_str!("../../../../docs/examples/client.rs")]
//! ```

pub mod blocking;
mod connection;
mod error;
mod hearers;
mod queue;
mod series;
pub mod tool;

pub use error::Error;
pub use monitor_model::request::{NodeName, Rank, Request, Target};
pub use monitor_model::status::{Refusal, Status};
pub use monitor_protocol::answer::{
    Accounting, Command, Handed, Hello, Leased, Left, Listed, Totals,
};
pub use monitor_protocol::event::{Alert, Event, Reason};
pub use monitor_protocol::params::{Cancel, FileWatch, Flight, Heartbeat};
pub use monitor_protocol::status::Own;
pub use monitor_sampling::examination::Examination;
pub use series::{Series, Told};

use connection::Connection;
use monitor_protocol::answer::{Cancelled, PROTOCOL};
use monitor_protocol::call::Call;
use monitor_protocol::params::{Named, Sum};
use monitor_sys::place;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// How long a daemon has to say who it is.
const GREETING: Duration = Duration::from_secs(2);
/// How long a daemon that went away is waited for, unless something else is said.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection to the daemon, made anew when that was restarted; copies share it.
#[derive(Clone)]
pub struct Client {
    link: Arc<Link>,
    patience: Duration,
}

struct Link {
    paths: Vec<PathBuf>,
    connection: Mutex<(Connection, Hello)>,
}

/// What was read once.
#[derive(Debug)]
pub struct Sampled {
    /// The sample, and what belongs to it.
    pub event: Event,
    /// Whether something that was asked for is missing; its notes say what.
    pub partial: bool,
}

impl Client {
    /// Connects to the daemon that `MONITOR_SOCKET` names, else to that of the system, else to
    /// the user's own.
    pub async fn connect() -> Result<Self, Error> {
        Self::open(place::candidates(place::named().as_deref())).await
    }

    /// Connects to the daemon at this path.
    pub async fn connect_to(path: &Path) -> Result<Self, Error> {
        Self::open(vec![path.to_owned()]).await
    }

    async fn open(paths: Vec<PathBuf>) -> Result<Self, Error> {
        let connection = Mutex::new(reach(&paths).await?);
        Ok(Self { link: Arc::new(Link { paths, connection }), patience: PATIENCE })
    }

    /// The same, with a series waiting so long for a daemon that went away.
    pub const fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Who answers, and as whom he knows the caller.
    pub async fn hello(&self) -> Hello {
        self.link.connection.lock().await.1.clone()
    }

    /// Reads once.
    pub async fn sample(&self, request: &Request) -> Result<Sampled, Error> {
        if request.every_ns.is_some() {
            return Err(Refusal::bad("every_ns: a series is asked for with start").into());
        }
        sampled(&self.call(&Call::Monitor(Box::new(request.clone()))).await?)
    }

    /// Reads again and again. The first sample is there when this returns. Dropping the series
    /// cancels it, unless it runs on a lease.
    pub async fn start(&self, request: &Request) -> Result<Series, Error> {
        Series::start(self.clone(), request).await
    }

    /// Takes over a monitor that runs on a lease, with what was kept.
    pub async fn attach(&self, id: &str) -> Result<Series, Error> {
        Series::attach(self.clone(), id).await
    }

    /// Lets a lease begin anew.
    pub async fn renew(&self, id: &str) -> Result<Leased, Error> {
        self.ask(&Call::Renew(Named { id: id.into() })).await
    }

    /// Cancels; nothing more comes of what it names.
    pub async fn cancel(&self, which: &Cancel) -> Result<Vec<String>, Error> {
        let answer: Cancelled = self.ask(&Call::Cancel(which.clone())).await?;
        Ok(answer.cancelled)
    }

    /// The monitors of this user; root's client has all.
    pub async fn list(&self) -> Result<Vec<Listed>, Error> {
        self.ask(&Call::List).await
    }

    /// From now on, what this process starts is counted, with all its descendants.
    pub async fn account(&self) -> Result<Accounting, Error> {
        self.ask(&Call::Account).await
    }

    /// What a child of this process and all its descendants used. If the child has ended and was
    /// waited for, the final records are waited for too.
    pub async fn sum(&self, pid: u32) -> Result<Totals, Error> {
        self.ask(&Call::Sum(Sum { pid })).await
    }

    /// Watches that a process beats; each event of the series is an alert. Dropping the series
    /// ends it.
    pub async fn heartbeat(&self, params: &Heartbeat) -> Result<Series, Error> {
        Series::alarm(self.clone(), Call::Heartbeat(params.clone())).await
    }

    /// This process lives: all who watch it know.
    pub async fn beat(&self) -> Result<(), Error> {
        self.call(&Call::Beat).await.map(drop)
    }

    /// Watches that a file changes; each event of the series is an alert.
    pub async fn file(&self, params: &FileWatch) -> Result<Series, Error> {
        Series::alarm(self.clone(), Call::File(params.clone())).await
    }

    /// How each capability is served there.
    pub async fn probes(&self) -> Result<Examination, Error> {
        self.ask(&Call::Probes).await
    }

    /// A part of what the flight recorder kept: first what was asked for, then what each answer
    /// says is next.
    pub async fn flight(&self, params: Flight) -> Result<Handed, Error> {
        self.ask(&Call::Flight(params)).await
    }

    /// What the daemon itself uses, holds and refused.
    pub async fn status(&self) -> Result<Own, Error> {
        self.ask(&Call::Status).await
    }

    async fn ask<T: DeserializeOwned>(&self, call: &Call) -> Result<T, Error> {
        serde_json::from_str(&self.call(call).await?).map_err(Error::garbled)
    }

    async fn call(&self, call: &Call) -> Result<String, Error> {
        self.connection().await?.call(call).await
    }

    /// The connection; a new one, if the daemon has closed it.
    async fn connection(&self) -> Result<Connection, Error> {
        let mut held = self.link.connection.lock().await;
        if held.0.closed() {
            *held = reach(&self.link.paths).await?;
        }
        Ok(held.0.clone())
    }

    fn absent(&self) -> Error {
        let source = io::Error::new(io::ErrorKind::TimedOut, "it went away and did not come back");
        Error::Absent { tried: self.link.paths.clone(), source }
    }
}

/// The first of these where a daemon answers.
async fn reach(paths: &[PathBuf]) -> Result<(Connection, Hello), Error> {
    let mut source = io::Error::from(io::ErrorKind::NotFound);
    for path in paths {
        match Connection::open(path).await {
            Ok(connection) => match timeout(GREETING, connection.call(&Call::Hello)).await {
                Ok(hello) => return Ok((connection, greeted(&hello?)?)),
                Err(_) => source = io::Error::new(io::ErrorKind::TimedOut, "it does not answer"),
            },
            Err(error) => source = error,
        }
    }
    Err(Error::Absent { tried: paths.to_vec(), source })
}

fn greeted(text: &str) -> Result<Hello, Error> {
    let hello: Hello = serde_json::from_str(text).map_err(Error::garbled)?;
    if hello.protocol != PROTOCOL {
        return Err(Error::garbled(format!("protocol {}, not {PROTOCOL}", hello.protocol)));
    }
    Ok(hello)
}

/// An answer to `monitor`: an event, and whether it is whole.
fn sampled(text: &str) -> Result<Sampled, Error> {
    #[derive(Deserialize)]
    struct Whole {
        status: String,
    }
    // Twice, because the text of a sample can only be kept where nothing is flattened.
    let whole: Whole = serde_json::from_str(text).map_err(Error::garbled)?;
    let event = serde_json::from_str(text).map_err(Error::garbled)?;
    Ok(Sampled { event, partial: whole.status == Status::PartialSuccess.name() })
}
