//! Occurrences: which stored requests wait for them, and what births and ends change.
//!
//! Requests run in the order in which they were defined. One whose event occurs more often than
//! the limit allows is disabled, and its tool is told.

use super::clerk::Raised;
use super::compile::Member;
use super::fill::Occasion;
use super::packet::Spoken;
use super::program::MOST_UNTOLD;
use super::seat::Seat;
use super::stored::Rule;
use super::{Machine, Turn, answer_id};
use monitor_event::occurrence::{EventKind, NodeEvent};
use monitor_event::outcome::{Refusal, Told};
use monitor_event::right::SessionId;
use monitor_model::id::{Identity, Ns};
use monitor_model::sample::Process;
use monitor_omis::{Answer, Reply, RequestId, Status, Value};
use monitor_platform::{Happening, RuleKey};
use std::collections::BTreeSet;

impl Machine {
    /// Things happened on this node.
    pub(super) fn happened(&mut self, happenings: Vec<Happening>, turn: &mut Turn<'_>) {
        for it in happenings {
            if self.migrations.takes(&it) {
                continue;
            }
            match it {
                Happening::Occurred(it) => {
                    self.occurred(&it, (None, 0), turn);
                    self.finalized(&it, turn);
                }
                Happening::Born { child, parent } => self.born(child, parent, turn),
                Happening::Executed(id) => self.executed(id, turn),
                Happening::Ended(id) => {
                    self.last_of(id, turn);
                    self.ended(id);
                }
                Happening::Ran { rule, serial, it } => self.ran((rule, serial), &it, turn),
                Happening::Overdue(rule, serial, why) => self.overdue((rule, serial), &why, turn),
                Happening::Stormed(rule, serial) => self.stormed(rule, serial, turn),
                Happening::Failed(topic, why) => self.failed(&topic, &why, turn),
                Happening::Acted(ticket, each) => self.acted(ticket, each, turn),
                Happening::Lost(n_lost) => self.lost(n_lost, turn),
            }
        }
    }

    /// Lets every event that was raised by a list that has ended occur, in order.
    pub(super) fn run_raised(&mut self, turn: &mut Turn<'_>) {
        let is_free = |it: &Raised, machine: &Self| {
            it.after.is_none_or(|course| !machine.courses.contains_key(&course))
        };
        while let Some(place) = (0..self.raised.len()).find(|&at| is_free(&self.raised[at], self)) {
            let Some(raised) = self.raised.remove(place) else { return };
            let told = raised.params.into_iter().map(Told::Value).collect();
            let topic = EventKind::User(raised.number);
            let occurrence = NodeEvent::new(topic, turn.now, told);
            self.occurred(&occurrence, (raised.session, raised.depth), turn);
        }
    }

    /// Runs whatever waits for this, in one session or in all.
    pub(super) fn occurred(
        &mut self,
        it: &NodeEvent,
        (only, depth): (Option<SessionId>, u32),
        turn: &mut Turn<'_>,
    ) {
        let mut meant = Vec::new();
        for (session, seat) in &self.seats {
            let is_meant = match only {
                Some(only) => only == *session,
                None => !seat.session.has_heard(it),
            };
            if !is_meant || !seat.session.may_hear(it) {
                continue;
            }
            let is_attached = |id| seat.session.scope.has(id);
            let rules = seat.stored.requests.iter();
            let waiting = rules.filter(|(id, rule)| {
                let is_due = rule.watch.admits(it, is_attached) && !rule.kernel.tells_of(it);
                is_due && Self::is_on((*session, **id), rule, turn)
            });
            meant.extend(waiting.map(|(id, rule)| (rule.serial, *session, *id)));
        }
        // Nobody waits for it any more, so nobody lets its thread go.
        if let (true, Some(held)) = (meant.is_empty(), &it.held) {
            turn.ground.go_on(held);
        }
        meant.sort_unstable_by_key(|(serial, ..)| *serial);
        for (_, session, id) in meant {
            self.fire((session, id), (it, depth), (&BTreeSet::new(), turn));
        }
    }

    /// Whether a request runs: if the kernel has it, only there it is known.
    fn is_on(key: RuleKey, rule: &Rule, turn: &mut Turn<'_>) -> bool {
        match rule.kernel.has_it && !rule.kernel.is_asked {
            true => turn.ground.is_on(key),
            false => rule.is_enabled,
        }
    }

    /// The kernel has run what it can of a request: the rest of its actions is due.
    fn ran(&mut self, (key, serial): (RuleKey, u64), it: &NodeEvent, turn: &mut Turn<'_>) {
        let rule = self.rule_mut(key).filter(|rule| rule.serial == serial);
        match rule.map(|rule| rule.kernel.members.clone()) {
            Some(done) => self.fire(key, (it, 0), (&done, turn)),
            None => it.held.iter().for_each(|held| turn.ground.go_on(held)),
        }
    }

    /// Who was held for a request runs on, and its actions are not done.
    fn overdue(&mut self, (key, serial): (RuleKey, u64), why: &Refusal, turn: &mut Turn<'_>) {
        if self.rule_mut(key).is_some_and(|rule| rule.serial == serial) {
            let reply = self.report(key, (why.status, why.text.as_str().into()));
            self.tell(key.0, reply, turn);
        }
    }

    /// The kernel has switched a request off, because it ran too often.
    fn stormed(&mut self, key: RuleKey, serial: u64, turn: &mut Turn<'_>) {
        if self.rule_mut(key).is_some_and(|rule| rule.serial == serial) {
            self.stop(key, turn);
        }
    }

    /// Disables a request that occurs too often, and says so.
    fn stop(&mut self, key: RuleKey, turn: &mut Turn<'_>) {
        let most = self.limits.occurrences;
        let Some(rule) = self.rule_mut(key) else { return };
        let most = if rule.kernel.is_silent() { u64::from(MOST_UNTOLD) } else { most };
        rule.switch(false);
        self.is_stale = true;
        let text = format!("more than {most} in a second: disabled");
        let reply = self.report(key, (Status::EVENT_STORM, text.as_str().into()));
        self.tell(key.0, reply, turn);
    }

    /// Runs the actions of a request, but for those that are done.
    fn fire(
        &mut self,
        (session, id): RuleKey,
        (it, depth): (&NodeEvent, u32),
        (done, turn): (&BTreeSet<Member>, &mut Turn<'_>),
    ) {
        let (node, most) = (self.node, self.limits.occurrences);
        let process = self.number_of(session, it.process);
        let Some(seat) = self.seats.get_mut(&session) else { return };
        let Some(rule) = seat.stored.requests.get_mut(&id) else {
            return it.held.iter().for_each(|held| turn.ground.go_on(held));
        };
        if rule.is_storm(turn.now, most) {
            it.held.iter().for_each(|held| turn.ground.go_on(held));
            return self.stop((session, id), turn);
        }
        let occasion = Occasion {
            node,
            told: seat.session.numbers.values(&it.told),
            process,
            thread: it.thread.map_or(Value::from(-1), |thread| thread.0.into()),
            time: Value::from(if it.at == Ns(0) { turn.now.0 } else { it.at.0 }),
            seq: Value::from(rule.seq),
            pc: it.pc.map_or(Value::from(-1), Value::from),
            held: it.held,
            is_weak: rule.kernel.holds && it.held.is_none_or(|held| held.with_process),
        };
        let request = std::sync::Arc::clone(&rule.request);
        self.occur(session, (&request, done), (&occasion, depth), turn);
    }

    /// A process came: into the scope of whoever observes its parent, or waits for one like it.
    fn born(&mut self, child: Identity, parent: Option<Identity>, turn: &mut Turn<'_>) {
        for seat in self.seats.values_mut() {
            // Who has it now, need not be asked below whether he waits for one like it.
            let _joins = seat.session.scope.born(child, parent);
        }
        let _sessions = self.join(child, turn);
    }

    /// A process has begun another program, and may be one like those that somebody waits for.
    fn executed(&mut self, id: Identity, turn: &mut Turn<'_>) {
        for session in self.join(id, turn) {
            self.came(id, session, turn);
        }
    }

    /// Those join who came to be after a session looked for them, and before any were looked out
    /// for.
    pub(super) fn join_late(&mut self, turn: &mut Turn<'_>) {
        let mut seen = turn.ground.everybody().unwrap_or_default();
        turn.ground.describe(&mut seen);
        for it in seen.iter().filter(|it| !it.ended()) {
            for session in self.admit(it.id, it) {
                if let Some(seat) = self.seats.get_mut(&session) {
                    seat.session.scope.note_late(it.id);
                }
                self.came(it.id, session, turn);
            }
        }
    }

    /// One session is told that a process has come to be.
    fn came(&mut self, id: Identity, session: SessionId, turn: &mut Turn<'_>) {
        let told = NodeEvent::new(EventKind::Born, turn.now, [Told::Process(id)].into());
        let it = NodeEvent { process: Some(id), ..told };
        self.occurred(&it, (Some(session), 0), turn);
    }

    /// A process joins the sessions that wait for one like it, and did not have it.
    fn join(&mut self, id: Identity, turn: &mut Turn<'_>) -> Vec<SessionId> {
        let waits = |seat: &Seat| seat.session.scope.n_joins() > 0 && !seat.session.scope.has(id);
        if !self.seats.values().any(waits) {
            return Vec::new();
        }
        let mut seen = turn.ground.look(&[id.pid]).unwrap_or_default();
        turn.ground.describe(&mut seen);
        seen.iter().flat_map(|it| self.admit(id, it)).collect()
    }

    /// The sessions that it joins, now that it is seen.
    fn admit(&mut self, id: Identity, seen: &Process) -> Vec<SessionId> {
        let mut joined = Vec::new();
        for (key, Seat { session, .. }) in &mut self.seats {
            let is_new = !session.scope.has(id);
            if is_new && session.tool.sees.shows(seen) && session.scope.admits(seen) {
                session.scope.attach(id);
                joined.push(*key);
            }
        }
        joined
    }

    fn ended(&mut self, id: Identity) {
        for seat in self.seats.values_mut() {
            let was_empty = seat.session.scope.is_empty();
            seat.session.scope.ended(id);
            self.is_stale |= was_empty != seat.session.scope.is_empty();
        }
    }

    /// Occurrences were lost: whoever waits for any is told.
    fn lost(&mut self, n_lost: u64, turn: &mut Turn<'_>) {
        let mut waiting = Vec::new();
        for (session, seat) in &self.seats {
            let rules = seat.stored.requests.iter().filter(|(_, it)| it.is_enabled);
            waiting.extend(rules.map(|(id, _)| (*session, *id)));
        }
        for (session, id) in waiting {
            let reply = self.report((session, id), (Status::LOST, n_lost.into()));
            self.tell(session, reply, turn);
        }
    }

    /// What was looked out for failed: whoever waits for it is told why.
    fn failed(&mut self, topic: &EventKind, why: &Refusal, turn: &mut Turn<'_>) {
        let mut waiting = Vec::new();
        for (session, seat) in &self.seats {
            let rules = seat.stored.requests.iter().filter(|(_, it)| it.watch.topic == *topic);
            waiting.extend(rules.map(|(id, _)| (*session, *id)));
        }
        for (session, id) in waiting {
            let reply = self.report((session, id), (why.status, why.text.as_str().into()));
            self.tell(session, reply, turn);
        }
    }

    /// What a stored request itself has to say.
    fn report(
        &self,
        (session, id): (SessionId, RequestId),
        (status, result): (Status, Value),
    ) -> Option<Reply> {
        let rule: &Rule = self.seats.get(&session)?.stored.requests.get(&id)?;
        let (id, nodes) = (answer_id(rule.event().id), vec![self.node]);
        let (service, results) = (rule.service().clone(), vec![result]);
        Some(Reply(vec![Answer { id, nodes, service, status, results }]))
    }

    fn tell(&mut self, session: SessionId, reply: Option<Reply>, turn: &mut Turn<'_>) {
        if let Some(reply) = reply {
            self.speak(Spoken { session, reply, is_told: true }, turn);
        }
    }
}
