//! Alarms: late heartbeats, and files that do not change.
//!
//! An alarm is a monitor that sends an event when something has not happened in time. It shares the
//! monitors' names, and ends with its connection.

mod file;
#[cfg(test)]
mod tests;

use super::monitor::EventOrigin;
use super::process_registration::{ClaimPurpose, TaggedCaller};
use super::{Answer, Caller, MonitorEngine, MonitorKey, MonitorOutput};
use monitor_model::id::{Ns, Pid};
use monitor_model::status::{Refusal, Status};
use monitor_protocol::Conn;
use monitor_protocol::call::Tag;
use monitor_protocol::event::{Alert, EndReason, Event};
use monitor_protocol::params::Heartbeat;
use monitor_sampling::file_watch::FileChangeWatch;
use monitor_sampling::heartbeat::{HeartbeatWatch, MissedHeartbeats};
use monitor_sampling::plan;

/// `PMIX_MONITOR_HEARTBEAT_ALERT` of pmix_common.h.
const HEARTBEAT_ALERT: i32 = -109;

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
    code: i32,
    range: AlertRange,
    watch: AlarmWatch,
}

/// The parameters of a new alarm.
struct AlarmSpec {
    id: Option<String>,
    replace: bool,
    every: Ns,
    code: i32,
    range: AlertRange,
    watch: AlarmWatch,
}

/// An alert, before its receivers are known.
struct PendingAlert {
    owner: Conn,
    range: AlertRange,
    event: Event,
}

/// The receivers of alerts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AlertRange {
    /// The connection that started the alarm.
    Requestor,
    /// All connections of its user.
    User,
}

enum AlarmWatch {
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

/// A request to read the metadata of a file, as this user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileToStat {
    /// The alarm.
    pub key: MonitorKey,
    /// The file.
    pub path: String,
    /// The user whose rights apply.
    pub uid: u32,
    /// The user's group.
    pub gid: u32,
}

impl Alarm {
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

    fn alert(&mut self, by: EventOrigin<'_>, alert: Alert) -> PendingAlert {
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

impl MonitorEngine {
    /// Starts a heartbeat watch. For another process than the caller's, its existence and owner are
    /// checked first.
    pub(super) fn heartbeat(
        &mut self,
        (caller, tag): TaggedCaller<'_>,
        params: Heartbeat,
        (now, out): (Ns, &mut Vec<MonitorOutput>),
    ) -> Result<Option<Answer>, Refusal> {
        self.window(params.every_ns)?;
        range(params.range.as_deref())?;
        match params.pid.filter(|pid| *pid != caller.pid) {
            None => self.start_heartbeat(caller, params, (now, out)).map(Some),
            Some(0) => Err(Refusal::bad("pid 0: the id of a process, or none for the caller")),
            Some(pid) => {
                self.queue_claim(
                    (caller, tag),
                    (Pid(pid), None),
                    ClaimPurpose::Heartbeat(params),
                    now,
                )?;
                Ok(None)
            }
        }
    }

    /// Starts a heartbeat watch for a checked process.
    pub(super) fn start_heartbeat(
        &mut self,
        caller: &Caller,
        params: Heartbeat,
        (now, out): (Ns, &mut Vec<MonitorOutput>),
    ) -> Result<Answer, Refusal> {
        let every = self.window(params.every_ns)?;
        let heartbeats = HeartbeatWatch::new(now, every, params.drops, params.repeat);
        let pid = params.pid.unwrap_or(caller.pid);
        let watch = AlarmWatch::Heartbeat { pid, heartbeats };
        let code = params.code.unwrap_or(HEARTBEAT_ALERT);
        let range = range(params.range.as_deref())?;
        let (id, replace) = (params.id, params.replace);
        self.add_alarm(caller, AlarmSpec { id, replace, every, code, range, watch }, (now, out))
    }

    fn window(&self, every_ns: u64) -> Result<Ns, Refusal> {
        if every_ns == 0 {
            return Err(Refusal::bad("every_ns 0: expected the length of a window"));
        }
        self.limits.check_period(every_ns)?;
        Ok(Ns(every_ns))
    }

    fn add_alarm(
        &mut self,
        caller: &Caller,
        AlarmSpec { id, replace, every, code, range, watch }: AlarmSpec,
        (now, out): (Ns, &mut Vec<MonitorOutput>),
    ) -> Result<Answer, Refusal> {
        self.check_monitor_limit(caller)?;
        let id = match id {
            Some(id) => id,
            None => self.free_name(caller),
        };
        plan::check_name(&id)?;
        if let Some(key) = self.find(caller, &id) {
            if !replace {
                let why = "exists already: cancel it, or set replace";
                return Err(Refusal::new(Status::Exists, format!("monitor {id:?} {why}")));
            }
            self.end_monitor(key, (Some(EndReason::Replaced), now), out);
        }
        let answer = Answer::Set { id: id.clone() };
        let (owner, uid, pid) = (caller.conn, caller.uid, caller.pid);
        let alarm = Alarm { id, owner, uid, pid, every, seq: 0, code, range, watch };
        self.alarms.insert(self.next_key, alarm);
        self.next_key += 1;
        Ok(answer)
    }

    /// Counts a heartbeat for all alarms that watch the caller's process.
    pub(super) fn count_heartbeat(&mut self, caller: &Caller, now: Ns) {
        for alarm in self.alarms.values_mut() {
            let may = caller.is_root() || alarm.uid == caller.uid || alarm.uid == 0;
            match &mut alarm.watch {
                AlarmWatch::Heartbeat { pid, heartbeats } if *pid == caller.pid && may => {
                    heartbeats.record_heartbeat(now)
                }
                _ => {}
            }
        }
    }

    /// Runs the checks that are due.
    pub(super) fn check_alarms(&mut self, now: Ns, out: &mut Vec<MonitorOutput>) {
        let mut alerts = Vec::new();
        let unix = self.realtime(now);
        for (key, alarm) in &mut self.alarms {
            match &mut alarm.watch {
                AlarmWatch::Heartbeat { pid, heartbeats } => {
                    if let Some(MissedHeartbeats { windows, late, count }) = heartbeats.advance(now)
                    {
                        let (pid, late_ns) = (*pid, late.0);
                        let alert = Alert::Heartbeat {
                            pid,
                            missed_windows: windows,
                            late_ns,
                            heartbeats: count,
                        };
                        alerts.push(alarm.alert(EventOrigin { node: &self.node, unix }, alert));
                    }
                }
                AlarmWatch::File { path, due, out: away, .. } if !*away && *due <= now => {
                    *away = true;
                    *due = Ns(now.0.saturating_add(alarm.every.0));
                    let gid = self.callers.get(&alarm.owner).map_or(alarm.uid, |it| it.gid);
                    let (key, path, uid) = (*key, path.clone(), alarm.uid);
                    out.push(MonitorOutput::StatFile(FileToStat { key, path, uid, gid }));
                }
                AlarmWatch::File { .. } => {}
            }
        }
        alerts.into_iter().for_each(|it| self.alert(it, out));
    }

    fn alert(
        &self,
        PendingAlert { owner, range, event }: PendingAlert,
        out: &mut Vec<MonitorOutput>,
    ) {
        let uid = self.callers.get(&owner).map(|it| it.uid);
        let receives = |it: &&Caller| match range {
            AlertRange::Requestor => it.conn == owner,
            AlertRange::User => Some(it.uid) == uid,
        };
        let receivers = self.callers.values().filter(receives);
        out.extend(receivers.map(|it| MonitorOutput::Event { to: it.conn, event: event.clone() }));
    }
}

fn range(name: Option<&str>) -> Result<AlertRange, Refusal> {
    match name {
        None | Some("requestor") => Ok(AlertRange::Requestor),
        Some("user") => Ok(AlertRange::User),
        Some(other) => Err(Refusal::bad(format!("range {other:?}: expected requestor or user"))),
    }
}
