//! What the library asks of its host, as data.

use crate::attribute::{Attribute, Datum, ProcName};
use crate::libpmix::{Blob, Reply};
use crate::service_usage::ServiceUsage;
use monitor_control::host_protocol::{HostAnswer, HostRequest};
use std::ffi::{CString, c_int};
use std::sync::mpsc::Sender;

/// An application that a client starts.
#[derive(Debug)]
pub struct SpawnedApp {
    /// The program.
    pub command: CString,
    /// Its words, that of the program first.
    pub arguments: Vec<CString>,
    /// Variables `NAME=value`, which replace those of the job.
    pub environment: Vec<CString>,
    /// Its working directory, if it is not that of the host.
    pub folder: Option<CString>,
    /// Number of its ranks.
    pub ranks: u32,
    /// Its attributes.
    pub attributes: Vec<Attribute>,
}

/// Which processes get an alert.
#[derive(Clone, Debug)]
pub struct AlertRange {
    /// As PMIx numbers it (`pmix_data_range_t`).
    pub range: u8,
    /// The processes of the range `PMIX_RANGE_CUSTOM`.
    pub targets: Option<Datum>,
}

/// A client that is watched sends no heartbeats.
#[derive(Debug)]
pub struct LostHeartbeats {
    /// The client.
    pub name: ProcName,
    /// The event that it asked for; 0 for that of PMIx.
    pub code: c_int,
    /// Windows without a heartbeat, in a row.
    pub missed: u32,
    /// Which processes get the event.
    pub range: AlertRange,
}

/// An upcall, with its reply; or what a command asks the host.
pub enum Upcall {
    /// A client has begun.
    Connected(ProcName, Reply),
    /// A client called `PMIx_Finalize`.
    Finalized(ProcName, Reply),
    /// A client called `PMIx_Abort` with a status and a message.
    Abort(ProcName, c_int, Option<CString>, Reply),
    /// All local clients have entered a fence, with these data.
    Fence(Blob, Reply),
    /// Publish these.
    Publish(ProcName, Vec<Attribute>, Reply),
    /// Look these keys up, as the attributes say.
    Lookup(Vec<String>, Vec<Attribute>, Reply),
    /// Remove these keys, or all of the process.
    Unpublish(ProcName, Option<Vec<String>>, Reply),
    /// Start these.
    Spawn(ProcName, Vec<Attribute>, Vec<SpawnedApp>, Reply),
    /// An event for the host, from a process.
    Event(c_int, ProcName, Vec<Attribute>),
    /// A tool wants the standard output and error, or one of them, of these.
    Pull(Vec<ProcName>, [bool; 2]),
    /// Keys that are asked for, with what limits each answer.
    Query(Vec<(Vec<String>, Vec<Attribute>)>, Reply),
    /// A command asks this.
    Request(HostRequest, Sender<HostAnswer>),
    /// A tool connects, with what it says of itself.
    ToolConnected(Vec<Attribute>, Reply),
    /// A connection was closed at once: its socket belongs to this user, or to none that is known.
    Refused(Option<u32>),
    /// Write these.
    Log(ProcName, Vec<Attribute>, Reply),
    /// Act on processes; none means all of the namespace of the client.
    JobControl(ProcName, Vec<ProcName>, Vec<Attribute>, Reply),
    /// A client that is watched sends no heartbeats.
    HeartbeatsMissing(LostHeartbeats),
    /// The output of a namespace that has ended was given to the library.
    OutputSent(String),
    /// A tool, or a client that has not called `PMIx_Finalize`, has closed its connection.
    Left(ProcName),
    /// A monitor that the service of the node has sends this.
    ServiceUsage(u64, ServiceUsage),
    /// Report resource usage: what, with which event code, and how.
    Monitor(ProcName, Attribute, c_int, Vec<Attribute>, Reply),
}
