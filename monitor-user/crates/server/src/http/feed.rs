//! The feed of the page: one monitor of all processes, shared by all viewers, so that each sample
//! is read and compared once.
//!
//! In: viewers that connect and disconnect. Out: events for each: a snapshot of the table, then
//! changes. A viewer that falls behind gets a new snapshot, which is counted. The monitor starts
//! with the first viewer and ends a few samples after the last.

use super::daemon_request::DaemonRequest;
use super::loopback::LoopbackClient;
use super::message::{Message, frame, lines};
use super::table::{COLUMNS, PageTable};
use super::{
    admission::Admission, filter::FilterRow, listen::AccessLevel, playback::PlaybackClock,
};
use crate::lock::lock;
use bytes::Bytes;
use monitor_sampling::expression::Expression;
use serde_json::{Value, json, value::RawValue};
use std::sync::{Arc, Mutex};
use tokio::{sync::broadcast, sync::broadcast::error::RecvError, sync::mpsc};

/// Changes that may be queued for a viewer.
const BACKLOG: usize = 8;
/// Samples without a viewer before the monitor ends.
const IDLE_SAMPLES: u32 = 5;
/// Samples between two calls for the status of the daemon.
const STATUS_EVERY: u32 = 5;

/// Fields of the node that are read besides those of processes.
const NODE_FIELDS: [&str; 37] = [
    "node.uptime_ns",
    "node.online_cpus",
    "node.load1",
    "node.load5",
    "node.load15",
    "node.mem_total_bytes",
    "node.mem_available_bytes",
    "node.swap_total_bytes",
    "node.swap_free_bytes",
    "node.tasks_running",
    "node.tasks_blocked",
    "node.cpu_busy_percent",
    "node.cpu_busy_sampled",
    "node.cpu_user_percent",
    "node.cpu_nice_percent",
    "node.cpu_system_percent",
    "node.cpu_irq_percent",
    "node.cpu_softirq_percent",
    "node.cpu_unattributed_percent",
    "node.cpu_idle_percent",
    "node.cpu_iowait_percent",
    "node.cpu_steal_percent",
    "node.psi_cpu_some_percent",
    "node.psi_memory_some_percent",
    "node.psi_memory_full_percent",
    "node.psi_io_some_percent",
    "node.psi_io_full_percent",
    "node.context_switches_per_s",
    "node.processes_created_per_s",
    "cpu.user_percent",
    "cpu.system_percent",
    "cpu.idle_percent",
    "disk.read_bytes_per_s",
    "disk.written_bytes_per_s",
    "disk.busy_percent",
    "net.received_bytes_per_s",
    "net.sent_bytes_per_s",
];

/// Tags of the calls.
const MONITOR_TAG: u64 = 0;
const STATUS_CALLS: [(u64, &str); 4] = [(1, "status"), (2, "probes"), (3, "list"), (4, "rules")];
/// The call that is made with each sample, because its answer changes as often.
const EVERY_SAMPLE: &str = "rules";
/// Periods of the monitor; shorter for a recording, so that a seek is shown at once.
const PERIOD_NS: u64 = 1_000_000_000;
const PLAYBACK_PERIOD_NS: u64 = 250_000_000;

/// What a feed needs of the listener.
pub struct FeedSource {
    /// The access level of its viewers.
    pub access: AccessLevel,
    /// Requests to the daemon loop.
    pub requests: mpsc::Sender<DaemonRequest>,
    /// The playback position; absent for live data.
    pub playback: Option<Arc<PlaybackClock>>,
    /// Counts viewers that fell behind.
    pub admission: Admission,
}

/// The feed of one access level.
#[derive(Clone)]
pub struct PageFeed {
    source: Arc<FeedSource>,
    state: Arc<Mutex<FeedState>>,
}

#[derive(Default)]
struct FeedState {
    table: PageTable,
    /// The last answer to each call of `STATUS_CALLS`, as events.
    status: [Option<Bytes>; STATUS_CALLS.len()],
    /// Of a recording: the number of seeks before the last sample that was shown, and its time.
    last_sample: (u64, u64),
    /// The snapshot for viewers that connect before the next change.
    snapshot: Option<Bytes>,
    /// Receives the changes; absent while the monitor does not run.
    viewers: Option<broadcast::Sender<Bytes>>,
}

/// When a sample was taken.
#[derive(serde::Deserialize)]
struct Time {
    time_unix_ns: u64,
}

/// The kind of a received line.
enum ReceivedLine {
    /// A sample.
    Sample {
        /// The number of viewers.
        viewers: usize,
    },
    /// The last line of the monitor.
    Ended,
    /// Another line.
    Other,
}

impl FeedState {
    fn broadcast(&mut self, event: Bytes) {
        self.snapshot = None;
        if let Some(viewers) = &self.viewers {
            // Fails only if there is no viewer at the moment.
            let _ = viewers.send(event);
        }
    }

    /// Whether a sample of a recording is shown: once, and only if it was read after the last seek.
    /// The first sample after a seek is not shown, because its rates cover the skipped time.
    fn shows(&mut self, clock: &PlaybackClock, sample: &str) -> bool {
        let Ok(Time { time_unix_ns }) = serde_json::from_str(sample) else { return false };
        let (seeks, read) = clock.reached();
        if time_unix_ns != read.0 {
            return false;
        }
        let before = std::mem::replace(&mut self.last_sample, (seeks, time_unix_ns));
        before.0 == seeks && before.1 != time_unix_ns
    }
}

impl PageFeed {
    /// A feed without viewers.
    pub fn new(source: FeedSource) -> Self {
        Self { source: Arc::new(source), state: Arc::default() }
    }

    /// The events for one more viewer; with a condition, only the processes that match it. Starts
    /// the monitor, unless it runs.
    ///
    /// # Errors
    ///
    /// When the loopback connection is refused.
    pub async fn subscribe(
        &self,
        condition: Option<Expression>,
    ) -> Result<mpsc::Receiver<Bytes>, String> {
        let is_stopped = lock(&self.state).viewers.is_none();
        if is_stopped {
            let FeedSource { requests, access, .. } = &*self.source;
            self.start(LoopbackClient::connect(requests, *access).await?);
        }
        let (sender, receiver) = mpsc::channel(2);
        let feed = self.clone();
        drop(tokio::spawn(async move {
            match condition {
                Some(condition) => feed.stream_matches(sender, condition).await,
                None => feed.stream_changes(sender).await,
            }
        }));
        Ok(receiver)
    }

    /// Starts to read, unless another task has done so meanwhile.
    fn start(&self, client: LoopbackClient) {
        let mut state = lock(&self.state);
        if state.viewers.is_none() {
            let (sender, _) = broadcast::channel(BACKLOG);
            let is_live = self.source.playback.is_none();
            let every = if is_live { PERIOD_NS } else { PLAYBACK_PERIOD_NS };
            *state = FeedState { viewers: Some(sender), ..FeedState::default() };
            drop(tokio::spawn(self.clone().read(client, every)));
        }
    }

    async fn read(self, client: LoopbackClient, every_ns: u64) {
        let fields: Vec<_> = COLUMNS.iter().chain(&NODE_FIELDS).collect();
        let params = json!({"part": "all", "fields": fields, "every_ns": every_ns});
        client.call(MONITOR_TAG, "monitor", &params).await;
        let (mut samples, mut idle) = (0, 0);
        while let Some(chunk) = client.next_lines().await {
            for line in lines(&chunk) {
                let viewers = match self.receive(line) {
                    ReceivedLine::Sample { viewers } => viewers,
                    ReceivedLine::Other => continue,
                    ReceivedLine::Ended => {
                        lock(&self.state).viewers = None;
                        return;
                    }
                };
                idle = if viewers == 0 { idle + 1 } else { 0 };
                let is_due = |method| samples % STATUS_EVERY == 0 || method == EVERY_SAMPLE;
                for (tag, method) in STATUS_CALLS.into_iter().filter(|it| is_due(it.1)) {
                    client.call(tag, method, &Value::Object(Default::default())).await;
                }
                samples += 1;
            }
            if idle >= IDLE_SAMPLES {
                break;
            }
        }
        lock(&self.state).viewers = None;
    }

    /// Handles a line.
    fn receive(&self, line: &[u8]) -> ReceivedLine {
        let Some(message) = Message::from_line(line) else { return ReceivedLine::Other };
        let mut state = lock(&self.state);
        let status_call = STATUS_CALLS.iter().position(|(tag, _)| message.id == Some(*tag));
        if let Some(error) = message.error {
            state.broadcast(frame("refused", error.get()));
            return if status_call.is_some() { ReceivedLine::Other } else { ReceivedLine::Ended };
        }
        if let Some(at) = status_call {
            let event = frame(STATUS_CALLS[at].1, message.result.map_or("null", RawValue::get));
            // An unchanged answer is not sent again.
            if state.status[at].as_ref() != Some(&event) {
                state.status[at] = Some(event.clone());
                state.broadcast(event);
            }
            return ReceivedLine::Other;
        }
        let Some((sample, is_last)) = message.sample() else { return ReceivedLine::Other };
        let clock = self.source.playback.as_deref();
        if let Some(clock) = clock {
            state.broadcast(frame("place", &clock.state_json()));
        }
        let sample = sample.filter(|it| clock.is_none_or(|clock| state.shows(clock, it.get())));
        if let Some(change) = sample.and_then(|it| state.table.apply(it.get())) {
            state.broadcast(frame("change", &change));
        }
        let viewers = state.viewers.as_ref().map_or(0, broadcast::Sender::receiver_count);
        if is_last { ReceivedLine::Ended } else { ReceivedLine::Sample { viewers } }
    }

    /// Sends changes to one viewer, until it disconnects or the feed ends.
    async fn stream_changes(self, viewer: mpsc::Sender<Bytes>) {
        loop {
            let Some((all, mut changes)) = self.snapshot() else { return };
            if viewer.send(all).await.is_err() {
                return;
            }
            let lagged = loop {
                match changes.recv().await {
                    Ok(event) => {
                        if viewer.send(event).await.is_err() {
                            return;
                        }
                    }
                    Err(RecvError::Lagged(_)) => break true,
                    Err(RecvError::Closed) => break false,
                }
            };
            if !lagged {
                return;
            }
            self.source.admission.count("viewer fell behind");
        }
    }

    /// Sends the matching processes to one viewer, whenever they change.
    async fn stream_matches(self, viewer: mpsc::Sender<Bytes>, condition: Expression) {
        let Some((_, mut changes)) = self.snapshot() else { return };
        let mut sent = None;
        loop {
            let matches = lock(&self.state).table.matching(|row| condition.admits(&FilterRow(row)));
            if matches.is_some() && matches != sent {
                let event = frame("fits", matches.as_deref().unwrap_or_default());
                if viewer.send(event).await.is_err() {
                    return;
                }
                sent = matches;
            }
            tokio::select! {
                // After a lag, the next change carries the complete list.
                change = changes.recv() => if matches!(change, Err(RecvError::Closed)) { return },
                () = viewer.closed() => return,
            }
        }
    }

    /// The snapshot, and the changes after it.
    fn snapshot(&self) -> Option<(Bytes, broadcast::Receiver<Bytes>)> {
        let mut state = lock(&self.state);
        let changes = state.viewers.as_ref()?.subscribe();
        if state.snapshot.is_none() {
            let mut all = frame("whole", &state.table.snapshot()).to_vec();
            state.status.iter().flatten().for_each(|it| all.extend_from_slice(it));
            state.snapshot = Some(all.into());
        }
        Some((state.snapshot.clone()?, changes))
    }
}
