//! The ranks of jobs that pages of a gateway have open, every two seconds.
//!
//! In: the query of a URL, which names a job of the roll-up and its user. Out: events with its
//! ranks. The nodes that have the job execute the service `job_ranks`, with the rights that the
//! viewer has there. Viewers of one job with the same access level share one command; it is sent as
//! long as one of them is connected.

use super::daemon_request::DaemonRequest;
use super::job_ranks::{JobRanks, RollupPart};
use super::listen::AccessLevel;
use super::loopback::LoopbackClient;
use super::message::{Message, frame, lines, value};
use crate::lock::lock;
use bytes::Bytes;
use monitor_model::Ns;
use monitor_omis::Value;
use monitor_protocol::cluster::{Gather, Gathered};
use monitor_protocol::rollup::{ClusterRollup, MAX_NAME, RollupQuery};
use monitor_sys::clock;
use percent_encoding::percent_decode_str;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};

/// Time between two commands.
const PERIOD: Duration = Duration::from_secs(2);
/// How long a reply is awaited: then the ranks of that node are shown as missing.
const WITHIN: Ns = Ns(2_000_000_000);
/// Most jobs that viewers of one access level have open at a time.
const MAX_OPEN: usize = 16;

/// A job that is open: its name in the roll-up, and its user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenJob {
    name: String,
    uid: Option<u32>,
}

impl OpenJob {
    /// From the query of a URL; without `uid`, the user is not known.
    ///
    /// # Errors
    /// It names no job, or the user is none.
    pub fn from_query(query: &str) -> Result<Self, String> {
        let name = value(query, "job").ok_or("job: expected the name of a job")?;
        let name = percent_decode_str(name).decode_utf8_lossy().into_owned();
        if name.len() > MAX_NAME {
            return Err(format!("job: expected at most {MAX_NAME} bytes"));
        }
        let uid = value(query, "uid").map(str::parse).transpose();
        let uid = uid.map_err(|_| "uid: expected a user id".to_owned())?;
        Ok(Self { name, uid })
    }

    /// The request that each of its nodes executes.
    fn request(&self) -> String {
        let name = Value::from(self.name.as_str());
        let uid = self.uid.map_or(Value::from(-1), Value::from);
        format!("1 [0] job_ranks({name},{uid})")
    }
}

/// The feeds of one access level.
#[derive(Clone)]
pub struct RankFeeds {
    access: AccessLevel,
    requests: mpsc::Sender<DaemonRequest>,
    /// The last event of each job that is open.
    open: Arc<Mutex<BTreeMap<OpenJob, watch::Sender<Bytes>>>>,
}

impl RankFeeds {
    /// Without viewers.
    pub fn new(access: AccessLevel, requests: mpsc::Sender<DaemonRequest>) -> Self {
        Self { access, requests, open: Arc::default() }
    }

    /// The events for one more viewer. Starts to read, unless another viewer has the job open.
    ///
    /// # Errors
    /// Too many jobs are open, or the loopback connection is refused.
    pub async fn subscribe(&self, job: OpenJob) -> Result<mpsc::Receiver<Bytes>, String> {
        let events = match self.events(&job) {
            Some(events) => events,
            None => {
                let client = LoopbackClient::connect(&self.requests, self.access).await?;
                self.start(job, client)?
            }
        };
        let (viewer, receiver) = mpsc::channel(1);
        drop(tokio::spawn(forward(events, viewer)));
        Ok(receiver)
    }

    fn events(&self, job: &OpenJob) -> Option<watch::Receiver<Bytes>> {
        lock(&self.open).get(job).map(watch::Sender::subscribe)
    }

    /// Starts to read, unless another task has done so meanwhile.
    fn start(
        &self,
        job: OpenJob,
        client: LoopbackClient,
    ) -> Result<watch::Receiver<Bytes>, String> {
        let mut open = lock(&self.open);
        if let Some(events) = open.get(&job) {
            return Ok(events.subscribe());
        }
        if open.len() >= MAX_OPEN {
            return Err(format!("the ranks of {MAX_OPEN} jobs are shown already: close one"));
        }
        let (sender, events) = watch::channel(Bytes::new());
        let _ = open.insert(job.clone(), sender);
        drop(tokio::spawn(self.clone().read(job, client)));
        Ok(events)
    }

    async fn read(self, job: OpenJob, client: LoopbackClient) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut source = RankSource { client, job, tag: 0, ranks: JobRanks::default() };
        loop {
            let _ = ticks.tick().await;
            if self.ends_without_viewer(&source.job) {
                return;
            }
            let Some(event) = source.event().await else { break };
            if let Some(sender) = lock(&self.open).get(&source.job) {
                let _ = sender.send_replace(event);
            }
        }
        // The daemon stops.
        let _ = lock(&self.open).remove(&source.job);
    }

    /// Removes the feed of a job, if it has no viewer; one that comes now starts another one.
    fn ends_without_viewer(&self, job: &OpenJob) -> bool {
        let mut open = lock(&self.open);
        let is_watched = open.get(job).is_some_and(|sender| sender.receiver_count() > 0);
        if !is_watched {
            let _ = open.remove(job);
        }
        !is_watched
    }
}

/// Sends events to a viewer, until it disconnects or the feed ends. A slow one gets fewer.
async fn forward(mut events: watch::Receiver<Bytes>, viewer: mpsc::Sender<Bytes>) {
    loop {
        let event = events.borrow_and_update().clone();
        // There is none before the first command.
        if !event.is_empty() && viewer.send(event).await.is_err() {
            return;
        }
        tokio::select! {
            changed = events.changed() => if changed.is_err() { return },
            () = viewer.closed() => return,
        }
    }
}

/// Reads the ranks of one job.
struct RankSource {
    client: LoopbackClient,
    job: OpenJob,
    tag: u64,
    ranks: JobRanks,
}

impl RankSource {
    /// One reading; `None` when the daemon stops.
    async fn event(&mut self) -> Option<Bytes> {
        let query = RollupQuery { job: Some(self.job.name.clone()) };
        let rollup: ClusterRollup = match self.call("rollup", query).await? {
            Ok(rollup) => rollup,
            Err(refused) => return Some(refused),
        };
        let is_open = |it: &&monitor_protocol::rollup::JobSummary| {
            it.name == self.job.name && it.uid == self.job.uid
        };
        let part = RollupPart::from_job(rollup.jobs.iter().find(is_open));
        let nodes = self.ranks.targets(&part);
        if let Some(nodes) = nodes {
            let line = self.job.request();
            let params = Gather { nodes: Some(nodes), line, within_ns: Some(WITHIN.0) };
            let sent = clock::boot();
            match self.call::<Gathered>("gather", params).await? {
                Ok(gathered) => self.ranks.take(gathered, sent),
                Err(refused) => return Some(refused),
            }
        }
        let table = self.ranks.table(&part, rollup.unix_ns);
        // Numbers and texts can always be written as JSON.
        Some(frame("ranks", &json!(table).to_string()))
    }

    /// The result of a call, or its refusal as an event; `None` when the daemon stops.
    async fn call<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: impl Serialize,
    ) -> Option<Result<R, Bytes>> {
        self.tag += 1;
        self.client.call(self.tag, method, &json!(params)).await;
        loop {
            let chunk = self.client.next_lines().await?;
            for line in lines(&chunk) {
                let Some(message) = Message::from_line(line) else { continue };
                if message.id != Some(self.tag) {
                    continue;
                }
                if let Some(error) = message.error {
                    return Some(Err(frame("refused", error.get())));
                }
                let result = message.result.map_or("null", serde_json::value::RawValue::get);
                let malformed = |why: serde_json::Error| {
                    frame("refused", &json!({ "message": why.to_string() }).to_string())
                };
                return Some(serde_json::from_str(result).map_err(malformed));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_omis::{Dialect, parse};
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_url_names_a_job_and_its_user() {
        let job = |name: &str, uid| Ok(OpenJob { name: name.to_owned(), uid });
        assert_eq!(OpenJob::from_query("job=mpi%3Aa%22b&uid=7"), job("mpi:a\"b", Some(7)));
        assert_eq!(OpenJob::from_query("job=slurm:7"), job("slurm:7", None));
        let refused = |query| OpenJob::from_query(query).expect_err("no job");
        assert_eq!(refused("uid=7"), "job: expected the name of a job");
        assert_eq!(refused("job=a&uid=-1"), "uid: expected a user id");
        assert_eq!(refused(&format!("job={}", "a".repeat(97))), "job: expected at most 96 bytes");
    }

    #[test]
    fn the_name_in_the_request_ends_no_string() {
        let open = |uid| OpenJob { name: "a\"),kill(1,\"".into(), uid };
        let request = open(None).request();
        let parsed = parse::request(request.as_bytes(), Dialect::Extended).expect("a request");
        let n_actions: usize = parsed.stages.iter().map(|stage| stage.0.len()).sum();
        assert_eq!(n_actions, 1, "{parsed:?}");
        assert!(request.ends_with(",-1)"), "{request}");
        assert!(open(Some(7)).request().ends_with(",7)"));
    }

    #[tokio::test]
    async fn jobs_that_are_open_have_a_limit_and_viewers_share_one() {
        let (requests, mut taken) = mpsc::channel(64);
        let feeds = RankFeeds::new(AccessLevel::Open, requests);
        let connected = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&connected);
        drop(tokio::spawn(async move {
            while let Some(request) = taken.recv().await {
                if let DaemonRequest::Connect { reply, .. } = request {
                    let _ = reply.send(Ok(count.fetch_add(1, Ordering::Relaxed)));
                }
            }
        }));
        let job = |number: usize| OpenJob { name: format!("mpi:{number}"), uid: None };
        let mut viewers = Vec::new();
        for number in 0..MAX_OPEN {
            for _ in 0..2 {
                viewers.push(feeds.subscribe(job(number)).await.expect("a feed"));
            }
        }
        assert_eq!(lock(&feeds.open).len(), MAX_OPEN);
        let refused = feeds.subscribe(job(MAX_OPEN)).await.expect_err("too many");
        assert!(refused.contains("16 jobs are shown already"), "{refused}");
        // One connection each, and that of the refused one.
        assert_eq!(connected.load(Ordering::Relaxed), MAX_OPEN as u64 + 1);
    }
}
