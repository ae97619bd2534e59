//! What the children of a connection's process use: when to look, and whom to tell.
//!
//! While nobody waits it looks once a second, so that nothing is forgotten meanwhile. A sum waits
//! for the final records of what has ended, for a while. It goes with its connection.

use super::{Answer, Caller, Engine, Key, Output};
use monitor_model::id::{Ns, Pid};
use monitor_model::status::{Refusal, Status};
use monitor_model::want::Capability;
use monitor_protocol::Conn;
use monitor_protocol::answer::Accounting;
use monitor_protocol::call::Tag;
use monitor_sampling::account;
use monitor_sampling::account::Account;
use monitor_sampling::eye::Eye;
use monitor_sampling::view::Seen;
use std::collections::BTreeMap;

/// From one look to the next while nobody waits.
const EVERY: Ns = Ns(1_000_000_000);
/// The same while a sum waits for final records.
const SETTLE_EVERY: Ns = Ns(5_000_000);
/// How long it waits.
const SETTLE: Ns = Ns(2_000_000_000);
/// Sums that may wait at once.
const SUMS: usize = 64;

/// The accounts of all connections.
#[derive(Default)]
pub struct Accounts(BTreeMap<Key, Charge>);

impl Accounts {
    /// When the first of them looks again.
    pub fn due(&self) -> Option<Ns> {
        self.0.values().filter_map(Charge::due).min()
    }

    /// Those that are due, for a reading.
    pub fn looks(&mut self, now: Ns) -> Vec<(Key, Eye)> {
        let due = self.0.iter_mut().filter(|(_, it)| it.due().is_some_and(|at| at <= now));
        due.filter_map(|(key, it)| Some((*key, it.take()?))).collect()
    }

    /// What must be attached for them.
    pub fn capabilities(&self) -> &'static [Capability] {
        if self.0.is_empty() { &[] } else { &account::CAPABILITIES }
    }

    /// A connection has closed.
    pub fn close(&mut self, conn: Conn) {
        self.0.retain(|_, it| it.owner != conn);
    }

    /// How many a user has.
    pub fn of_user(&self, uid: u32) -> usize {
        self.0.values().filter(|it| it.uid == uid).count()
    }

    fn of(&mut self, conn: Conn) -> Option<&mut Charge> {
        self.0.values_mut().find(|it| it.owner == conn)
    }
}

/// The account of one connection.
struct Charge {
    owner: Conn,
    uid: u32,
    pid: u32,
    /// Away, while it looks at a reading.
    eye: Option<Box<Account>>,
    next: Ns,
    /// The tag of the call, until it is answered.
    first: Option<Tag>,
    sums: Vec<Waiting>,
}

/// A sum that was asked for.
struct Waiting {
    tag: Option<Tag>,
    child: Pid,
    asked: Ns,
    /// Whether it was looked for since.
    looked: bool,
}

impl Charge {
    /// When it looks again.
    fn due(&self) -> Option<Ns> {
        self.eye.is_some().then_some(self.next)
    }

    /// Its eye, for a reading.
    fn take(&mut self) -> Option<Eye> {
        self.sums.iter_mut().for_each(|it| it.looked = true);
        self.eye.take().map(Eye::Account)
    }

    /// Answers whoever waits for nothing more.
    fn answer(&mut self, now: Ns, out: &mut Vec<Output>) {
        let Some(eye) = &mut self.eye else { return };
        let to = self.owner;
        let backend = eye.source().name().to_owned();
        let begun = Answer::Account(Accounting { pid: self.pid, backend });
        let first = self.first.take();
        out.extend(first.map(|tag| Output::Reply { to, tag, answer: Ok(begun) }));
        let over = |it: &mut Waiting| {
            it.looked && (eye.settled(it.child) || now.since(it.asked) >= SETTLE)
        };
        let done: Vec<Waiting> = self.sums.extract_if(.., over).collect();
        for Waiting { tag, child, .. } in done {
            let answer = eye.sum(child).map(|sum| Answer::Sum(Box::new(sum)));
            out.extend(tag.map(|tag| Output::Reply { to, tag, answer }));
        }
        let pause = if self.sums.is_empty() { EVERY } else { SETTLE_EVERY };
        self.next = Ns(now.0.saturating_add(pause.0));
    }

    /// The reading failed: everybody who waits is told.
    fn refuse(&mut self, refusal: &Refusal, out: &mut Vec<Output>) {
        let sums = self.sums.drain(..).filter_map(|it| it.tag);
        let to = self.owner;
        let told = |tag| Output::Reply { to, tag, answer: Err(refusal.clone()) };
        out.extend(self.first.take().into_iter().chain(sums).map(told));
    }
}

impl Engine {
    /// Begins to count what the caller's process starts; the answer comes after a first reading.
    pub(super) fn account(
        &mut self,
        caller: &Caller,
        tag: Option<Tag>,
        now: Ns,
    ) -> Result<Option<Answer>, Refusal> {
        if self.accounts.of(caller.conn).is_some() {
            let why = "account: this connection has one already; ask for its sums";
            return Err(Refusal::new(Status::Exists, why));
        }
        self.room(caller)?;
        let charge = Charge {
            owner: caller.conn,
            uid: caller.uid,
            pid: caller.pid,
            eye: Some(Box::new(Account::new(Pid(caller.pid), caller.veil))),
            next: now,
            first: tag,
            sums: Vec::new(),
        };
        self.accounts.0.insert(self.next_key, charge);
        self.next_key += 1;
        Ok(None)
    }

    /// Asks for a sum; the answer comes when it is whole, or after a while.
    pub(super) fn sum(
        &mut self,
        caller: &Caller,
        tag: Option<Tag>,
        (child, now): (u32, Ns),
    ) -> Result<Option<Answer>, Refusal> {
        let charge = self.accounts.of(caller.conn).ok_or_else(|| {
            Refusal::absent("sum without account: call that before the child is started")
        })?;
        if charge.sums.len() >= SUMS {
            return Err(Refusal::limit(format!("{SUMS} sums wait already, the limit")));
        }
        charge.sums.push(Waiting { tag, child: Pid(child), asked: now, looked: false });
        charge.next = now;
        Ok(None)
    }

    /// An eye is back.
    pub(super) fn accounted(
        &mut self,
        key: Key,
        (eye, seen): (Box<Account>, Option<Result<Seen, Refusal>>),
        now: Ns,
        out: &mut Vec<Output>,
    ) {
        let Some(charge) = self.accounts.0.get_mut(&key) else { return };
        charge.eye = Some(eye);
        match seen {
            Some(Err(refusal)) => {
                let begun = charge.first.is_none();
                charge.refuse(&refusal, out);
                charge.next = Ns(now.0.saturating_add(EVERY.0));
                if !begun {
                    self.accounts.0.remove(&key);
                }
            }
            _ => charge.answer(now, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Input, Limits, Look};
    use super::*;
    use monitor_backends::canned::Canned;
    use monitor_model::id::Identity;
    use monitor_model::sample::{Birth, Process, Sample, Source};
    use monitor_model::whose::Eyes;
    use monitor_protocol::call::Call;
    use monitor_protocol::params::Sum;
    use monitor_sampling::past::Past;
    use monitor_sampling::target::NoNamespaces;
    use monitor_sampling::veil::Veil;
    use monitor_sampling::view::Reading;

    const MS: u64 = 1_000_000;

    struct World {
        engine: Engine,
        now: Ns,
        dying: Vec<Birth>,
    }

    fn id(pid: u32, start: u64) -> Identity {
        Identity { pid: Pid(pid), start: Ns(start) }
    }

    impl World {
        fn new() -> Self {
            let mut engine = Engine::new("n".into(), Limits::default());
            let caller = Caller {
                conn: 1,
                uid: 7,
                gid: 7,
                pid: 10,
                veil: Veil::Own(Eyes { uid: 7, gid: 7 }),
            };
            assert!(engine.input(Ns(0), Input::Opened(caller)).is_empty());
            Self { engine, now: Ns(0), dying: Vec::new() }
        }

        /// Calls, reads if that is asked for, and gives what was answered.
        fn call(&mut self, tag: i64, call: Call) -> Vec<Output> {
            let out = self
                .engine
                .input(self.now, Input::Called { from: 1, tag: Some(Tag::Number(tag)), call });
            self.read(out)
        }

        fn after(&mut self, ms: u64) -> Vec<Output> {
            self.now = Ns(self.now.0 + ms * MS);
            let out = self.engine.input(self.now, Input::Tick);
            self.read(out)
        }

        fn read(&mut self, out: Vec<Output>) -> Vec<Output> {
            let mut rest = Vec::new();
            for output in out {
                match output {
                    Output::Look(looks) => {
                        let looks = looks.into_iter().map(|look| self.look(look)).collect();
                        rest.extend(self.engine.input(self.now, Input::Seen(looks)));
                    }
                    output => rest.push(output),
                }
            }
            rest
        }

        /// The caller lives, and his child is as good as gone.
        fn look(&self, mut look: Look) -> Look {
            let caller = Process { id: id(10, 1), ..Process::default() };
            let mut sample =
                Sample { processes: vec![caller], source: Source::Ebpf, ..Sample::default() };
            sample.at.boot = Ns(5);
            sample.dying.clone_from(&self.dying);
            let (sample, past) = (&sample, &Past::default());
            let reading =
                Reading { sample, node: None, past, namespaces: &NoNamespaces, shed: &[] };
            look.seen = Some(look.view.see(&reading, &mut Canned::fixed()));
            look
        }
    }

    fn sum() -> Call {
        Call::Sum(Sum { pid: 20 })
    }

    #[test]
    fn counting_has_begun_when_it_is_answered() {
        let mut world = World::new();
        let out = world.call(1, Call::Account);
        let [Output::Reply { answer: Ok(Answer::Account(it)), .. }] = &out[..] else {
            panic!("one answer")
        };
        assert_eq!((it.pid, &*it.backend), (10, "ebpf"));
        assert_eq!(world.engine.due(), Some(Ns(EVERY.0)));
        let again = world.call(2, Call::Account);
        assert!(matches!(&again[..], [Output::Reply { answer: Err(_), .. }]));
    }

    #[test]
    fn a_sum_waits_for_the_final_record_and_not_for_ever() {
        let mut world = World::new();
        assert_eq!(world.call(1, Call::Account).len(), 1);
        world.dying = vec![Birth { id: id(20, 9), parent: Some(id(10, 1)) }];
        assert!(world.call(2, sum()).is_empty());
        assert!(world.after(1000).is_empty(), "its record has not come");
        let out = world.after(1000);
        let [Output::Reply { answer: Ok(Answer::Sum(totals)), .. }] = &out[..] else {
            panic!("one answer")
        };
        assert_eq!((totals.processes_started, totals.awaited), (1, 1));
    }

    #[test]
    fn a_sum_of_what_was_never_started_is_refused() {
        let mut world = World::new();
        assert_eq!(world.call(1, Call::Account).len(), 1);
        let out = world.call(2, sum());
        assert!(matches!(&out[..], [Output::Reply { answer: Err(it), .. }]
            if it.status == Status::NotFound));
    }

    #[test]
    fn it_goes_with_its_connection() {
        let mut world = World::new();
        assert_eq!(world.call(1, Call::Account).len(), 1);
        assert!(world.engine.capabilities().next().is_some());
        let out = world.engine.input(world.now, Input::Closed(1));
        assert!(out.is_empty() && world.engine.due().is_none());
        assert!(world.engine.capabilities().next().is_none(), "nothing stays attached for it");
    }
}
