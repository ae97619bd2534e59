//! File watches: the call `file`, and the results of checks.
//!
//! In: the call, and the metadata that the caller of the engine reads. Out: a reply after the first
//! check, and alerts. Opens no file and never waits.

use super::{AlarmSpec, AlarmWatch, AlertRange, EventOrigin};
use crate::process_registration::TaggedCaller;
use crate::{Answer, MonitorEngine, MonitorKey, MonitorOutput};
use monitor_model::id::Ns;
use monitor_model::status::Refusal;
use monitor_protocol::event::Alert;
use monitor_protocol::params::FileWatch;
use monitor_sampling::file_watch::{FileChangeWatch, FileChanges, FileStat, StatFailure};

/// `PMIX_MONITOR_FILE_ALERT` of pmix_common.h.
const FILE_ALERT: i32 = -110;

impl MonitorEngine {
    /// Starts a file watch; the reply follows the first check.
    pub(crate) fn file(
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
    pub(crate) fn file_checked(
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
