//! Alarms: a beat that does not come, a file that does not change.
//!
//! An alarm is a monitor that tells only when something did not happen in time. It has a name in
//! the same list, and goes with its connection.

mod file;
#[cfg(test)]
mod tests;

use super::monitor::Teller;
use super::register::{By, What};
use super::{Answer, Caller, Engine, Key, Output};
use monitor_model::id::{Ns, Pid};
use monitor_model::status::{Refusal, Status};
use monitor_protocol::Conn;
use monitor_protocol::call::Tag;
use monitor_protocol::event::{Alert, Event, Reason};
use monitor_protocol::params::Heartbeat;
use monitor_sampling::beat::{Heart, Missed};
use monitor_sampling::file::Watched;
use monitor_sampling::plan;

/// `PMIX_MONITOR_HEARTBEAT_ALERT` of pmix_common.h.
const HEARTBEAT_ALERT: i32 = -109;

/// An alarm.
pub struct Alarm {
    /// Its name.
    pub id: String,
    /// Who asked for it.
    pub owner: Conn,
    /// His user.
    pub uid: u32,
    /// His process.
    pub pid: u32,
    /// How often it looks.
    pub every: Ns,
    /// Alerts until now.
    pub seq: u64,
    code: i32,
    range: Range,
    watch: Watch,
}

/// What it was asked to look out for, and whom it tells.
struct Terms {
    id: Option<String>,
    replace: bool,
    every: Ns,
    code: i32,
    range: Range,
    watch: Watch,
}

/// What it tells, before it is known who is there to hear it.
struct Told {
    owner: Conn,
    range: Range,
    event: Event,
}

/// Who is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Range {
    /// Who asked.
    Requestor,
    /// Everybody of his user who is connected.
    User,
}

enum Watch {
    Heart {
        /// Who should beat.
        pid: u32,
        heart: Heart,
    },
    File {
        path: String,
        watched: Watched,
        due: Ns,
        /// Somebody is looking.
        out: bool,
        /// Whether it was looked at before; the first look is the answer.
        begun: bool,
        /// The tag of the call, until it is answered.
        first: Option<Tag>,
    },
}

/// A file that somebody should look at, as this user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookAt {
    /// For which alarm.
    pub key: Key,
    /// The file.
    pub path: String,
    /// The user whose rights count.
    pub uid: u32,
    /// His group.
    pub gid: u32,
}

impl Alarm {
    /// When time matters to it.
    pub fn due(&self) -> Option<Ns> {
        match &self.watch {
            Watch::Heart { heart, .. } => Some(heart.due()),
            Watch::File { due, out, .. } => (!out).then_some(*due),
        }
    }

    /// The reply to the call that began it, if it ends before its first look.
    pub fn unanswered(&mut self) -> Option<Output> {
        let Watch::File { first, .. } = &mut self.watch else { return None };
        let (to, tag) = (self.owner, first.take()?);
        let text = format!("monitor {:?} ended before its first look", self.id);
        Some(Output::Reply { to, tag, answer: Err(Refusal::new(Status::NotAvailable, text)) })
    }

    fn tell(&mut self, by: Teller<'_>, alert: Alert) -> Told {
        self.seq += 1;
        let event = Event { alert: Some(alert), ..self.event(by) };
        Told { owner: self.owner, range: self.range, event }
    }

    /// That it is over, for who asked for it.
    pub fn end(&self, reason: Reason, by: Teller<'_>) -> Output {
        let event = Event { ended: Some(reason), ..self.event(by) };
        Output::Event { to: self.owner, event }
    }

    fn event(&self, by: Teller<'_>) -> Event {
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

impl Engine {
    /// Watches that somebody beats. Whether a process of that number is there, and his, is found
    /// out first; of the caller himself it is known.
    pub(super) fn heartbeat(
        &mut self,
        (caller, tag): By<'_>,
        params: Heartbeat,
        (now, out): (Ns, &mut Vec<Output>),
    ) -> Result<Option<Answer>, Refusal> {
        self.window(params.every_ns)?;
        range(params.range.as_deref())?;
        match params.pid.filter(|pid| *pid != caller.pid) {
            None => self.promise(caller, params, (now, out)).map(Some),
            Some(0) => Err(Refusal::bad("pid 0: the id of a process, or none for the caller")),
            Some(pid) => {
                self.put((caller, tag), (Pid(pid), None), What::Heart(params), now)?;
                Ok(None)
            }
        }
    }

    /// Windows are counted from now on.
    pub(super) fn promise(
        &mut self,
        caller: &Caller,
        params: Heartbeat,
        (now, out): (Ns, &mut Vec<Output>),
    ) -> Result<Answer, Refusal> {
        let every = self.window(params.every_ns)?;
        let heart = Heart::new(now, every, params.drops, params.repeat);
        let pid = params.pid.unwrap_or(caller.pid);
        let watch = Watch::Heart { pid, heart };
        let code = params.code.unwrap_or(HEARTBEAT_ALERT);
        let range = range(params.range.as_deref())?;
        let (id, replace) = (params.id, params.replace);
        self.set(caller, Terms { id, replace, every, code, range, watch }, (now, out))
    }

    fn window(&self, every_ns: u64) -> Result<Ns, Refusal> {
        if every_ns == 0 {
            return Err(Refusal::bad("every_ns 0: the length of a window"));
        }
        self.limits.slowest(every_ns)?;
        Ok(Ns(every_ns))
    }

    fn set(
        &mut self,
        caller: &Caller,
        Terms { id, replace, every, code, range, watch }: Terms,
        (now, out): (Ns, &mut Vec<Output>),
    ) -> Result<Answer, Refusal> {
        self.room(caller)?;
        let id = match id {
            Some(id) => id,
            None => self.free_name(caller),
        };
        plan::proper(&id)?;
        if let Some(key) = self.find(caller, &id) {
            if !replace {
                let why = "is there already: cancel it, or ask to replace it";
                return Err(Refusal::new(Status::Exists, format!("monitor {id:?} {why}")));
            }
            self.finish(key, (Some(Reason::Replaced), now), out);
        }
        let answer = Answer::Set { id: id.clone() };
        let (owner, uid, pid) = (caller.conn, caller.uid, caller.pid);
        let alarm = Alarm { id, owner, uid, pid, every, seq: 0, code, range, watch };
        self.alarms.insert(self.next_key, alarm);
        self.next_key += 1;
        Ok(answer)
    }

    /// Somebody lives. All who watch him know.
    pub(super) fn beat(&mut self, caller: &Caller, now: Ns) {
        for alarm in self.alarms.values_mut() {
            let may = caller.root() || alarm.uid == caller.uid || alarm.uid == 0;
            match &mut alarm.watch {
                Watch::Heart { pid, heart } if *pid == caller.pid && may => heart.beat(now),
                _ => {}
            }
        }
    }

    /// Time has passed.
    pub(super) fn ring(&mut self, now: Ns, out: &mut Vec<Output>) {
        let mut told = Vec::new();
        let unix = self.unix(now);
        for (key, alarm) in &mut self.alarms {
            match &mut alarm.watch {
                Watch::Heart { pid, heart } => {
                    if let Some(Missed { windows, late, beats }) = heart.pass(now) {
                        let (pid, late_ns) = (*pid, late.0);
                        let alert =
                            Alert::Heartbeat { pid, missed_windows: windows, late_ns, beats };
                        told.push(alarm.tell(Teller { node: &self.node, unix }, alert));
                    }
                }
                Watch::File { path, due, out: away, .. } if !*away && *due <= now => {
                    *away = true;
                    *due = Ns(now.0.saturating_add(alarm.every.0));
                    let gid = self.callers.get(&alarm.owner).map_or(alarm.uid, |it| it.gid);
                    let (key, path, uid) = (*key, path.clone(), alarm.uid);
                    out.push(Output::LookAt(LookAt { key, path, uid, gid }));
                }
                Watch::File { .. } => {}
            }
        }
        told.into_iter().for_each(|it| self.alert(it, out));
    }

    fn alert(&self, Told { owner, range, event }: Told, out: &mut Vec<Output>) {
        let uid = self.callers.get(&owner).map(|it| it.uid);
        let hears = |it: &&Caller| match range {
            Range::Requestor => it.conn == owner,
            Range::User => Some(it.uid) == uid,
        };
        let hearers = self.callers.values().filter(hears);
        out.extend(hearers.map(|it| Output::Event { to: it.conn, event: event.clone() }));
    }
}

fn range(name: Option<&str>) -> Result<Range, Refusal> {
    match name {
        None | Some("requestor") => Ok(Range::Requestor),
        Some("user") => Ok(Range::User),
        Some(other) => Err(Refusal::bad(format!("range {other:?}: requestor, or user"))),
    }
}
