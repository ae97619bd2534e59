//! The client for a program without an event loop: each call waits for its answer.
//!
//! Nothing runs between two calls: events wait in the socket, and what finds no room there is
//! dropped and counted by the daemon.

use super::Error;
use super::{Sampled, Told};
use monitor_model::request::Request;
use monitor_protocol::answer::{Accounting, Handed, Hello, Leased};
use monitor_protocol::answer::{Listed, Totals};
use monitor_protocol::params::{Cancel, FileWatch, Flight, Heartbeat};
use monitor_protocol::status::Own;
use monitor_sampling::examination::Examination;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// A connection to the daemon; copies share it.
#[derive(Clone)]
pub struct Client {
    client: super::Client,
    runtime: Arc<Runtime>,
}

/// The events of one monitor.
pub struct Series {
    series: super::Series,
    runtime: Arc<Runtime>,
}

impl Client {
    /// Connects as [`super::Client::connect`] does.
    pub fn connect() -> Result<Self, Error> {
        let runtime = runtime()?;
        let client = runtime.block_on(super::Client::connect())?;
        Ok(Self { client, runtime })
    }

    /// Connects to the daemon at this path.
    pub fn connect_to(path: &Path) -> Result<Self, Error> {
        let runtime = runtime()?;
        let client = runtime.block_on(super::Client::connect_to(path))?;
        Ok(Self { client, runtime })
    }

    /// The same, with a series waiting so long for a daemon that went away.
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { client: self.client.with_patience(patience), ..self }
    }

    /// Who answers, and as whom he knows the caller.
    pub fn hello(&self) -> Hello {
        self.runtime.block_on(self.client.hello())
    }

    /// Reads once.
    pub fn sample(&self, request: &Request) -> Result<Sampled, Error> {
        self.runtime.block_on(self.client.sample(request))
    }

    /// Reads again and again; see [`super::Client::start`].
    pub fn start(&self, request: &Request) -> Result<Series, Error> {
        let series = self.runtime.block_on(self.client.start(request))?;
        Ok(Series { series, runtime: Arc::clone(&self.runtime) })
    }

    /// Takes over a monitor that runs on a lease, with what was kept.
    pub fn attach(&self, id: &str) -> Result<Series, Error> {
        let series = self.runtime.block_on(self.client.attach(id))?;
        Ok(Series { series, runtime: Arc::clone(&self.runtime) })
    }

    /// Lets a lease begin anew.
    pub fn renew(&self, id: &str) -> Result<Leased, Error> {
        self.runtime.block_on(self.client.renew(id))
    }

    /// Cancels; nothing more comes of what it names.
    pub fn cancel(&self, which: &Cancel) -> Result<Vec<String>, Error> {
        self.runtime.block_on(self.client.cancel(which))
    }

    /// The monitors of this user; root's client has all.
    pub fn list(&self) -> Result<Vec<Listed>, Error> {
        self.runtime.block_on(self.client.list())
    }

    /// From now on, what this process starts is counted.
    pub fn account(&self) -> Result<Accounting, Error> {
        self.runtime.block_on(self.client.account())
    }

    /// What a child of this process and all its descendants used.
    pub fn sum(&self, pid: u32) -> Result<Totals, Error> {
        self.runtime.block_on(self.client.sum(pid))
    }

    /// Watches that a process beats; see [`super::Client::heartbeat`].
    pub fn heartbeat(&self, params: &Heartbeat) -> Result<Series, Error> {
        let series = self.runtime.block_on(self.client.heartbeat(params))?;
        Ok(Series { series, runtime: Arc::clone(&self.runtime) })
    }

    /// This process lives: all who watch it know.
    pub fn beat(&self) -> Result<(), Error> {
        self.runtime.block_on(self.client.beat())
    }

    /// Watches that a file changes; see [`super::Client::file`].
    pub fn file(&self, params: &FileWatch) -> Result<Series, Error> {
        let series = self.runtime.block_on(self.client.file(params))?;
        Ok(Series { series, runtime: Arc::clone(&self.runtime) })
    }

    /// How each capability is served there.
    pub fn probes(&self) -> Result<Examination, Error> {
        self.runtime.block_on(self.client.probes())
    }

    /// A part of what the flight recorder kept; see [`super::Client::flight`].
    pub fn flight(&self, params: Flight) -> Result<Handed, Error> {
        self.runtime.block_on(self.client.flight(params))
    }

    /// What the daemon itself uses, holds and refused.
    pub fn status(&self) -> Result<Own, Error> {
        self.runtime.block_on(self.client.status())
    }
}

impl Series {
    /// The name of the monitor.
    pub fn id(&self) -> &str {
        self.series.id()
    }

    /// Events that were kept for whoever attached; they come first.
    pub const fn kept(&self) -> usize {
        self.series.kept()
    }
}

impl Iterator for Series {
    type Item = Result<Told, Error>;

    /// Waits for what comes next; nothing, when the series has ended.
    fn next(&mut self) -> Option<Self::Item> {
        self.runtime.block_on(self.series.next()).transpose()
    }
}

fn runtime() -> Result<Arc<Runtime>, Error> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let absent = |source| Error::Absent { tried: Vec::new(), source };
    runtime.map(Arc::new).map_err(absent)
}
