//! What a call is answered, as JSON.

use super::alarm::Alarm;
use super::{Caller, Engine, Monitor};
use monitor_model::id::Ns;
use monitor_model::status::{Refusal, Status};
use monitor_protocol::answer::{Accounting, Hello, Leased, Listed, PROTOCOL, Totals};
use monitor_protocol::event::Event;
use monitor_protocol::params::Register;
use serde::Serialize;
use std::sync::Arc;

/// An answer.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// To `hello`.
    Hello(Hello),
    /// To `monitor`: the first sample.
    Sample {
        /// `SUCCESS` or `PARTIAL_SUCCESS`.
        status: &'static str,
        /// The sample, in the form of all that follow.
        #[serde(flatten)]
        event: Event,
    },
    /// To `cancel`: nothing more will be sent of these.
    Cancelled {
        /// Their names.
        cancelled: Vec<String>,
        /// Nodes that did not confirm it in time; their parts end with their leases.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        silent: Vec<String>,
    },
    /// To `monitor`, if several nodes have a part in it.
    Nodes {
        /// `SUCCESS`, or `PARTIAL_SUCCESS` if a node lacks something.
        status: &'static str,
        /// The name of the monitor.
        id: String,
        /// Each node.
        nodes: Vec<NodeAnswer>,
    },
    /// To `list`.
    List(Vec<Listed>),
    /// To `heartbeat` and `file`.
    Set {
        /// Its name.
        id: String,
    },
    /// To `beat`.
    Heard {},
    /// To `register`: what is held now.
    Registered(Register),
    /// To `attach` and `renew`.
    Leased(Leased),
    /// To `account`.
    Account(Accounting),
    /// To `sum`.
    Sum(Box<Totals>),
}

/// What one of several nodes answered.
#[derive(Clone, Debug, Serialize)]
pub struct NodeAnswer {
    /// The node.
    pub node: String,
    /// How it went.
    #[serde(serialize_with = "by_name")]
    pub status: Status,
    /// Why it did not go well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The first sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<Event>,
}

impl NodeAnswer {
    /// It gave a sample.
    pub fn sample(node: &str, event: Event, partial: bool) -> Self {
        let status = if partial { Status::PartialSuccess } else { Status::Success };
        Self { node: node.to_owned(), status, message: None, event: Some(event) }
    }

    /// It gave none.
    pub fn failed(node: &str, refusal: &Refusal) -> Self {
        let message = Some(refusal.message.clone());
        Self { node: node.to_owned(), status: refusal.status, message, event: None }
    }
}

fn by_name<S: serde::Serializer>(status: &Status, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(status.name())
}

impl Answer {
    /// Who serves here.
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

impl Engine {
    /// The monitors that the caller may know of: those of his user, or all.
    pub(super) fn list(&self, caller: &Caller, now: Ns) -> Vec<Listed> {
        let listed = |it: &Monitor| Listed {
            id: it.id.clone(),
            uid: it.uid,
            requestor: it.pid,
            period_ns: it.every.map(|every| every.0),
            samples: it.seq,
            missed: it.missed,
            attached: it.owner.is_some(),
            kept: it.kept.events.len(),
            ended: it.ended,
            lease_left_ns: it.expires.or(it.lease).map(|at| match it.expires {
                Some(_) => at.since(now).0,
                None => at.0,
            }),
        };
        let alarm = |it: &Alarm| Listed {
            id: it.id.clone(),
            uid: it.uid,
            requestor: it.pid,
            period_ns: Some(it.every.0),
            samples: it.seq,
            missed: 0,
            attached: true,
            kept: 0,
            ended: None,
            lease_left_ns: None,
        };
        let alarms = self.alarms.values().filter(|it| caller.root() || it.uid == caller.uid);
        let periodic = self.monitors.values().filter(|it| it.every.is_some());
        periodic
            .filter(|it| caller.root() || it.uid == caller.uid)
            .map(listed)
            .chain(alarms.map(alarm))
            .collect()
    }
}
