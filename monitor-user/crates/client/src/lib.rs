//! The client library of the daemon.
//!
//! [`Client`] is asynchronous and runs on tokio; [`blocking::Client`] is the same for a program
//! without an event loop. One connection has any number of concurrent calls. [`tool::Tool`] is a
//! session of the request language OMIS.
//!
//! ```no_run
#![doc = include_str!("../../../../docs/examples/client.rs")]
//! ```

#![warn(clippy::missing_errors_doc)]

pub mod blocking;
mod connection;
mod daemon;
mod error;
mod following;
mod lock;
mod queue;
mod reply_router;
mod series;
pub mod socket_path;
pub mod tool;

pub use daemon::{MissingNode, SampleReply};
pub use error::Error;
pub use following::Following;
pub use monitor_model::request::{MonitorRequest, NodeName, RankTarget, Target};
pub use monitor_model::status::{Refusal, Status};
pub use monitor_protocol::answer::{
    Accounting, CommandTotals, FlightPart, Hello, Lease, MonitorSummary, RunningProcess,
    UsageTotals,
};
pub use monitor_protocol::cluster::{
    Follow, FollowNotice, Followed, FollowedState, Gather, Gathered, Members, NodeStatus,
};
pub use monitor_protocol::doctor::DoctorReport;
pub use monitor_protocol::event::{Alert, EndReason, Event};
pub use monitor_protocol::migration::{
    ListedMigration, ListedMigrations, MigrateProcess, MigratedProcess, MigrationEnd,
    MigrationOutcome,
};
pub use monitor_protocol::params::{Cancel, FileWatch, Flight, Heartbeat};
pub use monitor_protocol::rollup::{ClusterRollup, RollupQuery};
pub use monitor_protocol::status::DaemonStatus;
pub use monitor_protocol::transfer::{SendFile, SentFile};
pub use series::{Series, SeriesItem};

use daemon::Daemon;
use monitor_protocol::params::{MonitorName, Sum};
use monitor_protocol::{answer::Cancelled, call::Call};
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::{sync::Arc, time::Duration};

/// Default time to wait for a daemon that has gone away.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to the daemon, which reconnects after a restart; clones share it.
#[derive(Clone)]
pub struct Client {
    daemon: Arc<Daemon>,
    reconnect_timeout: Duration,
}

impl Client {
    /// Connects to the daemon that `MONITOR_SOCKET` names, else to the system's, else to the
    /// user's.
    ///
    /// # Errors
    ///
    /// Fails if no daemon answers, or one of another protocol version.
    pub async fn connect() -> Result<Self, Error> {
        Self::open(socket_path::candidates(socket_path::from_env().as_deref())).await
    }

    /// Connects to the daemon at this path.
    ///
    /// # Errors
    ///
    /// Fails if no daemon answers there, or one of another protocol version.
    pub async fn connect_to(path: &Path) -> Result<Self, Error> {
        Self::open(vec![path.to_owned()]).await
    }

    async fn open(paths: Vec<PathBuf>) -> Result<Self, Error> {
        let daemon = Arc::new(Daemon::connect(paths).await?);
        Ok(Self { daemon, reconnect_timeout: RECONNECT_TIMEOUT })
    }

    /// Sets how long a series waits for a daemon that has gone away.
    pub const fn with_reconnect_timeout(mut self, timeout: Duration) -> Self {
        self.reconnect_timeout = timeout;
        self
    }

    /// The service and the caller's identity.
    pub async fn hello(&self) -> Hello {
        self.daemon.hello().await
    }

    /// Reads one sample.
    ///
    /// # Errors
    ///
    /// Fails if the request is a series, or the daemon refuses it or has gone away.
    pub async fn sample(&self, request: &MonitorRequest) -> Result<SampleReply, Error> {
        if request.every_ns.is_some() {
            return Err(Refusal::bad("every_ns: use start for a series").into());
        }
        let call = Call::Monitor(Box::new(request.clone()));
        SampleReply::from_result(&self.call(&call).await?)
    }

    /// Starts a series of samples; returns when the first one has arrived. Dropping the series
    /// cancels it, unless it has a lease.
    ///
    /// # Errors
    ///
    /// Fails if the request is not a series, or the daemon refuses it or has gone away.
    pub async fn start(&self, request: &MonitorRequest) -> Result<Series, Error> {
        if request.every_ns.is_none() {
            let why = "every_ns is missing: use sample for one reading";
            return Err(Refusal::bad(why).into());
        }
        self.series(Call::Monitor(Box::new(request.clone()))).await
    }

    /// Attaches a leased monitor, with its kept events.
    ///
    /// # Errors
    ///
    /// Fails if the daemon refuses the call, has gone away, or sends a malformed reply.
    pub async fn attach(&self, id: &str) -> Result<Series, Error> {
        self.series(Call::Attach(MonitorName { id: id.into() })).await
    }

    /// Restarts a lease.
    ///
    /// # Errors
    ///
    /// Fails if the daemon refuses the call, has gone away, or sends a malformed reply.
    pub async fn renew(&self, id: &str) -> Result<Lease, Error> {
        self.get(&Call::Renew(MonitorName { id: id.into() })).await
    }

    /// Cancels monitors; no further events of them follow.
    ///
    /// # Errors
    ///
    /// Fails if the daemon refuses the call, has gone away, or sends a malformed reply.
    pub async fn cancel(&self, which: &Cancel) -> Result<Vec<String>, Error> {
        let answer: Cancelled = self.get(&Call::Cancel(which.clone())).await?;
        Ok(answer.cancelled)
    }

    /// The monitors of this user; all for root.
    ///
    /// # Errors
    ///
    /// Fails if the daemon refuses the call, has gone away, or sends a malformed reply.
    pub async fn list(&self) -> Result<Vec<MonitorSummary>, Error> {
        self.get(&Call::List).await
    }

    /// Starts counting the usage of this process's children, with all their descendants.
    ///
    /// # Errors
    ///
    /// Fails if the daemon refuses the call, has gone away, or sends a malformed reply.
    pub async fn account(&self) -> Result<Accounting, Error> {
        self.get(&Call::Account).await
    }

    /// The usage of a child of this process and all its descendants. If the child has been waited
    /// for, the result includes its exit record.
    ///
    /// # Errors
    ///
    /// Fails if the daemon refuses the call, has gone away, or sends a malformed reply.
    pub async fn sum(&self, pid: u32) -> Result<UsageTotals, Error> {
        self.get(&Call::Sum(Sum { pid })).await
    }

    /// Watches the heartbeats of a process; each event of the series is an alert. Dropping the
    /// series ends the watch.
    ///
    /// # Errors
    ///
    /// Fails if the daemon refuses the call, has gone away, or sends a malformed reply.
    pub async fn heartbeat(&self, params: &Heartbeat) -> Result<Series, Error> {
        self.series(Call::Heartbeat(params.clone())).await
    }

    /// Sends a heartbeat of this process.
    ///
    /// # Errors
    ///
    /// Fails if the daemon refuses the call, has gone away, or sends a malformed reply.
    pub async fn send_heartbeat(&self) -> Result<(), Error> {
        self.call(&Call::SendHeartbeat).await.map(drop)
    }

    /// Watches that a file changes; each event of the series is an alert.
    ///
    /// # Errors
    ///
    /// Fails if the daemon refuses the call, has gone away, or sends a malformed reply.
    pub async fn file(&self, params: &FileWatch) -> Result<Series, Error> {
        self.series(Call::File(params.clone())).await
    }

    /// The state of each probe.
    ///
    /// # Errors
    ///
    /// Fails if the daemon refuses the call, has gone away, or sends a malformed reply.
    pub async fn probes(&self) -> Result<DoctorReport, Error> {
        self.get(&Call::Probes).await
    }

    /// A part of the flight recorder's data; `next` of the result has the parameters of the next
    /// call.
    ///
    /// # Errors
    ///
    /// Fails if the daemon refuses the call, has gone away, or sends a malformed reply.
    pub async fn flight(&self, params: Flight) -> Result<FlightPart, Error> {
        self.get(&Call::Flight(params)).await
    }

    /// The daemon's own statistics.
    ///
    /// # Errors
    ///
    /// Fails if the daemon refuses the call, has gone away, or sends a malformed reply.
    pub async fn status(&self) -> Result<DaemonStatus, Error> {
        self.get(&Call::Status).await
    }

    /// What the node says of itself.
    ///
    /// # Errors
    ///
    /// Fails if the daemon refuses the call, has gone away, or sends a malformed reply.
    pub async fn node_status(&self) -> Result<NodeStatus, Error> {
        self.get(&Call::NodeStatus).await
    }

    /// The nodes of the cluster, as the node sees them.
    ///
    /// # Errors
    ///
    /// Fails if the daemon refuses the call, has gone away, or sends a malformed reply.
    pub async fn members(&self) -> Result<Members, Error> {
        self.get(&Call::Members).await
    }

    /// The roll-ups of all nodes; with a job, its usage on each of them.
    ///
    /// # Errors
    ///
    /// The node is no gateway; or as [`Client::members`].
    pub async fn rollup(&self, query: &RollupQuery) -> Result<ClusterRollup, Error> {
        self.get(&Call::Rollup(query.clone())).await
    }

    /// Sends a file of the daemon's node to others, and returns what became of it on each.
    ///
    /// # Errors
    ///
    /// The file cannot be read; the node has no `files.tls`; or as [`Client::members`].
    pub async fn send_file(&self, params: &SendFile) -> Result<SentFile, Error> {
        self.get(&Call::SendFile(params.clone())).await
    }

    /// Moves a process of the daemon's node to another one, and returns where it runs.
    ///
    /// # Errors
    ///
    /// The caller is not root, or the process cannot migrate; or as [`Client::members`].
    pub async fn migrate_process(&self, params: &MigrateProcess) -> Result<MigratedProcess, Error> {
        self.get(&Call::MigrateProcess(params.clone())).await
    }

    /// Lists the migrations that the daemon's node knows.
    ///
    /// # Errors
    ///
    /// As [`Client::migrate_process`].
    pub async fn migrations(&self) -> Result<ListedMigrations, Error> {
        self.get(&Call::Migrations).await
    }

    /// Lets nodes execute a line, and returns what became of it on each.
    ///
    /// # Errors
    ///
    /// Fails if the daemon refuses the call, has gone away, or sends a malformed reply.
    pub async fn gather(&self, params: &Gather) -> Result<Gathered, Error> {
        self.get(&Call::Gather(params.clone())).await
    }

    /// Lets nodes execute lines, and follows what they go on to send. Dropping the last copy of the
    /// client ends it.
    ///
    /// # Errors
    ///
    /// Fails if the daemon refuses the call, has gone away, or sends a malformed reply.
    pub async fn follow(&self, params: &Follow) -> Result<Following, Error> {
        let connection = self.daemon.connection().await?;
        let started = connection.follow(&Call::Follow(params.clone())).await?;
        Ok(Following::new(connection, started))
    }

    async fn series(&self, call: Call) -> Result<Series, Error> {
        Series::start((Arc::clone(&self.daemon), self.reconnect_timeout), call).await
    }

    async fn get<T: DeserializeOwned>(&self, call: &Call) -> Result<T, Error> {
        serde_json::from_str(&self.call(call).await?).map_err(Error::protocol)
    }

    async fn call(&self, call: &Call) -> Result<String, Error> {
        self.daemon.connection().await?.call(call).await
    }
}
