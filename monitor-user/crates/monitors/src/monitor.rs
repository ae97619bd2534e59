//! One monitor: its schedule, its events, its end.

use super::{Answer, MonitorOutput, reading_shares::KeptMemory, reading_shares::ReadingBudget};
use monitor_model::{Capability, Ns, Refusal, Status};
use monitor_protocol::event::{EndReason, Event};
use monitor_protocol::{Conn, answer::MonitorSummary, call::Tag};
use monitor_sampling::schedule::Schedule;
use monitor_sampling::view::{Output, View};
use serde_json::value::RawValue;
use std::{collections::VecDeque, sync::Arc};

/// The fraction of its period that a tick may wait to share a reading with others …
const SLACK_FRACTION: u64 = 20;
/// … and the maximum wait.
pub const SLACK: Ns = Ns(7_000_000);

/// Node and time of an event.
#[derive(Clone, Copy)]
pub struct EventOrigin<'a> {
    /// The node.
    pub node: &'a Arc<str>,
    /// Realtime in nanoseconds.
    pub unix: Ns,
}

/// A monitor.
pub struct Monitor {
    /// Its name.
    pub id: String,
    /// The connection that gets its events; `None` while it runs on its lease.
    pub owner: Option<Conn>,
    /// The user that it belongs to.
    pub uid: u32,
    /// The process that started it.
    pub pid: u32,
    /// The capabilities that it needs.
    pub capabilities: Vec<Capability>,
    /// Whether it samples groups.
    pub grouped: bool,
    /// Its view; `None` while it is at a reading.
    pub view: Option<Box<View>>,
    /// Its ticks.
    pub schedule: Schedule,
    /// Its period; one sample if absent.
    pub every: Option<Ns>,
    /// The tag of the call, until its reply.
    pub first: Option<Tag>,
    /// Number of samples sent.
    pub seq: u64,
    /// Number of missed ticks.
    pub missed: u64,
    /// The code that its events carry.
    pub code: Option<i32>,
    /// Whether it continues when all targets have ended.
    pub follow: bool,
    /// How long it runs without a connection.
    pub lease: Option<Ns>,
    /// When its lease expires, while it has no connection.
    pub expires: Option<Ns>,
    /// Why it ended without a connection; its events are kept until its lease expires.
    pub ended: Option<EndReason>,
    /// Whether it is cancelled and its view is not back yet.
    pub cancelled: bool,
    /// Whether a target has ended, so that it takes an early reading …
    pub wants_early_read: bool,
    /// … and whether it is at that reading.
    pub is_early_read: bool,
    /// Its events while it has no connection.
    pub kept: KeptEvents,
    /// Bytes of its call.
    pub call_bytes: usize,
    /// What it keeps, as counted for its user.
    pub counted: KeptMemory,
    /// When it was taken for its last reading.
    pub taken_at: Option<Ns>,
    /// Whether that reading waited for the budget.
    pub is_extended: bool,
}

/// Events of a detached monitor.
#[derive(Default)]
pub struct KeptEvents {
    /// The events.
    pub events: VecDeque<Event>,
    /// Maximum number of events.
    pub limit: usize,
    /// Number of events dropped before the first kept one.
    pub dropped: u64,
    /// Their bytes.
    pub bytes: usize,
}

impl KeptEvents {
    fn push(&mut self, event: Event) {
        if self.events.len() >= self.limit {
            self.drop_first();
        }
        self.bytes += event.memory();
        self.events.push_back(event);
    }

    /// Drops the first event, and returns whether there was one.
    fn drop_first(&mut self) -> bool {
        let Some(event) = self.events.pop_front() else { return false };
        self.bytes -= event.memory();
        self.dropped += 1 + event.dropped;
        true
    }

    /// Takes all events; the first one has the number of dropped ones before it.
    pub fn take(&mut self) -> VecDeque<Event> {
        let dropped = std::mem::take(&mut self.dropped);
        let mut events = std::mem::take(&mut self.events);
        self.bytes = 0;
        if let Some(first) = events.front_mut() {
            first.dropped += dropped;
        }
        events
    }
}

impl Monitor {
    /// Its entry in the list of monitors.
    pub fn summary(&self, now: Ns) -> MonitorSummary {
        let expires_in = self.expires.map(|at| at.since(now));
        MonitorSummary {
            id: self.id.clone(),
            uid: self.uid,
            requestor: self.pid,
            period_ns: self.every.map(|every| every.0),
            samples: self.seq,
            missed: self.missed,
            attached: self.owner.is_some(),
            kept: self.kept.events.len(),
            ended: self.ended,
            lease_left_ns: expires_in.or(self.lease).map(|left| left.0),
        }
    }

    /// What it keeps until its next reading.
    pub fn kept_memory(&self) -> KeptMemory {
        let counters = self.view.as_ref().and_then(|view| view.kept());
        // While it is at a reading, it keeps what was counted.
        let reading = match self.view {
            Some(_) => counters.map(|it| (it.at, it.bytes())),
            None => self.counted.reading.filter(|_| self.ended.is_none()),
        };
        KeptMemory { reading, other: self.call_bytes + self.kept.bytes }
    }

    /// Drops one of the things that it keeps, and returns whether there was one. `limit` is for
    /// the note.
    pub fn free_kept(&mut self, limit: usize) -> bool {
        if self.kept.drop_first() {
            return true;
        }
        let Some(view) = self.view.as_mut().filter(|it| it.kept().is_some_and(|it| it.bytes() > 0))
        else {
            return false;
        };
        view.forget(format!(
            "no rates: the monitors of user {} keep {limit} bytes of earlier readings, the limit \
             \"kept_bytes\": use the same period for all, or cancel some",
            self.uid
        ));
        true
    }

    /// When its next sample is due.
    pub fn due(&self) -> Option<Ns> {
        let due = if self.wants_early_read { Some(Ns(0)) } else { self.schedule.due() };
        due.filter(|_| self.view.is_some() && !self.cancelled)
    }

    /// Takes its view for a reading.
    pub fn take_view(&mut self, now: Ns) -> Option<Box<View>> {
        self.taken_at = Some(now);
        let early = self.schedule.due().is_none_or(|due| due > now);
        self.is_early_read = std::mem::take(&mut self.wants_early_read) && early;
        self.view.take()
    }

    /// Notes that its reading waited for the budget of its user.
    pub fn extend_period(&mut self, now: Ns, budget: &ReadingBudget) {
        self.is_extended = true;
        let (Some(every), Some(before)) = (self.every, self.taken_at) else { return };
        let (share, taken) = (budget.share * 100.0, now.since(before).seconds());
        let text = format!(
            "{taken:.3} s since the last sample, not {:.3} s: the monitors of user {} would take \
             more than their part of the budget of {share} % of this machine",
            every.seconds(),
            self.uid
        );
        self.view.iter_mut().for_each(|view| view.remark(text.clone()));
    }

    /// When to wake for it: a little after `due`, so that others can share the reading.
    pub fn wake_at(&self) -> Option<Ns> {
        // A client waits for the first sample.
        let slack = match self.every {
            Some(every) if self.seq > 0 && !self.wants_early_read => {
                Ns(every.0 / SLACK_FRACTION).min(SLACK)
            }
            _ => Ns(0),
        };
        self.due().map(|due| Ns(due.0.saturating_add(slack.0)))
    }

    /// Handles the result of its view: sends the reply or an event. Returns whether it is over.
    pub fn handle_result(
        &mut self,
        seen: Result<Output, Refusal>,
        (now, by): (Ns, EventOrigin<'_>),
        out: &mut Vec<MonitorOutput>,
    ) -> bool {
        let hurried = std::mem::take(&mut self.is_early_read);
        if hurried && seen.as_ref().is_ok_and(|seen| !seen.ended) {
            // An earlier reading has reported the end already.
            return false;
        }
        // An early reading is not a tick.
        let is_late = !hurried && !std::mem::take(&mut self.is_extended);
        let due = if is_late { self.schedule.due().unwrap_or(now) } else { now };
        let missed = if hurried { 0 } else { self.schedule.taken(now) };
        // A single sample has no next tick to miss.
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
            sample: raw(seen.bytes),
            ..self.event(by)
        };
        self.seq += 1;
        match self.first.take() {
            Some(tag) => self.reply(tag, event, seen.partial, out),
            None => self.send_event(event, out),
        }
        ended.is_some() || self.every.is_none()
    }

    fn ended(&self, seen: &Output) -> Option<EndReason> {
        if seen.targets_gone && !self.follow {
            return Some(EndReason::TargetsGone);
        }
        (self.every.is_some() && self.schedule.due().is_none()).then_some(EndReason::Count)
    }

    /// Ends it, but keeps its events until a client attaches. Returns the capabilities to release.
    pub fn end_detached(&mut self) -> Vec<Capability> {
        self.view = None;
        self.grouped = false;
        self.ended = self.kept.events.back().and_then(|last| last.ended);
        std::mem::take(&mut self.capabilities)
    }

    /// Whether it has kept events, and a client may still attach.
    pub fn has_kept_events(&self) -> bool {
        self.owner.is_none() && self.expires.is_some() && !self.kept.events.is_empty()
    }

    /// Ends it after a failed reading; refuses the call if that was the first.
    fn failed(
        &mut self,
        refusal: Refusal,
        by: EventOrigin<'_>,
        out: &mut Vec<MonitorOutput>,
    ) -> bool {
        match (self.first.take(), self.owner) {
            (Some(tag), Some(to)) => {
                out.push(MonitorOutput::Reply { to, tag, answer: Err(refusal) });
            }
            _ => self.end(EndReason::Failed, Some(refusal.message), (by, out)),
        }
        true
    }

    /// The reply to its call, if it ends before its first sample.
    pub fn refuse_pending_call(&mut self) -> Option<MonitorOutput> {
        let (tag, to) = (self.first.take()?, self.owner?);
        let text = format!("monitor {:?} ended before its first sample", self.id);
        let answer = Err(Refusal::new(Status::NotAvailable, text));
        Some(MonitorOutput::Reply { to, tag, answer })
    }

    /// Sends its end event.
    pub fn end(
        &mut self,
        reason: EndReason,
        message: Option<String>,
        (by, out): (EventOrigin<'_>, &mut Vec<MonitorOutput>),
    ) {
        let event = Event { ended: Some(reason), message, ..self.event(by) };
        self.send_event(event, out);
    }

    fn event(&self, by: EventOrigin<'_>) -> Event {
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

    fn reply(&self, tag: Tag, event: Event, partial: bool, out: &mut Vec<MonitorOutput>) {
        let status = if partial { Status::PartialSuccess } else { Status::Success };
        let answer = Ok(Answer::Sample { status: status.name(), event });
        out.extend(self.owner.map(|to| MonitorOutput::Reply { to, tag, answer }));
    }

    /// Sends an event to its connection, or keeps it without one.
    fn send_event(&mut self, event: Event, out: &mut Vec<MonitorOutput>) {
        match self.owner {
            Some(to) => out.push(MonitorOutput::Event { to, event }),
            None => self.kept.push(event),
        }
    }
}

fn raw(json: Vec<u8>) -> Option<Box<RawValue>> {
    let text = String::from_utf8(json).ok()?;
    RawValue::from_string(text).ok()
}
