//! The steps of a process on its way, each of which begins an act or ends the way.
//!
//! In: whose step it is. Out: orders to the ground, a packet to the other node, the answer.

use super::super::packet::{Packet, PartId, What};
use super::super::{Machine, Output, Turn};
use super::{Going, Step};
use crate::model::id::Identity;
use crate::omis::{Arg, Basic, Expr, Name, Spot, Value};
use crate::service::desk::{Occurrence, Topic};
use crate::service::ground::{Act, By, Ticket};
use crate::service::session::scope::is_same;
use crate::service::{Done, Refusal, Told};

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
            Occurrence { process: Some(id), ..Occurrence::new(Topic::Leaving, turn.now, told) };
        let before = self.next;
        self.occurred(&it, (None, 0), turn);
        let lists = before + 1..=self.next;
        if let Some(going) = self.migrations.going.get_mut(&ticket) {
            going.step = Step::Told(lists);
        }
    }

    pub(super) fn dump(&mut self, ticket: Ticket, turn: &mut Turn<'_>) {
        let Some(going) = self.migrations.going.get_mut(&ticket) else { return };
        going.step = Step::Dumped;
        let (name, id) = (going.name.clone(), going.id);
        let has = self.seats.iter().filter(|(_, seat)| seat.session.scope.has(id));
        going.observers = has.map(|(session, _)| *session).collect();
        self.have_done(ticket, &Act::Dump(name), turn);
    }

    pub(super) fn send_away(&mut self, ticket: Ticket, turn: &mut Turn<'_>) {
        let Some(going) = self.migrations.going.get_mut(&ticket) else { return };
        going.step = Step::Sent;
        let (id, to, tool) = (going.id, going.to, going.tool);
        let args = vec![Arg::from(Expr::Value(Value::from(going.name.as_str())))];
        let service = Name::new("restore_process").expect("it is a name");
        let basic =
            Basic { id: None, nodes: Some(Vec::new()), service, args, spot: Spot::default() };
        let part = PartId { course: ticket, member: 0 };
        let (nodes, dialect) = (vec![to], going.dialect);
        let what = What::Do(basic);
        let packet = Packet { from: self.node, part, tool, dialect, nodes, depth: 0, what };
        self.migrations.has_left(id);
        if let Some(seat) = self.seats.get_mut(&tool.session) {
            let _again = seat.nodes.insert(to);
        }
        turn.out.push(Output::Order(packet));
    }

    pub(super) fn fetch_back(&mut self, ticket: Ticket, why: Refusal, turn: &mut Turn<'_>) {
        let Some(going) = self.migrations.going.get_mut(&ticket) else { return };
        going.step = Step::Back(why);
        let name = going.name.clone();
        self.have_done(ticket, &Act::Return(name), turn);
    }

    /// It is here again, as another to the system, and the same to who observed it.
    pub(super) fn is_back(
        &mut self,
        ticket: Ticket,
        (id, why): (Identity, Refusal),
        turn: &mut Turn<'_>,
    ) {
        let Some(going) = self.migrations.going.get(&ticket) else { return };
        let (old, to, observers) = (going.id, going.to, going.observers.clone());
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
        let text = format!("node {} could not restore it: {}; it runs on here", to.0, why.text);
        self.arrived(ticket, Refusal { text, ..why }.into(), turn);
    }

    /// Neither node has it, or nobody knows: its files stay.
    pub(super) fn is_nowhere(&mut self, ticket: Ticket, why: Refusal, turn: &mut Turn<'_>) {
        let Some(going) = self.migrations.going.get(&ticket) else { return };
        let Going { to, name, .. } = going;
        let text = format!(
            "node {} could not restore it: {}; if it is not there, restore_process({name:?}) on \
             a node brings it back",
            to.0, why.text
        );
        self.arrived(ticket, Refusal { text, ..why }.into(), turn);
    }

    /// It is over.
    pub(super) fn arrived(&mut self, ticket: Ticket, done: Done, turn: &mut Turn<'_>) {
        let Some(going) = self.migrations.going.remove(&ticket) else { return };
        if !going.step.is_away() {
            // It was not dumped, so what ended has ended.
            self.happened(going.end, turn);
        }
        if !self.seats.contains_key(&going.tool.session) {
            let part = PartId { course: 0, member: 0 };
            let Going { tool, dialect, to, .. } = going;
            let (from, nodes, what) = (self.node, vec![to], What::Leave);
            turn.out.push(Output::Order(Packet {
                from,
                part,
                tool,
                dialect,
                nodes,
                depth: 0,
                what,
            }));
        }
        self.settle_place(going.place, done, turn);
    }
}
