//! Events: samples and alerts of monitors, one JSON-RPC notification on each line.

use super::{decode, line::to_line};
use monitor_model::Rates;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Why a monitor has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// All targets have ended.
    TargetsGone,
    /// It has sent the requested number of samples.
    Count,
    /// Its lease has expired.
    LeaseExpired,
    /// Another client cancelled it.
    Cancelled,
    /// The service shuts down.
    Shutdown,
    /// The reading failed.
    Failed,
    /// Another monitor with the same id replaced it.
    Replaced,
}

impl EndReason {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TargetsGone => "targets_gone",
            Self::Count => "count",
            Self::LeaseExpired => "lease_expired",
            Self::Cancelled => "cancelled",
            Self::Shutdown => "shutdown",
            Self::Failed => "failed",
            Self::Replaced => "replaced",
        }
    }
}

/// An event of a monitor.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Event {
    /// The monitor.
    pub id: String,
    /// Its position in the series; the reply was 0.
    pub seq: u64,
    /// The requested event code (of PMIx).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The period in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_ns: Option<u64>,
    /// Ticks missed since the start, because a reading took longer than the period.
    pub missed: u64,
    /// Events of this monitor dropped since the previous one, because the client was too slow.
    #[serde(default)]
    pub dropped: u64,
    /// Delay after its tick.
    #[serde(default)]
    pub late_ns: u64,
    /// The node.
    pub node: String,
    /// Time on the realtime clock.
    pub time_unix_ns: u64,
    /// Number of rows before the selection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<u64>,
    /// Whether requested data is missing; the notes of the sample, or these, describe it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Notes on a sample whose form has no place for them: the PMIx form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Why this event is the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<EndReason>,
    /// A message for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The alert, instead of a sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alert: Option<Alert>,
    /// The sample, as `--format json` prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Box<RawValue>>,
}

impl Event {
    /// Its memory in bytes, nearly.
    pub fn memory(&self) -> usize {
        let sample = self.sample.as_ref().map_or(0, |it| it.get().len());
        size_of::<Self>() + self.id.len() + self.node.len() + sample
    }
}

/// An alert: something has not happened in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Alert {
    /// A heartbeat is missing.
    Heartbeat {
        /// The watched process.
        pid: u32,
        /// Windows in a row without a heartbeat.
        missed_windows: u64,
        /// Time since the last heartbeat, or since the start of the watch.
        late_ns: u64,
        /// Number of heartbeats so far.
        #[serde(rename = "beats")]
        heartbeats: u64,
    },
    /// A file did not change.
    File {
        /// Its path.
        path: String,
        /// Checks in a row that found it unchanged, or missing.
        unchanged: u64,
        /// Whether it is missing or unreadable.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        missing: bool,
        /// Its size in bytes, if it could be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
    },
}

#[derive(Serialize)]
struct Notification<'a> {
    jsonrpc: &'static str,
    method: &'static str,
    params: &'a Event,
}

impl Event {
    /// The line of the notification.
    pub fn to_line(&self) -> Vec<u8> {
        to_line(&Notification { jsonrpc: "2.0", method: "event", params: self })
    }

    /// The decoded sample; `None` if the event has none.
    ///
    /// # Errors
    /// If the sample is malformed.
    pub fn rates(&self) -> Result<Option<Rates>, serde_json::Error> {
        self.sample.as_ref().map(|sample| decode::rates(sample.get())).transpose()
    }

    /// Whether it must not be dropped: the last of a series, or an alert.
    pub const fn must_arrive(&self) -> bool {
        self.ended.is_some() || self.alert.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_one_name() {
        use EndReason as R;
        for reason in [
            R::TargetsGone,
            R::Count,
            R::LeaseExpired,
            R::Cancelled,
            R::Shutdown,
            R::Failed,
            R::Replaced,
        ] {
            assert_eq!(serde_json::json!(reason), reason.name());
        }
    }

    #[test]
    fn an_event_has_its_position_and_its_delay() {
        let event = Event { id: "a".into(), seq: 3, node: "n".into(), ..Event::default() };
        assert_eq!(
            String::from_utf8(event.to_line()).expect("text"),
            "{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"id\":\"a\",\"seq\":3,\
             \"missed\":0,\"dropped\":0,\"late_ns\":0,\"node\":\"n\",\"time_unix_ns\":0}}\n"
        );
    }
}
