//! The inputs and outputs of the engine.

use super::{Answer, Caller};
use monitor_model::{Ns, Refusal};
use monitor_protocol::call::{Call, Tag};
use monitor_protocol::migration::{MigrateProcess, MigrationStep};
use monitor_protocol::rollup::RollupQuery;
use monitor_protocol::transfer::{ReceiveFile, SendFile};
use monitor_protocol::{
    Conn,
    cluster::{Follow, Gather},
    event::Event,
    params::Flight,
};
use monitor_sampling::file_watch::{FileStat, StatFailure};
use monitor_sampling::shared_read::{ReadJob, SharedReader};
use monitor_sampling::{consumer::Consumer, job_index::RankClaim, view::Output};

/// Everything that can wake the engine.
pub enum MonitorInput {
    /// A client has connected.
    Opened(Caller),
    /// A client has disconnected.
    Closed(Conn),
    /// A client has made a call.
    Called {
        /// Its connection.
        from: Conn,
        /// The tag of the reply; no reply if absent.
        tag: Option<Tag>,
        /// The call.
        call: Call,
    },
    /// The consumers come back from a reading.
    ReadingDone(Vec<ReadRequest>),
    /// The metadata of a watched file.
    FileStat(MonitorKey, Result<FileStat, StatFailure>),
    /// A target of these monitors has ended, and its exit record is available.
    TargetsEnded(Vec<MonitorKey>),
    /// The results of rank claims.
    ClaimsSettled(Vec<(MonitorKey, Result<(), Refusal>)>),
    /// Time has passed.
    Tick,
    /// The service ends.
    Shutdown,
}

/// Everything that the engine asks its caller to do.
pub enum MonitorOutput {
    /// Send the reply to a call.
    Reply {
        /// The connection.
        to: Conn,
        /// The tag of the call.
        tag: Tag,
        /// The result.
        answer: Result<Answer, Refusal>,
    },
    /// Send an event.
    Event {
        /// The connection.
        to: Conn,
        /// The event.
        event: Event,
    },
    /// Take a reading for these consumers.
    Read(Vec<ReadRequest>),
    /// Read the metadata of a file.
    StatFile(FileToStat),
    /// Check these claims, and register those that are valid.
    CheckClaims(Vec<(MonitorKey, RankClaim)>),
    /// Answer a query that is not about monitors.
    Query {
        /// The connection.
        to: Conn,
        /// The tag of the call.
        tag: Tag,
        /// The query.
        query: ServiceQuery,
    },
}

/// A query that the service answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceQuery {
    /// The state of each probe.
    Probes,
    /// The service's own statistics.
    Service,
    /// The stored requests.
    Rules,
    /// The flight recorder's data.
    Flight(Flight),
    /// What this node says of itself.
    NodeStatus,
    /// The nodes of the cluster.
    Members,
    /// A line for many nodes.
    Gather(Gather),
    /// Lines for many nodes, which go on to send.
    Follow(Follow),
    /// The roll-ups of all nodes.
    Rollup(RollupQuery),
    /// Requests of the connection are those of the whole cluster.
    ClusterSession,
    /// A file for other nodes.
    SendFile(SendFile),
    /// A file of another node.
    ReceiveFile(ReceiveFile),
    /// A process for another node.
    MigrateProcess(MigrateProcess),
    /// A step of a process of another node.
    MigrationStep(MigrationStep),
    /// The processes that migrate.
    Migrations,
}

/// A request to read the metadata of a file, as this user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileToStat {
    /// The alarm.
    pub key: MonitorKey,
    /// The file.
    pub path: String,
    /// The user whose rights apply.
    pub uid: u32,
    /// The user's group.
    pub gid: u32,
}

/// A consumer on its way to a reading or back.
pub struct ReadRequest {
    /// The monitor or accounting it belongs to.
    pub key: MonitorKey,
    /// The consumer.
    pub consumer: Consumer,
    /// Its result, on the way back.
    pub result: Option<Result<Output, Refusal>>,
    /// The processor time that it took, with its share of the reading.
    pub cost: Ns,
}

impl ReadRequest {
    /// A consumer before its reading.
    pub const fn new(key: MonitorKey, consumer: Consumer) -> Self {
        Self { key, consumer, result: None, cost: Ns(0) }
    }

    /// Takes one reading for all these consumers, and sets their results.
    pub fn read_all(requests: &mut [Self], reader: &mut SharedReader) {
        let job = |it| -> ReadJob<'_> {
            let request: &mut Self = it;
            ReadJob::new(&mut request.consumer)
        };
        let mut jobs: Vec<_> = requests.iter_mut().map(job).collect();
        reader.read_for_all(&mut jobs);
        let results: Vec<_> = jobs.into_iter().map(|job| (job.result, job.cost)).collect();
        for (request, result) in requests.iter_mut().zip(results) {
            (request.result, request.cost) = result;
        }
    }
}

/// Serial number of a monitor, alarm, accounting or claim.
pub type MonitorKey = u64;
