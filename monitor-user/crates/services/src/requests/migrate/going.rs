//! Those on their way, and those that have left: how far each is, and until when it may be there.
//!
//! Who works for this node answers, or is known to be lost: that is waited for, however long it
//! takes, since a process may have been ended meanwhile. Everything else is given up in time.

use super::super::packet::{Packet, PartId, What};
use super::super::run::Place;
use crate::within;
use monitor_event::occurrence::EventKind;
use monitor_event::outcome::Refusal;
use monitor_event::right::{SessionId, Tool};
use monitor_event::thread::Ticket;
use monitor_model::id::is_same;
use monitor_model::id::{Identity, Ns};
use monitor_omis::{Arg, Basic, Dialect, Expr, Name, Node, Spot, Value};
use monitor_platform::Happening;
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;

/// How many of those that left are remembered: their ends are heard of a moment later.
const MOST_LEFT: usize = 1024;

/// Those on their way, and those that have left.
#[derive(Default)]
pub struct Migrations {
    pub(super) going: BTreeMap<Ticket, Going>,
    left: VecDeque<Identity>,
}

/// A process on its way.
pub(super) struct Going {
    pub place: Place,
    pub tool: Tool,
    pub dialect: Dialect,
    pub id: Identity,
    pub to: Node,
    /// What it is dumped as.
    pub name: String,
    pub step: Step,
    /// When that is given up, if it is.
    pub until: Option<Ns>,
    /// What the act of this step has answered.
    pub news: Option<Result<Identity, Refusal>>,
    /// Its end, which is told if it was one.
    pub end: Vec<Happening>,
    /// Who observed it.
    pub observers: Vec<SessionId>,
}

#[derive(Clone)]
pub(super) enum Step {
    /// Whether it may go is asked.
    Asked,
    /// It is told, and these lists run.
    Told(RangeInclusive<u64>),
    /// It is dumped.
    Dumped,
    /// The other node makes it anew.
    Sent,
    /// This one does, for this reason.
    Back(Refusal),
}

impl Migrations {
    /// How many are on their way.
    pub fn n_going(&self) -> usize {
        self.going.len()
    }

    /// When one is given up.
    pub fn due(&self) -> Option<Ns> {
        self.going.values().filter_map(|it| it.until).min()
    }

    /// Whether it tells the end of a process that has left, or is about to: that is none.
    pub fn takes(&mut self, it: &Happening) -> bool {
        let (Happening::Occurred(told) | Happening::Ran { it: told, .. }) = it else {
            return false;
        };
        let Some(id) = told.process.filter(|_| told.topic == EventKind::Ended) else {
            return false;
        };
        let leaves = |going: &&mut Going| is_same(going.id, id) && going.step.has_begun();
        if let Some(going) = self.going.values_mut().find(leaves) {
            going.end.push(it.clone());
            return true;
        }
        self.left.iter().any(|left| is_same(*left, id))
    }

    /// It is nowhere but in its files.
    pub(super) fn has_left(&mut self, ticket: Ticket) {
        self.left.extend(self.going.get(&ticket).map(|it| it.id));
        if self.left.len() > MOST_LEFT {
            let _first = self.left.pop_front();
        }
    }

    /// Whether a process of this session is on its way.
    pub(super) fn has_of(&self, session: SessionId) -> bool {
        self.going.values().any(|it| it.tool.session == session)
    }
}

impl Going {
    /// One that was asked for now.
    pub fn new(
        (place, tool, dialect): (Place, Tool, Dialect),
        (id, to): (Identity, Node),
        now: Ns,
    ) -> Self {
        let name = format!("{}-{}", id.pid.0, now.0);
        let (news, end, observers) = (None, Vec::new(), Vec::new());
        let (step, until) = (Step::Asked, None);
        let mut it = Self { place, tool, dialect, id, to, name, step, until, news, end, observers };
        it.go(Step::Asked, now);
        it
    }

    /// What asks the other node to make it anew.
    pub fn restore(&self, from: Node, ticket: Ticket) -> Packet {
        let args = vec![Arg::from(Expr::Value(Value::from(self.name.as_str())))];
        let service = Name::new("restore_process").expect("it is a name");
        let basic =
            Basic { id: None, nodes: Some(Vec::new()), service, args, spot: Spot::default() };
        let part = PartId { course: ticket, member: 0 };
        Packet { part, ..self.packet(from, What::Do(basic)) }
    }

    /// What lets the other node forget its tool.
    pub fn farewell(&self, from: Node) -> Packet {
        self.packet(from, What::Leave)
    }

    fn packet(&self, from: Node, what: What) -> Packet {
        let (tool, dialect, nodes) = (self.tool, self.dialect, vec![self.to]);
        let part = PartId { course: 0, member: 0 };
        Packet { from, part, tool, dialect, nodes, depth: 0, what }
    }

    /// Goes on to this step, which has its own time.
    pub fn go(&mut self, step: Step, now: Ns) {
        self.until = step.within().map(|most| Ns(now.0.saturating_add(most.0)));
        self.step = step;
    }

    /// Whether its time for this step is over.
    pub fn is_late(&self, now: Ns) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

impl Step {
    const fn within(&self) -> Option<Ns> {
        match self {
            Self::Asked => Some(within::ACT),
            Self::Told(_) => Some(within::LISTS),
            Self::Sent => Some(within::MOVE),
            Self::Dumped | Self::Back(_) => None,
        }
    }

    /// Whether it may be ended by now.
    const fn has_begun(&self) -> bool {
        !matches!(self, Self::Asked | Self::Told(_))
    }

    /// Whether it is nowhere but in its files, or nobody knows.
    pub const fn is_away(&self) -> bool {
        matches!(self, Self::Sent | Self::Back(_))
    }
}
