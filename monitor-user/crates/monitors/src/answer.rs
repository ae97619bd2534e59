//! The results of calls, as JSON.

use super::Caller;
use monitor_model::{Refusal, Status};
use monitor_protocol::answer::{Accounting, Hello, Lease, MonitorSummary, PROTOCOL, UsageTotals};
use monitor_protocol::{event::Event, params::Register};
use serde::Serialize;
use std::sync::Arc;

/// The result of a call.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// Of `hello`.
    Hello(Hello),
    /// Of `monitor`: the first sample.
    Sample {
        /// `SUCCESS` or `PARTIAL_SUCCESS`.
        status: &'static str,
        /// The sample, in the same form as later ones.
        #[serde(flatten)]
        event: Event,
    },
    /// Of `cancel`: these monitors send no further events.
    Cancelled {
        /// Their names.
        cancelled: Vec<String>,
        /// Nodes that did not confirm in time; their parts end with their leases.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        silent: Vec<String>,
    },
    /// Of `monitor` on several nodes.
    Nodes {
        /// `SUCCESS`, or `PARTIAL_SUCCESS` if a node failed or is incomplete.
        status: &'static str,
        /// The name of the monitor.
        id: String,
        /// The result of each node.
        nodes: Vec<NodeAnswer>,
    },
    /// Of `list`.
    List(Vec<MonitorSummary>),
    /// Of `heartbeat` and `file`.
    Set {
        /// The name of the watch.
        id: String,
    },
    /// Of `beat`: no result.
    HeartbeatSent {},
    /// Of `register`: the registration.
    Registered(Register),
    /// Of `attach` and `renew`.
    Leased(Lease),
    /// Of `account`.
    Account(Accounting),
    /// Of `sum`.
    Sum(Box<UsageTotals>),
}

/// The result of one of several nodes.
#[derive(Clone, Debug, Serialize)]
pub struct NodeAnswer {
    /// The node.
    pub node: String,
    /// The status.
    #[serde(serialize_with = "by_name")]
    pub status: Status,
    /// The reason of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The first sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<Event>,
}

impl NodeAnswer {
    /// A node with a sample.
    pub fn from_sample(node: &str, event: Event, partial: bool) -> Self {
        let status = if partial { Status::PartialSuccess } else { Status::Success };
        Self { node: node.to_owned(), status, message: None, event: Some(event) }
    }

    /// A node that failed.
    pub fn from_refusal(node: &str, refusal: &Refusal) -> Self {
        let message = Some(refusal.message.clone());
        Self { node: node.to_owned(), status: refusal.status, message, event: None }
    }
}

fn by_name<S: serde::Serializer>(status: &Status, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(status.name())
}

impl Answer {
    /// Its memory in bytes, nearly.
    pub fn memory(&self) -> usize {
        match self {
            Self::Sample { event, .. } => event.memory(),
            Self::List(monitors) => size_of_val(&**monitors) + size_of::<Self>(),
            _ => size_of::<Self>(),
        }
    }

    /// The service and the node.
    pub fn hello(node: &Arc<str>, caller: &Caller) -> Self {
        Self::Hello(Hello {
            service: "monitor".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            protocol: PROTOCOL,
            node: node.to_string(),
            uid: caller.uid,
            pid: caller.pid,
        })
    }
}
