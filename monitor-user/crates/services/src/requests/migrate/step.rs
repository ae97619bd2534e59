//! The steps of a process on its way, each of which begins an act or ends the way.
//!
//! In: whose step it is. Out: orders to the ground, a packet to the other node, the answer.

use super::super::{Machine, Output, Turn};
use super::going::{Going, Step};
use monitor_event::occurrence::{EventKind, NodeEvent};
use monitor_event::outcome::{Done, Refusal, Told};
use monitor_event::thread::Ticket;
use monitor_model::field::ProcessField;
use monitor_model::id::Identity;
use monitor_model::id::is_same;
use monitor_model::sample::Process;
use monitor_omis::Status;
use monitor_platform::{Act, By};

impl Machine {
    pub(super) fn have_done(&mut self, ticket: Ticket, act: &Act, turn: &mut Turn<'_>) {
        let Some(going) = self.migrations.going.get(&ticket) else { return };
        let (tool, on) = (going.tool, [going.id]);
        let on = if matches!(act, Act::Return(_)) { &[][..] } else { &on[..] };
        if let Some(each) = turn.ground.act(By { ticket, tool: &tool, held: None }, act, on) {
            let _is_there = self.has_moved(ticket, &each);
        }
    }

    pub(super) fn tell_leaving(&mut self, ticket: Ticket, turn: &mut Turn<'_>) {
        let Some(going) = self.migrations.going.get(&ticket) else { return };
        let (id, to) = (going.id, going.to);
        let told = [Told::Process(id), Told::Value(to.0.into())].into();
        let it =
            NodeEvent { process: Some(id), ..NodeEvent::new(EventKind::Leaving, turn.now, told) };
        let before = self.next;
        self.occurred(&it, (None, 0), turn);
        let lists = before + 1..=self.next;
        if let Some(going) = self.migrations.going.get_mut(&ticket) {
            going.go(Step::Told(lists), turn.now);
        }
    }

    pub(super) fn dump(&mut self, ticket: Ticket, turn: &mut Turn<'_>) {
        if let Some(why) = self.silence(ticket) {
            let text = format!("{}; it runs on as before", why.text);
            return self.arrived(ticket, Refusal { text, ..why }.into(), turn);
        }
        let Some(going) = self.migrations.going.get_mut(&ticket) else { return };
        going.go(Step::Dumped, turn.now);
        let (name, id) = (going.name.clone(), going.id);
        let has = self.seats.iter().filter(|(_, seat)| seat.session.scope.has(id));
        going.observers = has.map(|(session, _)| *session).collect();
        self.have_done(ticket, &Act::Dump(name), turn);
    }

    /// Who dumped it is gone, and may have ended it before.
    pub(super) fn dump_was_lost(&mut self, ticket: Ticket, why: Refusal, turn: &mut Turn<'_>) {
        let Some(going) = self.migrations.going.get(&ticket) else { return };
        if is_there(going.id, turn) {
            return self.arrived(ticket, why.into(), turn);
        }
        self.migrations.has_left(ticket);
        self.fetch_back(ticket, why, turn);
    }

    pub(super) fn send_away(&mut self, ticket: Ticket, turn: &mut Turn<'_>) {
        self.migrations.has_left(ticket);
        if let Some(why) = self.silence(ticket) {
            let why = self.not_there(ticket, why);
            return self.fetch_back(ticket, why, turn);
        }
        let Some(going) = self.migrations.going.get_mut(&ticket) else { return };
        going.go(Step::Sent, turn.now);
        turn.out.push(Output::Order(going.restore(self.node, ticket)));
        if let Some(seat) = self.seats.get_mut(&going.tool.session) {
            let _again = seat.nodes.insert(going.to);
        }
    }

    pub(super) fn fetch_back(&mut self, ticket: Ticket, why: Refusal, turn: &mut Turn<'_>) {
        let Some(going) = self.migrations.going.get_mut(&ticket) else { return };
        going.go(Step::Back(why), turn.now);
        let name = going.name.clone();
        self.have_done(ticket, &Act::Return(name), turn);
    }

    /// Why the other node cannot answer, if it is gone.
    pub(super) fn silence(&self, ticket: Ticket) -> Option<Refusal> {
        let to = self.migrations.going.get(&ticket)?.to;
        let is_gone = self.members.iter().all(|it| it.node != to);
        is_gone.then(|| Refusal::new(Status::NODE_DOWN, format!("node {} is gone", to.0)))
    }

    /// The same refusal, as it is told of the other node.
    pub(super) fn not_there(&self, ticket: Ticket, why: Refusal) -> Refusal {
        let to = self.migrations.going.get(&ticket).map_or(0, |it| it.to.0);
        Refusal { text: format!("node {to} could not restore it: {}", why.text), ..why }
    }

    /// It is here again, as another to the system, and the same to who observed it.
    pub(super) fn is_back(
        &mut self,
        ticket: Ticket,
        (id, why): (Identity, Refusal),
        turn: &mut Turn<'_>,
    ) {
        let Some(going) = self.migrations.going.get(&ticket) else { return };
        let (old, observers) = (going.id, going.observers.clone());
        // Whoever reads processes here may know its start more precisely.
        let seen = turn.ground.look(&[id.pid]).unwrap_or_default().into_iter().next();
        let id = seen.map(|it| it.id).filter(|seen| is_same(*seen, id)).unwrap_or(id);
        for (_, seat) in self.seats.iter_mut().filter(|(it, _)| observers.contains(it)) {
            seat.session.numbers.follow(old, id);
            let _was_there = seat.session.scope.detach(old);
            seat.session.scope.attach(id);
            for rule in seat.stored.requests.values_mut() {
                rule.watch.whose.follow(old, id);
            }
        }
        self.is_stale = true;
        let text = format!("{}; it runs on here", why.text);
        self.arrived(ticket, Refusal { text, ..why }.into(), turn);
    }

    /// Neither node has it, or nobody knows: its files stay.
    pub(super) fn is_nowhere(&mut self, ticket: Ticket, why: Refusal, turn: &mut Turn<'_>) {
        let Some(Going { id, name, .. }) = self.migrations.going.get(&ticket) else { return };
        let way = format!("if it is not there, restore_process({name:?}) on a node brings it back");
        let text = format!("{}; {way}", why.text);
        // Its tool may have gone, or have given up.
        tracing::error!(process = id.pid.0, "a process on its way is lost: {text}");
        self.arrived(ticket, Refusal { text, ..why }.into(), turn);
    }

    /// It is over.
    pub(super) fn arrived(&mut self, ticket: Ticket, done: Done, turn: &mut Turn<'_>) {
        let Some(going) = self.migrations.going.remove(&ticket) else { return };
        let session = going.tool.session;
        if !self.seats.contains_key(&session) {
            turn.out.push(Output::Order(going.farewell(self.node)));
            if !self.migrations.has_of(session) {
                turn.ground.release(&going.tool);
            }
        }
        if !going.step.is_away() {
            // It was not dumped, so what ended has ended.
            self.happened(going.end, turn);
        }
        self.settle_place(going.place, done, turn);
    }
}

/// Whether a process has not ended. Who cannot be looked at may be there.
fn is_there(id: Identity, turn: &mut Turn<'_>) -> bool {
    let Ok(seen) = turn.ground.look(&[id.pid]) else { return true };
    let has_ended = |it: &Process| {
        let state = it.row.get(ProcessField::State);
        state.is_some_and(|state| [b'Z', b'X'].map(u64::from).contains(&state))
    };
    seen.iter().any(|it| is_same(it.id, id) && !has_ended(it))
}
