//! What a client is told unasked: a sample of a monitor, or an alert. One notification, one line.

use super::decode;
use monitor_model::rates::Rates;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Why a monitor has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// All that it watched is gone.
    TargetsGone,
    /// It gave as many samples as were asked for.
    Count,
    /// Its lease ran out.
    LeaseExpired,
    /// Somebody else cancelled it.
    Cancelled,
    /// The service ends.
    Shutdown,
    /// The reading failed as a whole.
    Failed,
    /// Another with the same id took its place.
    Replaced,
}

impl Reason {
    /// Its name, as it is told.
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

/// An event.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Event {
    /// Of which monitor.
    pub id: String,
    /// Its place in the series; the reply was 0.
    pub seq: u64,
    /// The number that was asked for (the event code of PMIx).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Nanoseconds from one to the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_ns: Option<u64>,
    /// Ticks left out since it began, because a reading took longer than the period.
    pub missed: u64,
    /// Events of this monitor dropped since the one before, because its reader was too slow.
    #[serde(default)]
    pub dropped: u64,
    /// How long after its tick it was ready.
    #[serde(default)]
    pub late_ns: u64,
    /// The node.
    pub node: String,
    /// When, on the realtime clock.
    pub time_unix_ns: u64,
    /// Rows that there were to choose from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<u64>,
    /// Something that was asked for is missing; the notes of the sample, or these, say what.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Notes on a sample that has no room for them: one in the form of PMIx.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Why it is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Reason>,
    /// One sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What is told instead of a sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alert: Option<Alert>,
    /// The sample, in the form of `--format json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Box<RawValue>>,
}

/// Something that did not happen in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Alert {
    /// No beat came.
    Heartbeat {
        /// Who should have beaten.
        pid: u32,
        /// Windows in a row without a beat.
        missed_windows: u64,
        /// Time since the last beat, or since the watch began.
        late_ns: u64,
        /// Beats until now.
        beats: u64,
    },
    /// A file did not change.
    File {
        /// Which.
        path: String,
        /// Looks in a row that found it as it was, or did not find it.
        unchanged: u64,
        /// It is not there any more, or cannot be looked at.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        missing: bool,
        /// Its size in bytes, if it could be looked at.
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
    /// Its line.
    pub fn to_line(&self) -> Vec<u8> {
        let it = Notification { jsonrpc: "2.0", method: "event", params: self };
        let mut line =
            serde_json::to_vec(&it).expect("keys are strings and a vector takes every byte");
        line.push(b'\n');
        line
    }

    /// The sample, read back into rows; none, if this event has none.
    pub fn rates(&self) -> Result<Option<Rates>, serde_json::Error> {
        self.sample.as_ref().map(|sample| decode::rates(sample.get())).transpose()
    }

    /// Whether it may never be dropped: the last of a series, or an alert.
    pub const fn must_arrive(&self) -> bool {
        self.ended.is_some() || self.alert.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_one_name() {
        use Reason as R;
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
    fn an_event_tells_which_and_how_late() {
        let event = Event { id: "a".into(), seq: 3, node: "n".into(), ..Event::default() };
        assert_eq!(
            String::from_utf8(event.to_line()).expect("text"),
            "{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"id\":\"a\",\"seq\":3,\
             \"missed\":0,\"dropped\":0,\"late_ns\":0,\"node\":\"n\",\"time_unix_ns\":0}}\n"
        );
    }
}
