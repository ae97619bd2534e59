//! What a call is answered, as JSON.

use super::{Caller, Engine, Monitor};
use crate::model::id::Ns;
use crate::wire::answer::{Accounting, Hello, Leased, Listed, PROTOCOL, Totals};
use crate::wire::event::Event;
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
    },
    /// To `list`.
    List(Vec<Listed>),
    /// To `attach` and `renew`.
    Leased(Leased),
    /// To `account`.
    Account(Accounting),
    /// To `sum`.
    Sum(Box<Totals>),
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
            lease_left_ns: it.expires.or(it.lease).map(|at| match it.expires {
                Some(_) => at.since(now).0,
                None => at.0,
            }),
        };
        let periodic = self.monitors.values().filter(|it| it.every.is_some());
        periodic.filter(|it| caller.root() || it.uid == caller.uid).map(listed).collect()
    }
}
