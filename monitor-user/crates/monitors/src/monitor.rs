//! One monitor: when it is due, what it tells, when it is over.

use super::{Answer, Output};
use monitor_model::id::Ns;
use monitor_model::status::{Refusal, Status};
use monitor_model::want::Capability;
use monitor_protocol::Conn;
use monitor_protocol::call::Tag;
use monitor_protocol::event::{Event, Reason};
use monitor_sampling::schedule::Schedule;
use monitor_sampling::view::{Seen, View};
use serde_json::value::RawValue;
use std::collections::VecDeque;
use std::sync::Arc;

/// How long a tick may wait so that others share its reading: this part of its period …
const SLACK_PART: u64 = 20;
/// … and no longer than this.
pub const SLACK: Ns = Ns(7_000_000);

/// Who tells, and when, where no reading says so.
#[derive(Clone, Copy)]
pub struct Teller<'a> {
    /// The node.
    pub node: &'a Arc<str>,
    /// The realtime clock.
    pub unix: Ns,
}

/// A monitor.
pub struct Monitor {
    /// Its name.
    pub id: String,
    /// Who is told; nobody, while it runs on its lease.
    pub owner: Option<Conn>,
    /// Whose it is.
    pub uid: u32,
    /// The process that asked for it.
    pub pid: u32,
    /// What must be attached for it.
    pub capabilities: Vec<Capability>,
    /// Whether it gives groups.
    pub grouped: bool,
    /// Its eye; away, while it looks at a reading.
    pub view: Option<Box<View>>,
    /// When it is due.
    pub schedule: Schedule,
    /// How often; once, if absent.
    pub every: Option<Ns>,
    /// The tag of the call, until it is answered.
    pub first: Option<Tag>,
    /// Samples given.
    pub seq: u64,
    /// Ticks left out.
    pub missed: u64,
    /// The number that its events carry.
    pub code: Option<i32>,
    /// Whether it goes on when all targets are gone.
    pub follow: bool,
    /// How long it lives without its owner.
    pub lease: Option<Ns>,
    /// When it ends, if nobody comes for it.
    pub expires: Option<Ns>,
    /// Why it ended while nobody listened: what it has to tell is kept until its lease is over.
    pub ended: Option<Reason>,
    /// It has been cancelled, and its view is not back yet.
    pub cancelled: bool,
    /// Somebody whom it watches has ended: it looks before its time …
    pub hurry: bool,
    /// … and is doing so.
    pub hurried: bool,
    /// What it could not tell.
    pub kept: Kept,
}

/// Events that wait for somebody to listen.
#[derive(Default)]
pub struct Kept {
    /// The events.
    pub events: VecDeque<Event>,
    /// How many of them there may be.
    pub limit: usize,
    /// How many were dropped before the first of them.
    pub dropped: u64,
}

impl Kept {
    fn push(&mut self, event: Event) {
        if self.events.len() >= self.limit && self.events.pop_front().is_some() {
            self.dropped += 1;
        }
        self.events.push_back(event);
    }

    /// Takes them all; the first tells how many are missing before it.
    pub fn take(&mut self) -> VecDeque<Event> {
        let dropped = std::mem::take(&mut self.dropped);
        let mut events = std::mem::take(&mut self.events);
        if let Some(first) = events.front_mut() {
            first.dropped += dropped;
        }
        events
    }
}

impl Monitor {
    /// When its next sample is due.
    pub fn due(&self) -> Option<Ns> {
        let due = if self.hurry { Some(Ns(0)) } else { self.schedule.due() };
        due.filter(|_| self.view.is_some() && !self.cancelled)
    }

    /// Lets its view go to a reading.
    pub fn leave(&mut self, now: Ns) -> Option<Box<View>> {
        let early = self.schedule.due().is_none_or(|due| due > now);
        self.hurried = std::mem::take(&mut self.hurry) && early;
        self.view.take()
    }

    /// When somebody should look after it: a little later, as others may come due by then.
    pub fn wakes(&self) -> Option<Ns> {
        // The first sample is waited for.
        let slack = match self.every {
            Some(every) if self.seq > 0 && !self.hurry => Ns(every.0 / SLACK_PART).min(SLACK),
            _ => Ns(0),
        };
        self.due().map(|due| Ns(due.0.saturating_add(slack.0)))
    }

    /// Takes what its view saw: answers, or tells. Says whether it is over.
    pub fn take(
        &mut self,
        seen: Result<Seen, Refusal>,
        (now, by): (Ns, Teller<'_>),
        out: &mut Vec<Output>,
    ) -> bool {
        let hurried = std::mem::take(&mut self.hurried);
        if hurried && seen.as_ref().is_ok_and(|seen| !seen.ended) {
            // Somebody else's reading has told of it already.
            return false;
        }
        // A look before its time is no tick.
        let due = if hurried { now } else { self.schedule.due().unwrap_or(now) };
        let missed = if hurried { 0 } else { self.schedule.taken(now) };
        // What is asked for once has no next tick to miss.
        self.missed += self.every.map_or(0, |_| missed);
        let seen = match seen {
            Ok(seen) => seen,
            Err(refusal) => return self.failed(refusal, by, out),
        };
        let ended = self.ended(&seen);
        let event = Event {
            late_ns: now.since(due).0,
            time_unix_ns: seen.unix.0,
            matched: u64::try_from(seen.matched).ok(),
            partial: seen.partial,
            notes: seen.notes,
            ended,
            sample: raw(seen.json),
            ..self.event(by)
        };
        self.seq += 1;
        match self.first.take() {
            Some(tag) => self.reply(tag, event, seen.partial, out),
            None => self.tell(event, out),
        }
        ended.is_some() || self.every.is_none()
    }

    fn ended(&self, seen: &Seen) -> Option<Reason> {
        if seen.gone && !self.follow {
            return Some(Reason::TargetsGone);
        }
        (self.every.is_some() && self.schedule.due().is_none()).then_some(Reason::Count)
    }

    /// It is over, and keeps only what it has to tell, for whoever comes for it. Gives back what
    /// was attached for it.
    pub fn rest(&mut self) -> Vec<Capability> {
        self.view = None;
        self.grouped = false;
        self.ended = self.kept.events.back().and_then(|last| last.ended);
        std::mem::take(&mut self.capabilities)
    }

    /// Whether it has something to tell that nobody has come for, and may still come.
    pub fn awaited(&self) -> bool {
        self.owner.is_none() && self.expires.is_some() && !self.kept.events.is_empty()
    }

    /// A reading that failed as a whole ends it; a first one is refused.
    fn failed(&mut self, refusal: Refusal, by: Teller<'_>, out: &mut Vec<Output>) -> bool {
        match (self.first.take(), self.owner) {
            (Some(tag), Some(to)) => {
                out.push(Output::Reply { to, tag, answer: Err(refusal) });
            }
            _ => self.end(Reason::Failed, Some(refusal.message), (by, out)),
        }
        true
    }

    /// The reply to the call that began it, if it ends before its first sample.
    pub fn unanswered(&mut self) -> Option<Output> {
        let (tag, to) = (self.first.take()?, self.owner?);
        let text = format!("monitor {:?} ended before its first sample", self.id);
        let answer = Err(Refusal::new(Status::NotAvailable, text));
        Some(Output::Reply { to, tag, answer })
    }

    /// Tells that it is over.
    pub fn end(
        &mut self,
        reason: Reason,
        message: Option<String>,
        (by, out): (Teller<'_>, &mut Vec<Output>),
    ) {
        let event = Event { ended: Some(reason), message, ..self.event(by) };
        self.tell(event, out);
    }

    fn event(&self, by: Teller<'_>) -> Event {
        Event {
            id: self.id.clone(),
            seq: self.seq,
            code: self.code,
            period_ns: self.every.map(|every| every.0),
            missed: self.missed,
            node: by.node.to_string(),
            time_unix_ns: by.unix.0,
            ..Event::default()
        }
    }

    fn reply(&self, tag: Tag, event: Event, partial: bool, out: &mut Vec<Output>) {
        let status = if partial { Status::PartialSuccess } else { Status::Success };
        let answer = Ok(Answer::Sample { status: status.name(), event });
        out.extend(self.owner.map(|to| Output::Reply { to, tag, answer }));
    }

    /// Tells whoever listens, or keeps it until somebody does.
    fn tell(&mut self, event: Event, out: &mut Vec<Output>) {
        match self.owner {
            Some(to) => out.push(Output::Event { to, event }),
            None => self.kept.push(event),
        }
    }
}

fn raw(json: Vec<u8>) -> Option<Box<RawValue>> {
    let text = String::from_utf8(json).ok()?;
    RawValue::from_string(text).ok()
}
