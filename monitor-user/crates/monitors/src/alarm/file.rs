//! Files that should change: who asks for a watch, and what the looks at them come to.
//!
//! In: the call, and what somebody else saw of the file. Out: an answer with the first look, and
//! alerts. Opens no file, and does not wait for one.

use super::{Range, Teller, Terms, Watch};
use crate::register::By;
use crate::{Answer, Engine, Key, Output};
use monitor_model::id::Ns;
use monitor_model::status::Refusal;
use monitor_protocol::event::Alert;
use monitor_protocol::params::FileWatch;
use monitor_sampling::file::{Changes, Stat, Unseen, Watched};

/// `PMIX_MONITOR_FILE_ALERT` of pmix_common.h.
const FILE_ALERT: i32 = -110;

impl Engine {
    /// Watches that a file changes; the answer comes when it was looked at.
    pub(crate) fn file(
        &mut self,
        (caller, first): By<'_>,
        params: FileWatch,
        (now, out): (Ns, &mut Vec<Output>),
    ) -> Result<Option<Answer>, Refusal> {
        let every = self.window(params.every_ns)?;
        let changes = Changes { size: params.size, access: params.access, modify: params.modify };
        if !changes.any() {
            return Err(Refusal::bad("file: say what counts: size, access or modify"));
        }
        if !params.path.starts_with('/') || params.path.contains('\0') {
            let path = &params.path;
            return Err(Refusal::bad(format!("path {path:?}: the full path of a file")));
        }
        if self.limits.files_of.is_some_and(|only| only != caller.uid) {
            return Err(Refusal::denied(
                "file: the service cannot look with your rights: it needs CAP_SETUID, \
                 CAP_SETGID for that",
            ));
        }
        let watched = Watched::new(changes, params.drops, params.repeat);
        let (path, begun) = (params.path, false);
        let watch = Watch::File { path, watched, due: now, out: false, begun, first };
        let code = params.code.unwrap_or(FILE_ALERT);
        let (id, replace, range) = (params.id, params.replace, Range::Requestor);
        self.set(caller, Terms { id, replace, every, code, range, watch }, (now, out))?;
        Ok(None)
    }

    /// Somebody has looked at a file.
    pub(crate) fn looked(
        &mut self,
        key: Key,
        stat: Result<Stat, Unseen>,
        now: Ns,
        out: &mut Vec<Output>,
    ) {
        if !self.answered(key, stat, out) {
            return;
        }
        let unix = self.unix(now);
        let Some(alarm) = self.alarms.get_mut(&key) else { return };
        let Watch::File { path, watched, .. } = &mut alarm.watch else { return };
        let Some(unchanged) = watched.look(stat.ok()) else { return };
        let (seen, path) = (watched.seen(), path.clone());
        let (missing, size) = (seen.is_none(), seen.map(|stat| stat.size));
        let alert = Alert::File { path, unchanged, missing, size };
        let told = alarm.tell(Teller { node: &self.node, unix }, alert);
        self.alert(told, out);
    }

    /// The look is back. The first is the answer: who may not look is told so, and no more. Says
    /// whether the watch goes on; it may have been cancelled meanwhile.
    fn answered(&mut self, key: Key, stat: Result<Stat, Unseen>, out: &mut Vec<Output>) -> bool {
        let Some(alarm) = self.alarms.get_mut(&key) else { return false };
        let Watch::File { path, out: away, begun, first, .. } = &mut alarm.watch else {
            return false;
        };
        *away = false;
        if std::mem::replace(begun, true) {
            return true;
        }
        let (to, tag, id) = (alarm.owner, first.take(), alarm.id.clone());
        let denied = || Refusal::denied(format!("file {path:?}: your rights do not reach it"));
        let refusal = (stat == Err(Unseen::Denied)).then(denied);
        let answer = refusal.clone().map_or(Ok(Answer::Set { id }), Err);
        out.extend(tag.map(|tag| Output::Reply { to, tag, answer }));
        let Some(refusal) = refusal else { return true };
        self.alarms.remove(&key);
        self.refuse(to, "file", &refusal);
        false
    }
}
