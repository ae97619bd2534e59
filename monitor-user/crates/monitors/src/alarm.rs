//! Alarms: late heartbeats, and files that do not change.
//!
//! An alarm is a monitor that sends an event when something has not happened in time. It shares the
//! monitors' names, and ends with its connection.

use super::{MonitorOutput, monitor::EventOrigin};
use monitor_model::{Ns, Refusal, Status};
use monitor_protocol::event::{Alert, EndReason, Event};
use monitor_protocol::{Conn, answer::MonitorSummary, call::Tag};
use monitor_sampling::{file_watch::FileChangeWatch, heartbeat::HeartbeatWatch};

/// An alarm.
pub struct Alarm {
    /// Its name.
    pub id: String,
    /// The connection that started it.
    pub owner: Conn,
    /// The connection's user.
    pub uid: u32,
    /// The connection's process.
    pub pid: u32,
    /// The interval of its checks.
    pub every: Ns,
    /// Number of alerts so far.
    pub seq: u64,
    pub code: i32,
    pub range: AlertRange,
    pub watch: AlarmWatch,
}

/// The parameters of a new alarm.
pub struct AlarmSpec {
    pub id: Option<String>,
    pub replace: bool,
    pub every: Ns,
    pub code: i32,
    pub range: AlertRange,
    pub watch: AlarmWatch,
}

/// An alert, before its receivers are known.
pub struct PendingAlert {
    pub owner: Conn,
    pub range: AlertRange,
    pub event: Event,
}

/// The receivers of alerts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AlertRange {
    /// The connection that started the alarm.
    Requestor,
    /// All connections of its user.
    User,
}

pub enum AlarmWatch {
    Heartbeat {
        /// The process that sends heartbeats.
        pid: u32,
        heartbeats: HeartbeatWatch,
    },
    File {
        path: String,
        watched: FileChangeWatch,
        due: Ns,
        /// Whether a check is running.
        out: bool,
        /// Whether the first check is done; it gives the reply.
        begun: bool,
        /// The tag of the call, until its reply.
        first: Option<Tag>,
    },
}

impl Alarm {
    /// Its entry in the list of monitors.
    pub fn summary(&self) -> MonitorSummary {
        MonitorSummary {
            id: self.id.clone(),
            uid: self.uid,
            requestor: self.pid,
            period_ns: Some(self.every.0),
            samples: self.seq,
            attached: true,
            ..MonitorSummary::default()
        }
    }

    /// When its next check is due.
    pub fn due(&self) -> Option<Ns> {
        match &self.watch {
            AlarmWatch::Heartbeat { heartbeats, .. } => Some(heartbeats.due()),
            AlarmWatch::File { due, out, .. } => (!out).then_some(*due),
        }
    }

    /// The reply to its call, if it ends before its first check.
    pub fn refuse_pending_call(&mut self) -> Option<MonitorOutput> {
        let AlarmWatch::File { first, .. } = &mut self.watch else { return None };
        let (to, tag) = (self.owner, first.take()?);
        let text = format!("monitor {:?} ended before its first check", self.id);
        Some(MonitorOutput::Reply {
            to,
            tag,
            answer: Err(Refusal::new(Status::NotAvailable, text)),
        })
    }

    pub fn alert(&mut self, by: EventOrigin<'_>, alert: Alert) -> PendingAlert {
        self.seq += 1;
        let event = Event { alert: Some(alert), ..self.event(by) };
        PendingAlert { owner: self.owner, range: self.range, event }
    }

    /// Its end event.
    pub fn end_event(&self, reason: EndReason, by: EventOrigin<'_>) -> MonitorOutput {
        let event = Event { ended: Some(reason), ..self.event(by) };
        MonitorOutput::Event { to: self.owner, event }
    }

    fn event(&self, by: EventOrigin<'_>) -> Event {
        Event {
            id: self.id.clone(),
            seq: self.seq,
            code: Some(self.code),
            period_ns: Some(self.every.0),
            node: by.node.to_string(),
            time_unix_ns: by.unix.0,
            ..Event::default()
        }
    }
}
