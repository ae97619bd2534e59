//! Requests that wait for their events, and the events of a session's own.

use crate::model::id::Ns;
use crate::omis::{Basic, Name, Request, RequestId};
use crate::service::desk::{Topic, Watch};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const SECOND: Ns = Ns(1_000_000_000);

/// What a session has stored on this node.
#[derive(Default)]
pub struct Stored {
    /// By the number of the event.
    pub requests: BTreeMap<RequestId, Rule>,
    /// Its own events.
    pub events: BTreeSet<i64>,
}

/// A stored request.
pub struct Rule {
    /// The request.
    pub request: Arc<Request>,
    /// What it waits for.
    pub watch: Watch,
    /// Whether it runs when that occurs.
    pub is_enabled: bool,
    /// Among all rules of this node, in the order in which they were defined.
    pub serial: u64,
    /// Occurrences so far.
    pub seq: u64,
    /// When the second began in which occurrences are counted, and how many there were.
    second: (Ns, u64),
}

impl Stored {
    /// What must be looked out for.
    pub fn topics(&self) -> impl Iterator<Item = Topic> {
        self.requests.values().filter(|it| it.is_enabled).map(|it| it.watch.topic.clone())
    }
}

impl Rule {
    /// One that is not enabled.
    pub fn new(request: Request, watch: Watch, serial: u64) -> Self {
        let (request, second) = (Arc::new(request), (Ns(0), 0));
        Self { request, watch, is_enabled: false, serial, seq: 0, second }
    }

    /// The event that it waits for.
    pub fn event(&self) -> &Basic {
        self.request.event.as_ref().expect("only requests with an event are stored")
    }

    /// The name of its event.
    pub fn service(&self) -> &Name {
        &self.event().service
    }

    /// Counts an occurrence; whether there are more than so many in this second.
    pub fn is_storm(&mut self, now: Ns, most: u64) -> bool {
        if now.since(self.second.0) >= SECOND {
            self.second = (now, 0);
        }
        self.seq += 1;
        self.second.1 += 1;
        self.second.1 > most
    }
}
