//! The calls `heartbeat`, `beat` and `file`, and the checks of alarms.
//!
//! In: calls, and the metadata of files that the caller of the engine reads. Out: replies and
//! alerts; the reply to `file` follows the first check. Opens no file and never waits.

use super::alarm::{Alarm, AlarmSpec, AlarmWatch, AlertRange, PendingAlert};
use super::{
    Answer, Caller, FileToStat, MonitorEngine, MonitorKey, MonitorOutput, caller::TaggedCaller,
    monitor::EventOrigin, pending::ClaimPurpose, start::per_second,
};
use monitor_model::{Ns, Pid, Refusal, Status};
use monitor_protocol::event::{Alert, EndReason};
use monitor_protocol::params::{FileWatch, Heartbeat};
use monitor_sampling::file_watch::{FileChangeWatch, FileChanges, FileStat, StatFailure};
use monitor_sampling::{heartbeat::HeartbeatWatch, plan};

/// `PMIX_MONITOR_HEARTBEAT_ALERT` of pmix_common.h.
const HEARTBEAT_ALERT: i32 = -109;
/// `PMIX_MONITOR_FILE_ALERT` of pmix_common.h.
const FILE_ALERT: i32 = -110;

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
        self.check_alarm_rate(caller, every)?;
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

    /// Checks the rate of all heartbeat and file watches of the user together.
    fn check_alarm_rate(&self, caller: &Caller, every: Ns) -> Result<(), Refusal> {
        let own = self.alarms.values().filter(|it| it.uid == caller.uid).map(|it| it.every);
        let sum: f64 = own.chain([every]).map(per_second).sum();
        let (most, uid) = (self.limits.checks_per_second, caller.uid);
        if sum <= most as f64 {
            return Ok(());
        }
        Err(Refusal::limit(format!(
            "the watches of user {uid} would make {sum:.0} checks per second, the limit \
             \"checks_per_second\" is {most}: increase intervals, or cancel some"
        )))
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
                    let Some(missed) = heartbeats.advance(now) else { continue };
                    let alert = Alert::Heartbeat {
                        pid: *pid,
                        missed_windows: missed.windows,
                        late_ns: missed.late.0,
                        heartbeats: missed.count,
                    };
                    alerts.push(alarm.alert(EventOrigin { node: &self.node, unix }, alert));
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

    /// Starts a file watch; the reply follows the first check.
    pub(super) fn file(
        &mut self,
        (caller, first): TaggedCaller<'_>,
        params: FileWatch,
        (now, out): (Ns, &mut Vec<MonitorOutput>),
    ) -> Result<Option<Answer>, Refusal> {
        let every = self.window(params.every_ns)?;
        let changes =
            FileChanges { size: params.size, access: params.access, modify: params.modify };
        if !changes.any() {
            return Err(Refusal::bad("file: set at least one of size, access and modify"));
        }
        if !params.path.starts_with('/') || params.path.contains('\0') {
            let path = &params.path;
            return Err(Refusal::bad(format!("path {path:?}: expected an absolute path")));
        }
        if self.limits.only_files_of.is_some_and(|only| only != caller.uid) {
            return Err(Refusal::denied(
                "file: the service cannot check it with your rights: it needs CAP_SETUID \
                and CAP_SETGID",
            ));
        }
        let watched = FileChangeWatch::new(changes, params.drops, params.repeat);
        let (path, begun) = (params.path, false);
        let watch = AlarmWatch::File { path, watched, due: now, out: false, begun, first };
        let code = params.code.unwrap_or(FILE_ALERT);
        let (id, replace, range) = (params.id, params.replace, AlertRange::Requestor);
        self.add_alarm(caller, AlarmSpec { id, replace, every, code, range, watch }, (now, out))?;
        Ok(None)
    }

    /// Handles the metadata of a watched file.
    pub(super) fn file_checked(
        &mut self,
        key: MonitorKey,
        stat: Result<FileStat, StatFailure>,
        now: Ns,
        out: &mut Vec<MonitorOutput>,
    ) {
        if !self.first_check_done(key, stat, out) {
            return;
        }
        let unix = self.realtime(now);
        let Some(alarm) = self.alarms.get_mut(&key) else { return };
        let AlarmWatch::File { path, watched, .. } = &mut alarm.watch else { return };
        let Some(unchanged) = watched.check(stat.ok()) else { return };
        let (seen, path) = (watched.seen(), path.clone());
        let (missing, size) = (seen.is_none(), seen.map(|stat| stat.size));
        let alert = Alert::File { path, unchanged, missing, size };
        let pending = alarm.alert(EventOrigin { node: &self.node, unix }, alert);
        self.alert(pending, out);
    }

    /// Replies after the first check, with a refusal if the caller may not read the file. Returns
    /// whether the watch continues; it may have been cancelled meanwhile.
    fn first_check_done(
        &mut self,
        key: MonitorKey,
        stat: Result<FileStat, StatFailure>,
        out: &mut Vec<MonitorOutput>,
    ) -> bool {
        let Some(alarm) = self.alarms.get_mut(&key) else { return false };
        let AlarmWatch::File { path, out: away, begun, first, .. } = &mut alarm.watch else {
            return false;
        };
        *away = false;
        if std::mem::replace(begun, true) {
            return true;
        }
        let (to, tag, id) = (alarm.owner, first.take(), alarm.id.clone());
        let denied = || Refusal::denied(format!("file {path:?}: permission denied"));
        let refusal = (stat == Err(StatFailure::Denied)).then(denied);
        let answer = refusal.clone().map_or(Ok(Answer::Set { id }), Err);
        out.extend(tag.map(|tag| MonitorOutput::Reply { to, tag, answer }));
        let Some(refusal) = refusal else { return true };
        self.alarms.remove(&key);
        self.count_refusal_to(to, "file", &refusal);
        false
    }
}

fn range(name: Option<&str>) -> Result<AlertRange, Refusal> {
    match name {
        None | Some("requestor") => Ok(AlertRange::Requestor),
        Some("user") => Ok(AlertRange::User),
        Some(other) => Err(Refusal::bad(format!("range {other:?}: expected requestor or user"))),
    }
}
