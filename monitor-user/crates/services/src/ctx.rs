//! What a service is given besides its parameters.
//!
//! It finds out which processes a parameter means, whether they are in the scope of the session,
//! and whether the caller may have done to them what the row says; so no service asks that itself.

use super::desk::Desk;
use super::outcome::{Later, Outcome, Then, summed};
use super::session::Session;
use monitor_event::outcome::Each;
use monitor_event::outcome::{Done, Refusal, Report};
use monitor_event::right::Right;
use monitor_event::thread::Target;
use monitor_event::thread::Ticket;
use monitor_model::id::{Identity, Ns};
use monitor_model::sample::Process;
use monitor_omis::object::{Object, Objects};
use monitor_omis::token::TokenKind;
use monitor_omis::{Node, Status, Token, Value};
use monitor_platform::{Act, By, Ground};

/// A node of the system, and what it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub node: Node,
    /// Its name.
    pub name: String,
}

/// All that a service may use.
pub struct Ctx<'c> {
    /// When it is called, on `CLOCK_BOOTTIME`.
    pub now: Ns,
    /// This node.
    pub node: Node,
    /// All nodes, ascending.
    pub members: &'c [Member],
    /// Who asks.
    pub session: &'c mut Session,
    /// What is acted on.
    pub ground: &'c mut dyn Ground,
    /// What is stored.
    pub desk: &'c mut dyn Desk,
    /// What the row says that the caller must be allowed.
    pub right: Right,
    /// By which an act that goes on is known.
    pub ticket: Ticket,
    /// The thread that met the event of which this is an action, as long as it is held.
    pub held: Option<Target>,
}

/// The processes that a parameter means: those that may be served, and why the others may not.
#[derive(Debug, Default)]
pub struct Chosen {
    /// As they are now.
    pub served: Vec<Process>,
    /// As the caller named them.
    pub failed: Vec<(Value, Refusal)>,
}

impl Ctx<'_> {
    /// The processes of a list; all that are attached, if it is empty.
    pub fn processes(&mut self, list: &Value) -> Result<Chosen, Refusal> {
        let mut chosen = Chosen::default();
        let claims = self.claims(list, &mut chosen);
        let pids: Vec<_> = claims.iter().map(|(_, id)| id.pid).collect();
        let mut seen = self.ground.look(&pids)?.into_iter().peekable();
        for (named, id) in claims {
            while seen.next_if(|it| it.id.pid < id.pid).is_some() {}
            let it = seen.next_if(|it| it.id.pid == id.pid);
            match self.session.admit(id, it, self.right) {
                Ok(it) => chosen.served.push(it),
                // Of all that are attached, those that have ended are none.
                Err(why) if named.is_none() && why.status == Status::GONE => {}
                Err(why) => chosen.failed.push((named.unwrap_or_else(|| self.number(id)), why)),
            }
        }
        Ok(chosen)
    }

    /// One process.
    pub fn process(&mut self, named: &Value) -> Result<Process, Refusal> {
        let chosen = self.processes(&Value::List(vec![named.clone()]))?;
        let failed = chosen.failed.into_iter().next();
        chosen.served.into_iter().next().ok_or_else(|| match failed {
            Some((_, why)) => why,
            None => Refusal::new(Status::NO_SUCH_OBJECT, "no process is named"),
        })
    }

    /// The number of a process in this session.
    pub fn number(&mut self, id: Identity) -> Value {
        Value::from(self.session.numbers.give(id))
    }

    /// Does something to the processes of a list, and answers when it is done to all of them.
    pub fn act(&mut self, list: &Value, act: &Act, then: Then) -> Outcome {
        let chosen = match self.processes(list) {
            Ok(chosen) => chosen,
            Err(refusal) => return Done::from(refusal).into(),
        };
        let ids: Vec<Identity> = chosen.served.iter().map(|it| it.id).collect();
        if ids.is_empty() {
            return self.summed(&chosen.failed, 0).into();
        }
        let failed = chosen.failed;
        match self.order(act, &ids) {
            Some(each) => then(self, Report { each, failed }).into(),
            None => Outcome::Later(Later { then, failed }),
        }
    }

    /// Has an act done to these, or to nobody, for the tool that asks.
    pub fn order(&mut self, act: &Act, on: &[Identity]) -> Option<Each> {
        let by = By { ticket: self.ticket, tool: &self.session.tool, held: self.held };
        self.ground.act(by, act, on)
    }

    /// The outcome for a list of which some were served.
    pub fn summed(&self, failed: &[(Value, Refusal)], n_served: usize) -> Done {
        summed(failed, n_served, self.session.dialect)
    }

    /// The outcome of an act that gives nothing but its status.
    pub fn acknowledge(&mut self, report: Report) -> Done {
        let mut failed = report.failed;
        let mut n_served = 0;
        for (id, result) in report.each {
            match result {
                Ok(_) => n_served += 1,
                Err(why) => failed.push((self.number(id), why)),
            }
        }
        self.summed(&failed, n_served)
    }

    /// What is claimed, ascending by pid; without a name, if all that are attached were meant.
    fn claims(&mut self, list: &Value, chosen: &mut Chosen) -> Vec<(Option<Value>, Identity)> {
        let mut claims = Vec::new();
        let mut all = |session: &Session| {
            claims.extend(session.scope.members().map(|id| (None, id)));
        };
        match Objects::from_value(list) {
            Some(Objects::Only(objects)) => {
                for object in objects {
                    self.claim(object, &mut claims, chosen);
                }
            }
            Some(Objects::All) | None => all(self.session),
        }
        claims.sort_by_key(|(_, id)| *id);
        claims.dedup_by_key(|(_, id)| *id);
        claims
    }

    fn claim(
        &mut self,
        object: Object,
        claims: &mut Vec<(Option<Value>, Identity)>,
        chosen: &mut Chosen,
    ) {
        let (named, number) = match object {
            Object::Token(Token { kind: TokenKind::Node, .. }) => {
                return claims.extend(self.session.scope.members().map(|id| (None, id)));
            }
            Object::Token(token) => (Value::Token(token), Some(token.serial)),
            Object::Number(number) => (Value::Integer(number), number.get()),
        };
        let found = number.ok_or_else(|| self.nobody(&named)).and_then(|number| {
            match self.session.numbers.find(number) {
                Some(id) => Ok(id),
                None => Err(self.stranger(number, &named)),
            }
        });
        match found {
            Ok(id) => claims.push((Some(named), id)),
            Err(why) => chosen.failed.push((named, why)),
        }
    }

    /// Why a number means nobody here.
    fn stranger(&mut self, number: u64, named: &Value) -> Refusal {
        let pid = u32::try_from(number).ok().map(monitor_model::id::Pid);
        let there = pid.and_then(|pid| self.ground.look(&[pid]).ok()?.into_iter().next());
        match there.filter(|it| self.session.tool.sees.shows(it)) {
            Some(it) => self.session.outside(&it, named),
            None => self.nobody(named),
        }
    }

    fn nobody(&self, named: &Value) -> Refusal {
        let text = format!("no process {named} on node {}", self.node.0);
        Refusal::new(Status::NO_SUCH_OBJECT, text)
    }
}
