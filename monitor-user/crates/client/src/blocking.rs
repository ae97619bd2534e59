//! The blocking client, for programs without an event loop: each call waits for its reply.
//!
//! No thread runs between calls: events are queued in the socket, and the daemon drops and counts
//! those that do not fit.

use super::{
    Accounting, Cancel, ClusterRollup, DaemonStatus, DoctorReport, Error, FileWatch, Flight,
    FlightPart, Gather, Gathered, Heartbeat, Hello, Lease, ListedMigrations, Members,
    MigrateProcess, MigratedProcess, MonitorRequest, MonitorSummary, NodeStatus, RollupQuery,
    SampleReply, SendFile, SentFile, SeriesItem, UsageTotals,
};
use std::{path::Path, sync::Arc, time::Duration};
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
    ///
    /// # Errors
    ///
    /// As [`super::Client::connect`].
    pub fn connect() -> Result<Self, Error> {
        let runtime = runtime()?;
        let client = runtime.block_on(super::Client::connect())?;
        Ok(Self { client, runtime })
    }

    /// Connects to the daemon at this path.
    ///
    /// # Errors
    ///
    /// As [`super::Client::connect_to`].
    pub fn connect_to(path: &Path) -> Result<Self, Error> {
        let runtime = runtime()?;
        let client = runtime.block_on(super::Client::connect_to(path))?;
        Ok(Self { client, runtime })
    }

    /// Sets how long a series waits for a daemon that has gone away.
    pub fn with_reconnect_timeout(self, timeout: Duration) -> Self {
        Self { client: self.client.with_reconnect_timeout(timeout), ..self }
    }

    /// The service and the caller's identity.
    pub fn hello(&self) -> Hello {
        self.runtime.block_on(self.client.hello())
    }

    /// Reads one sample.
    ///
    /// # Errors
    ///
    /// As [`super::Client::sample`].
    pub fn sample(&self, request: &MonitorRequest) -> Result<SampleReply, Error> {
        self.runtime.block_on(self.client.sample(request))
    }

    /// Starts a series of samples; see [`super::Client::start`].
    ///
    /// # Errors
    ///
    /// As [`super::Client::start`].
    pub fn start(&self, request: &MonitorRequest) -> Result<Series, Error> {
        self.series(self.client.start(request))
    }

    /// Attaches a leased monitor, with its kept events.
    ///
    /// # Errors
    ///
    /// As [`super::Client::attach`].
    pub fn attach(&self, id: &str) -> Result<Series, Error> {
        self.series(self.client.attach(id))
    }

    /// Restarts a lease.
    ///
    /// # Errors
    ///
    /// As [`super::Client::renew`].
    pub fn renew(&self, id: &str) -> Result<Lease, Error> {
        self.runtime.block_on(self.client.renew(id))
    }

    /// Cancels monitors; no further events of them follow.
    ///
    /// # Errors
    ///
    /// As [`super::Client::cancel`].
    pub fn cancel(&self, which: &Cancel) -> Result<Vec<String>, Error> {
        self.runtime.block_on(self.client.cancel(which))
    }

    /// The monitors of this user; all for root.
    ///
    /// # Errors
    ///
    /// As [`super::Client::list`].
    pub fn list(&self) -> Result<Vec<MonitorSummary>, Error> {
        self.runtime.block_on(self.client.list())
    }

    /// Starts counting the usage of this process's children.
    ///
    /// # Errors
    ///
    /// As [`super::Client::account`].
    pub fn account(&self) -> Result<Accounting, Error> {
        self.runtime.block_on(self.client.account())
    }

    /// The usage of a child of this process and all its descendants.
    ///
    /// # Errors
    ///
    /// As [`super::Client::sum`].
    pub fn sum(&self, pid: u32) -> Result<UsageTotals, Error> {
        self.runtime.block_on(self.client.sum(pid))
    }

    /// Watches the heartbeats of a process; see [`super::Client::heartbeat`].
    ///
    /// # Errors
    ///
    /// As [`super::Client::heartbeat`].
    pub fn heartbeat(&self, params: &Heartbeat) -> Result<Series, Error> {
        self.series(self.client.heartbeat(params))
    }

    /// Sends a heartbeat of this process.
    ///
    /// # Errors
    ///
    /// As [`super::Client::send_heartbeat`].
    pub fn send_heartbeat(&self) -> Result<(), Error> {
        self.runtime.block_on(self.client.send_heartbeat())
    }

    /// Watches that a file changes; see [`super::Client::file`].
    ///
    /// # Errors
    ///
    /// As [`super::Client::file`].
    pub fn file(&self, params: &FileWatch) -> Result<Series, Error> {
        self.series(self.client.file(params))
    }

    /// The state of each probe.
    ///
    /// # Errors
    ///
    /// As [`super::Client::probes`].
    pub fn probes(&self) -> Result<DoctorReport, Error> {
        self.runtime.block_on(self.client.probes())
    }

    /// A part of the flight recorder's data; see [`super::Client::flight`].
    ///
    /// # Errors
    ///
    /// As [`super::Client::flight`].
    pub fn flight(&self, params: Flight) -> Result<FlightPart, Error> {
        self.runtime.block_on(self.client.flight(params))
    }

    /// The daemon's own statistics.
    ///
    /// # Errors
    ///
    /// As [`super::Client::status`].
    pub fn status(&self) -> Result<DaemonStatus, Error> {
        self.runtime.block_on(self.client.status())
    }

    /// What the node says of itself.
    ///
    /// # Errors
    ///
    /// As [`super::Client::node_status`].
    pub fn node_status(&self) -> Result<NodeStatus, Error> {
        self.runtime.block_on(self.client.node_status())
    }

    /// The nodes of the cluster; see [`super::Client::members`].
    ///
    /// # Errors
    ///
    /// As [`super::Client::members`].
    pub fn members(&self) -> Result<Members, Error> {
        self.runtime.block_on(self.client.members())
    }

    /// The roll-ups of all nodes; see [`super::Client::rollup`].
    ///
    /// # Errors
    ///
    /// As [`super::Client::rollup`].
    pub fn rollup(&self, query: &RollupQuery) -> Result<ClusterRollup, Error> {
        self.runtime.block_on(self.client.rollup(query))
    }

    /// Sends a file of the daemon's node to others; see [`super::Client::send_file`].
    ///
    /// # Errors
    ///
    /// As [`super::Client::send_file`].
    pub fn send_file(&self, params: &SendFile) -> Result<SentFile, Error> {
        self.runtime.block_on(self.client.send_file(params))
    }

    /// Moves a process to another node; see [`super::Client::migrate_process`].
    ///
    /// # Errors
    ///
    /// As [`super::Client::migrate_process`].
    pub fn migrate_process(&self, params: &MigrateProcess) -> Result<MigratedProcess, Error> {
        self.runtime.block_on(self.client.migrate_process(params))
    }

    /// Lists the migrations that the daemon's node knows; see [`super::Client::migrations`].
    ///
    /// # Errors
    ///
    /// As [`super::Client::migrations`].
    pub fn migrations(&self) -> Result<ListedMigrations, Error> {
        self.runtime.block_on(self.client.migrations())
    }

    /// Lets nodes execute a line; see [`super::Client::gather`].
    ///
    /// # Errors
    ///
    /// As [`super::Client::gather`].
    pub fn gather(&self, params: &Gather) -> Result<Gathered, Error> {
        self.runtime.block_on(self.client.gather(params))
    }

    fn series(
        &self,
        start: impl Future<Output = Result<super::Series, Error>>,
    ) -> Result<Series, Error> {
        let series = self.runtime.block_on(start)?;
        Ok(Series { series, runtime: Arc::clone(&self.runtime) })
    }
}

impl Series {
    /// The name of the monitor.
    pub fn id(&self) -> &str {
        self.series.id()
    }

    /// Number of kept events; they come first.
    pub const fn kept(&self) -> usize {
        self.series.kept()
    }
}

impl Iterator for Series {
    type Item = Result<SeriesItem, Error>;

    /// Waits for the next item; `None` when the series has ended.
    fn next(&mut self) -> Option<Self::Item> {
        self.runtime.block_on(self.series.next()).transpose()
    }
}

fn runtime() -> Result<Arc<Runtime>, Error> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let absent = |source| Error::Unreachable { tried: Vec::new(), source };
    runtime.map(Arc::new).map_err(absent)
}
