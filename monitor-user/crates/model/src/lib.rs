//! The data model: identities, units, field lists, samples, and the rates between two samples.
//!
//! Pure data and arithmetic. Nothing here reads a file, reads a clock, depends on a backend or
//! prints.

#![warn(clippy::missing_errors_doc)]

pub mod buckets;
pub mod capability;
pub mod credentials;
pub mod degradation;
pub mod diagnosis;
pub mod environment;
pub mod errno_place;
pub mod event;
pub mod field;
pub mod group;
pub mod hidden;
pub mod histogram;
pub mod id;
pub mod job;
pub mod name;
mod node_rates;
pub mod pmix;
pub mod probe;
pub mod quantiles;
pub mod rates;
pub mod read_spec;
pub mod request;
pub mod sample;
pub mod scope;
pub mod status;
pub mod user_budget;

pub use capability::Capability;
pub use credentials::{Credentials, ProcessFilter};
pub use diagnosis::{DiagOrigin, DiagReason, Diagnosis};
pub use errno_place::ErrnoPlace;
pub use event::{SampleEvent, SampleEventKind, Signal, SignalOutcome};
pub use field::block::BlockRow;
pub use field::disk::DiskRow;
pub use field::group::GroupRow;
pub use field::net::NetRow;
pub use field::node::{CpuRow, NodeRow};
pub use field::process::ProcessRow;
pub use field::{BlockField, CpuField, DiskField, GroupField, NetField, NodeField, ProcessField};
pub use field::{Category, Field, FieldValue, Role, Row, Unit, ValueKind};
pub use group::{Aggregation, Group, GroupBy, Grouped};
pub use hidden::HiddenProcess;
pub use histogram::{Histogram, Latencies, Percentiles};
pub use id::{Identity, Ns, Pid};
pub use job::{Environ, Origin, Rank};
pub use name::UnknownName;
pub use pmix::{PmixEncoding, PmixName, PmixNamed};
pub use probe::{Cost, Health, Probe};
pub use quantiles::Quantiles;
pub use rates::Rates;
pub use read_spec::{Devices, ReadSpec};
pub use request::{MonitorRequest, NodeName, RankTarget, Target};
pub use sample::{
    BackendKind, Device, Instant, Node, Note, NoteAbout, Process, ProcessParent, ProcessTexts,
};
pub use sample::{ProgramLoss, Sample};
pub use scope::Scope;
pub use status::{Refusal, Status};
