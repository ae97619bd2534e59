//! The inputs and outputs of the engine.

use super::alarm::FileToStat;
use super::answer::Answer;
use super::caller::Caller;
use monitor_model::status::Refusal;
use monitor_protocol::Conn;
use monitor_protocol::call::{Call, Tag};
use monitor_protocol::event::Event;
use monitor_protocol::params::Flight;
use monitor_sampling::consumer::Consumer;
use monitor_sampling::file_watch::{FileStat, StatFailure};
use monitor_sampling::job_index::RankClaim;
use monitor_sampling::view::Output;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceQuery {
    /// The state of each probe.
    Probes,
    /// The service's own statistics.
    Service,
    /// The stored requests.
    Rules,
    /// The flight recorder's data.
    Flight(Flight),
}

/// A consumer on its way to a reading or back.
pub struct ReadRequest {
    /// The monitor or accounting it belongs to.
    pub key: MonitorKey,
    /// The consumer.
    pub consumer: Consumer,
    /// Its result, on the way back.
    pub result: Option<Result<Output, Refusal>>,
}

/// Serial number of a monitor, alarm, accounting or claim.
pub type MonitorKey = u64;
