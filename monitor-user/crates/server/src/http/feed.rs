//! One monitor of everybody, shown to all viewers of the page: however many watch, it is read and
//! compared once.
//!
//! In: viewers as they come and go. Out: events for each: the table as a whole, then what changes.
//! Who falls behind is told the whole again, and that is counted. The monitor begins with the
//! first viewer and ends a little after the last.

use super::fits::Shown;
use super::guest::Guest;
use super::message::{Message, frame};
use super::table::{COLUMNS, Table};
use super::{Dial, Shared, Sight};
use bytes::Bytes;
use monitor_sampling::expression::Expression;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::mpsc;

/// Changes that may wait for a viewer.
const BEHIND: usize = 8;
/// Samples after the last viewer has gone before the monitor ends.
const LINGER: u32 = 5;
/// Samples from one question about the service to the next.
const OWN: u32 = 5;

/// What is read of the node beside the processes.
const NODE: [&str; 29] = [
    "node.uptime_ns",
    "node.cpus",
    "node.load1",
    "node.load5",
    "node.load15",
    "node.mem_total_bytes",
    "node.mem_available_bytes",
    "node.swap_total_bytes",
    "node.swap_free_bytes",
    "node.tasks_running",
    "node.tasks_blocked",
    "node.cpu_user_percent",
    "node.cpu_system_percent",
    "node.cpu_idle_percent",
    "node.cpu_iowait_percent",
    "node.cpu_steal_percent",
    "node.psi_cpu_some_percent",
    "node.psi_memory_some_percent",
    "node.psi_io_some_percent",
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

/// Tags of its calls.
const MONITOR: u64 = 0;
const ASKED: [(u64, &str); 4] = [(1, "status"), (2, "probes"), (3, "list"), (4, "rules")];
/// Those of them that are asked for with each sample: what they tell changes as fast.
const OFTEN: &str = "rules";
/// From one sample to the next; of a recording sooner, so that another time in it is there at once.
const EVERY: u64 = 1_000_000_000;
const EVERY_OF_RECORDING: u64 = 250_000_000;

/// The feed for one kind of sight.
#[derive(Clone, Default)]
pub struct Feed(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    table: Table,
    /// What the service last said of itself, by tag.
    own: [Option<Bytes>; ASKED.len()],
    /// Where in a recording this is.
    place: Place,
    /// All of it, for those who come before the next change.
    whole: Option<Bytes>,
    /// Where changes go; nobody reads, if absent.
    viewers: Option<broadcast::Sender<Bytes>>,
}

/// Where in a recording this is, and what of it is shown.
#[derive(Default)]
struct Place {
    dial: Option<Arc<Dial>>,
    /// How often its hand had been put elsewhere, and which sample was heard, by its time.
    heard: (u64, u64),
}

impl Place {
    /// Whether a sample is shown: one that was read since the hand was put elsewhere, but the
    /// first, whose rates are over the time that was passed over; and each once.
    fn shows(&mut self, sample: &str) -> bool {
        let Some(dial) = &self.dial else { return true };
        let Ok(Time { time_unix_ns }) = serde_json::from_str(sample) else { return false };
        let (turned, read) = dial.reached();
        if time_unix_ns != read.0 {
            return false;
        }
        let before = std::mem::replace(&mut self.heard, (turned, time_unix_ns));
        before.0 == turned && before.1 != time_unix_ns
    }
}

/// When a sample was taken.
#[derive(serde::Deserialize)]
struct Time {
    time_unix_ns: u64,
}

/// What a line was.
enum Heard {
    /// A sample, for so many.
    Sample {
        /// Viewers.
        viewers: usize,
    },
    /// No sample follows.
    Over,
    /// Something else.
    Other,
}

impl State {
    fn tell(&mut self, event: Bytes) {
        self.whole = None;
        if let Some(viewers) = &self.viewers {
            // Nobody may be there just now.
            let _ = viewers.send(event);
        }
    }
}

impl Feed {
    /// Shows it to one more viewer.
    pub async fn show(
        &self,
        shared: &Arc<Shared>,
        sight: Sight,
    ) -> Result<mpsc::Receiver<Bytes>, String> {
        self.open(shared, sight).await?;
        let (sender, receiver) = mpsc::channel(2);
        drop(tokio::spawn(self.clone().tell(sender, Arc::clone(shared))));
        Ok(receiver)
    }

    /// Shows one viewer who of it fits a condition.
    pub async fn filter(
        &self,
        (shared, sight): (&Arc<Shared>, Sight),
        condition: Expression,
    ) -> Result<mpsc::Receiver<Bytes>, String> {
        self.open(shared, sight).await?;
        let (sender, receiver) = mpsc::channel(2);
        drop(tokio::spawn(self.clone().sift(sender, condition)));
        Ok(receiver)
    }

    /// Begins, unless it has.
    async fn open(&self, shared: &Shared, sight: Sight) -> Result<(), String> {
        let missing = self.lock().viewers.is_none();
        if missing {
            let guest = Guest::join(shared, sight).await?;
            self.begin(guest, shared.dial.clone());
        }
        Ok(())
    }

    /// Reads, unless somebody else began meanwhile.
    fn begin(&self, guest: Guest, dial: Option<Arc<Dial>>) {
        let mut state = self.lock();
        if state.viewers.is_none() {
            let (sender, _) = broadcast::channel(BEHIND);
            let every = if dial.is_some() { EVERY_OF_RECORDING } else { EVERY };
            let place = Place { dial, ..Place::default() };
            *state = State { viewers: Some(sender), place, ..State::default() };
            drop(tokio::spawn(self.clone().read(guest, every)));
        }
    }

    async fn read(self, guest: Guest, every_ns: u64) {
        let fields: Vec<_> = COLUMNS.iter().chain(&NODE).collect();
        let params = json!({"part": "all", "fields": fields, "every_ns": every_ns});
        guest.call(MONITOR, "monitor", &params).await;
        let (mut samples, mut alone) = (0, 0);
        while let Some(lines) = guest.hear().await {
            for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let viewers = match self.hear(line) {
                    Heard::Sample { viewers } => viewers,
                    Heard::Other => continue,
                    Heard::Over => {
                        self.lock().viewers = None;
                        return;
                    }
                };
                alone = if viewers == 0 { alone + 1 } else { 0 };
                let is_due = |method| samples % OWN == 0 || method == OFTEN;
                for (tag, method) in ASKED.into_iter().filter(|it| is_due(it.1)) {
                    guest.call(tag, method, &Value::Object(Default::default())).await;
                }
                samples += 1;
            }
            if alone >= LINGER {
                break;
            }
        }
        self.lock().viewers = None;
    }

    /// Takes a line.
    fn hear(&self, line: &[u8]) -> Heard {
        let Some(message) = Message::of(line) else { return Heard::Other };
        let mut state = self.lock();
        let asked = ASKED.iter().position(|(tag, _)| message.id == Some(*tag));
        if let Some(error) = message.error {
            state.tell(frame("refused", error.get()));
            return if asked.is_some() { Heard::Other } else { Heard::Over };
        }
        if let Some(at) = asked {
            let event = frame(ASKED[at].1, message.result.map_or("null", RawValue::get));
            // What stays as it was is not told again.
            if state.own[at].as_ref() != Some(&event) {
                state.own[at] = Some(event.clone());
                state.tell(event);
            }
            return Heard::Other;
        }
        let Some((sample, over)) = message.sample() else { return Heard::Other };
        if let Some(dial) = state.place.dial.clone() {
            state.tell(frame("place", &dial.place()));
        }
        let sample = sample.filter(|it| state.place.shows(it.get()));
        if let Some(change) = sample.and_then(|it| state.table.take(it.get())) {
            state.tell(frame("change", &change));
        }
        let viewers = state.viewers.as_ref().map_or(0, broadcast::Sender::receiver_count);
        if over { Heard::Over } else { Heard::Sample { viewers } }
    }

    /// Tells one viewer, until he goes or the feed ends.
    async fn tell(self, viewer: mpsc::Sender<Bytes>, shared: Arc<Shared>) {
        loop {
            let Some((all, mut changes)) = self.whole() else { return };
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
            shared.admission.count("viewer fell behind");
        }
    }

    /// Tells one viewer who fits, whenever these are others.
    async fn sift(self, viewer: mpsc::Sender<Bytes>, condition: Expression) {
        let Some((_, mut changes)) = self.whole() else { return };
        let mut told = None;
        loop {
            let fits = self.lock().table.fits(|row| condition.admits(&Shown(row)));
            if fits.is_some() && fits != told {
                let event = frame("fits", fits.as_deref().unwrap_or_default());
                if viewer.send(event).await.is_err() {
                    return;
                }
                told = fits;
            }
            tokio::select! {
                // Who missed some sees all of it at the next.
                change = changes.recv() => if matches!(change, Err(RecvError::Closed)) { return },
                () = viewer.closed() => return,
            }
        }
    }

    /// All there is, and where what changes after that comes from.
    fn whole(&self) -> Option<(Bytes, broadcast::Receiver<Bytes>)> {
        let mut state = self.lock();
        let changes = state.viewers.as_ref()?.subscribe();
        if state.whole.is_none() {
            let mut all = frame("whole", &state.table.whole()).to_vec();
            state.own.iter().flatten().for_each(|it| all.extend_from_slice(it));
            state.whole = Some(all.into());
        }
        Some((state.whole.clone()?, changes))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is whole, whatever became of who made it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
