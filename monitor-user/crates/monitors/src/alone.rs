//! The monitors of a process without a service: an engine, and a reading whenever it wants one.
//!
//! In: calls of tools, the time. Out: what becomes of them, in the same call, and samples when they
//! are due. What it reads with is opened by the first call, so who never calls pays nothing; how a
//! file is looked at it is told.

use super::{Caller, Engine, Input, Key, Limits, Look, Output};
use monitor_backend::Error;
use monitor_event::outcome::Each;
use monitor_event::outcome::Refusal;
use monitor_event::right::{SessionId, Tool};
use monitor_event::thread::Ticket;
use monitor_model::id::Ns;
use monitor_model::sample::Instant;
use monitor_model::status::Refusal as Refused;
use monitor_omis::Status;
use monitor_platform::Happening;
use monitor_platform::monitors::Monitors;
use monitor_protocol::Conn;
use monitor_protocol::call::{Call, Tag};
use monitor_protocol::reply;
use monitor_sampling::census::Claim;
use monitor_sampling::file::{Stat, Unseen};
use monitor_sampling::round::{Rounds, Turn};
use monitor_services::monitor::heard;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Opens what is read with.
pub type Open = Box<dyn Fn() -> Result<Rounds, Error> + Send>;

/// Looks at a file, with the rights of this process.
pub type See = Box<dyn Fn(&str) -> Result<Stat, Unseen> + Send>;

/// The monitors.
pub struct Alone {
    engine: Engine,
    open: Open,
    see: See,
    rounds: Option<Rounds>,
    /// The realtime clock less the one that calls have.
    epoch: Ns,
    /// When it was called last.
    now: Ns,
    sessions: BTreeMap<Conn, SessionId>,
    next: Conn,
    told: Vec<Happening>,
}

impl Alone {
    /// None yet, on a node of this name.
    pub fn new(node: Arc<str>, epoch: Ns, open: Open, see: See) -> Self {
        let engine = Engine::new(node, Limits::default());
        let (sessions, told) = (BTreeMap::new(), Vec::new());
        Self { engine, open, see, rounds: None, epoch, now: Ns(0), sessions, next: 0, told }
    }

    /// The connection of a tool: its first call opens it.
    fn conn(&mut self, tool: &Tool) -> Conn {
        let found = self.sessions.iter().find(|(_, it)| **it == tool.session);
        if let Some((conn, _)) = found {
            return *conn;
        }
        let conn = self.next;
        self.next += 1;
        self.sessions.insert(conn, tool.session);
        let &Tool { uid, gid, pid, sees: veil, .. } = tool;
        self.input(Input::Opened(Caller { conn, uid, gid, pid, veil }));
        conn
    }

    fn input(&mut self, input: Input) {
        let now = self.now;
        self.engine.set_clock(Instant { boot: now, unix: Ns(now.0.saturating_add(self.epoch.0)) });
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            for output in self.engine.input(now, input) {
                inputs.extend(self.output(output));
            }
        }
    }

    fn output(&mut self, output: Output) -> Option<Input> {
        let (to, line) = match output {
            Output::Look(looks) => return Some(Input::Seen(self.look(looks))),
            Output::LookAt(at) => return Some(Input::Looked(at.key, (self.see)(&at.path))),
            Output::Claims(claims) => return Some(Input::Claimed(self.settle(claims))),
            Output::Reply { to, tag, answer: Ok(answer) } => (to, reply::good(&tag, answer)),
            Output::Reply { to, tag, answer: Err(why) } => (to, reply::refused(&tag, &why)),
            Output::Event { to, event } => (to, event.to_line()),
            // No service of the language makes a call that ends in this.
            Output::Asked { .. } => return None,
        };
        let session = self.sessions.get(&to)?;
        self.told.extend(heard::happenings(*session, &line));
        None
    }

    fn look(&mut self, mut looks: Vec<Look>) -> Vec<Look> {
        let Some(rounds) = &mut self.rounds else { return looks };
        rounds.need(self.engine.capabilities().collect(), self.now);
        let turn = |it| -> Turn<'_> {
            let look: &mut Look = it;
            Turn { view: &mut look.view, seen: None }
        };
        let mut turns: Vec<_> = looks.iter_mut().map(turn).collect();
        rounds.look(&mut turns);
        let seen: Vec<_> = turns.into_iter().map(|turn| turn.seen).collect();
        looks.iter_mut().zip(seen).for_each(|(look, seen)| look.seen = seen);
        looks
    }

    fn settle(&mut self, claims: Vec<(Key, Claim)>) -> Vec<(Key, Result<(), Refused>)> {
        let (keys, claims): (Vec<_>, Vec<_>) = claims.into_iter().unzip();
        let settled = self.rounds.as_mut().map(|it| it.claim(&claims)).unwrap_or_default();
        keys.into_iter().zip(settled).collect()
    }
}

impl Monitors for Alone {
    fn call(
        &mut self,
        (ticket, now): (Ticket, Ns),
        tool: &Tool,
        call: Call,
    ) -> Result<Option<Each>, Refusal> {
        self.now = now;
        if self.rounds.is_none() {
            let refused = |why: Error| Refusal::new(Status::UNSUPPORTED, why.to_string());
            self.rounds = Some((self.open)().map_err(refused)?);
        }
        let from = self.conn(tool);
        let tag = i64::try_from(ticket).ok().map(Tag::Number);
        self.input(Input::Called { from, tag, call });
        let is_it = |it: &Happening| matches!(it, Happening::Acted(of, _) if *of == ticket);
        let place = self.told.iter().position(is_it);
        Ok(place.and_then(|place| match self.told.remove(place) {
            Happening::Acted(_, each) => Some(each),
            _ => None,
        }))
    }

    fn leave(&mut self, session: SessionId) {
        let left: Vec<Conn> =
            self.sessions.iter().filter(|(_, it)| **it == session).map(|(conn, _)| *conn).collect();
        for conn in left {
            self.input(Input::Closed(conn));
            self.sessions.remove(&conn);
        }
    }

    fn due(&self) -> Option<Ns> {
        let told = (!self.told.is_empty()).then_some(Ns(0));
        let tend = self.rounds.as_ref().and_then(Rounds::due);
        [told, self.engine.due(), tend].into_iter().flatten().min()
    }

    fn told(&mut self, now: Ns) -> Vec<Happening> {
        self.now = now;
        if self.engine.due().is_some_and(|due| due <= now) {
            self.input(Input::Tick);
        }
        if let Some(rounds) = self.rounds.as_mut().filter(|it| it.due().is_some_and(|at| at <= now))
        {
            rounds.tend(now);
        }
        std::mem::take(&mut self.told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_backends::canned::{BEGINNING, Canned};
    use monitor_event::occurrence::EventKind;
    use monitor_model::request::Request;
    use monitor_protocol::params::Register;

    fn alone() -> Alone {
        let open = || {
            let backend = Canned::scripted("process 7").expect("a script");
            Ok(Rounds::new((0, Box::new(backend)), Vec::new()))
        };
        Alone::new("node0".into(), Ns(0), Box::new(open), Box::new(|_| Err(Unseen::Missing)))
    }

    fn tool(conn: u64) -> Tool {
        Tool::root(SessionId { entry: 0, conn }, 1)
    }

    fn start(it: &mut Alone, conn: u64) -> Each {
        let request = Request {
            id: Some("m".into()),
            part: "proc".into(),
            every_ns: Some(1_000_000_000),
            ..Request::default()
        };
        let told = it.call((5, Ns(0)), &tool(conn), Call::Monitor(request.into()));
        told.expect("it is served").expect("at once")
    }

    #[test]
    fn samples_are_told_to_who_asked_and_go_with_him() {
        let mut it = alone();
        assert!(start(&mut it, 1)[0].1.is_ok() && start(&mut it, 2)[0].1.is_ok());
        let again = start(&mut it, 2).remove(0).1.expect_err("one of a name");
        assert_eq!(again.status, Status::EXISTS);
        it.leave(tool(1).session);
        let due = it.due().expect("it goes on");
        assert!(due >= Ns(1_000_000_000));
        let told = it.told(due);
        let topics = told.iter().map(|it| match it {
            Happening::Occurred(it) => &it.topic,
            other => panic!("{other:?}"),
        });
        assert_eq!(topics.collect::<Vec<_>>(), [&EventKind::Sampled(tool(2).session)]);
        it.leave(tool(2).session);
        assert!(it.engine.is_empty() && it.sessions.is_empty());
    }

    #[test]
    fn a_claim_that_comes_too_soon_behind_another_is_answered_when_it_is_settled() {
        let mut it = alone();
        let now = BEGINNING.boot;
        let claim = |rank| Call::Register(Register { namespace: "job".into(), rank, pid: Some(7) });
        let first = it.call((5, now), &tool(1), claim(0)).expect("it is served");
        assert!(first.expect("at once")[0].1.is_ok());
        assert_eq!(it.call((6, now), &tool(1), claim(1)), Ok(None));
        let due = it.due().expect("it goes on");
        assert!(due > now);
        let told = it.told(due);
        assert!(matches!(&told[..], [Happening::Acted(6, each)] if each[0].1.is_ok()), "{told:?}");
    }

    #[test]
    fn a_file_that_may_not_be_looked_at_is_refused() {
        let mut it = Alone { see: Box::new(|_| Err(Unseen::Denied)), ..alone() };
        let line = br#"{"method":"file","params":{"path":"/a","every_ns":1000000000,"size":true}}"#;
        let (_, call) = Call::from_line(line).expect("a call");
        let told = it.call((5, Ns(0)), &tool(1), call).expect("it is served").expect("at once");
        let why = told[0].1.as_ref().expect_err("no rights");
        assert_eq!(why.text, "file \"/a\": your rights do not reach it");
    }

    #[test]
    fn what_cannot_be_opened_is_said() {
        let fail = || Err(Error::Denied { what: "reading".into(), need: "CAP_BPF".into() });
        let see = Box::new(|_: &str| Err(Unseen::Missing));
        let mut it = Alone::new("node0".into(), Ns(0), Box::new(fail), see);
        let why = it.call((5, Ns(0)), &tool(1), Call::List).expect_err("nothing can be read");
        assert_eq!(why.text, "reading needs CAP_BPF");
    }
}
