//! A process says that it is a rank, or somebody says it of a process of his, or watches for the
//! beats of one.
//!
//! In: the call. Out: a claim; whoever reads processes finds out whose the process is, and the
//! answer comes then. Claims that come while others are looked into go out together, and no
//! sooner than some time after those: each look reads every process of the node. What is known
//! of ranks is not kept here.

use super::{Answer, Caller, Engine, Key, Output};
use monitor_model::id::{Ns, Pid};
use monitor_model::job::Rank;
use monitor_model::status::Refusal;
use monitor_protocol::Conn;
use monitor_protocol::call::Tag;
use monitor_protocol::params::{Heartbeat, Register};
use monitor_sampling::census::Claim;
use monitor_sampling::plan;
use std::collections::HashMap;

/// From one look into claims to the next.
const APART: Ns = Ns(50_000_000);
/// Ranks are smaller: `PMIX_RANK_VALID` of pmix_common.h. What is above has meanings of its own.
const RANKS: u32 = u32::MAX - 50;

/// Claims that wait.
#[derive(Default)]
pub struct Claims {
    /// Each with whom to answer what.
    waiting: HashMap<Key, Waiting>,
    /// Those that nobody has looked into yet.
    new: Vec<(Key, Claim)>,
    /// Whether some are looked into.
    out: bool,
    /// When the next can be.
    next: Ns,
}

struct Waiting {
    to: Conn,
    uid: u32,
    tag: Option<Tag>,
    what: What,
}

/// What is done when a claim is settled.
pub enum What {
    /// The process is this rank.
    Rank(Register),
    /// It promises to beat.
    Heart(Heartbeat),
}

/// Who claims, and with what his call is answered.
pub type By<'a> = (&'a Caller, Option<Tag>);

impl What {
    const fn method(&self) -> &'static str {
        match self {
            Self::Rank(_) => "register",
            Self::Heart(_) => "heartbeat",
        }
    }
}

impl Claims {
    /// When claims go out.
    pub fn due(&self) -> Option<Ns> {
        (!self.new.is_empty() && !self.out).then_some(self.next)
    }
}

impl Engine {
    /// Takes in a claim; the answer comes when it is settled.
    pub(super) fn register(
        &mut self,
        caller: &Caller,
        tag: Option<Tag>,
        mut params: Register,
        now: Ns,
    ) -> Result<Option<Answer>, Refusal> {
        plan::proper(&params.namespace)?;
        let rank = params.rank;
        if rank >= RANKS {
            return Err(Refusal::bad(format!("rank {rank}: the largest is {}", RANKS - 1)));
        }
        let pid = *params.pid.get_or_insert(caller.pid);
        if pid == 0 {
            return Err(Refusal::bad("pid 0: the id of a process, or none for the caller"));
        }
        let rank = Rank { namespace: params.namespace.as_str().into(), rank };
        self.put((caller, tag), (Pid(pid), Some(rank)), What::Rank(params), now)?;
        Ok(None)
    }

    /// Takes in that somebody speaks for a process.
    pub(super) fn put(
        &mut self,
        (caller, tag): By<'_>,
        (pid, rank): (Pid, Option<Rank>),
        what: What,
        now: Ns,
    ) -> Result<(), Refusal> {
        self.room_for_claim(caller)?;
        let claim = Claim { pid, rank, uid: caller.uid, veil: caller.veil, at: now };
        let key = self.next_key;
        self.next_key += 1;
        let waiting = Waiting { to: caller.conn, uid: caller.uid, tag, what };
        self.claims.waiting.insert(key, waiting);
        self.claims.new.push((key, claim));
        Ok(())
    }

    fn room_for_claim(&self, caller: &Caller) -> Result<(), Refusal> {
        let (most, uid) = (self.limits.registrations, caller.uid);
        let his = self.claims.waiting.values().filter(|it| it.uid == uid);
        if his.count() < most {
            return Ok(());
        }
        Err(Refusal::limit(format!(
            "{most} registrations of user {uid} wait, the limit \"registrations\": try again"
        )))
    }

    /// Has claims looked into, if it is time.
    pub(super) fn claim(&mut self, now: Ns, out: &mut Vec<Output>) {
        if self.claims.due().is_some_and(|at| at <= now) {
            self.claims.out = true;
            self.claims.next = Ns(now.0.saturating_add(APART.0));
            out.push(Output::Claims(std::mem::take(&mut self.claims.new)));
        }
    }

    /// Claims are settled.
    pub(super) fn claimed(
        &mut self,
        settled: Vec<(Key, Result<(), Refusal>)>,
        now: Ns,
        out: &mut Vec<Output>,
    ) {
        self.claims.out = false;
        for (key, result) in settled {
            let Some(Waiting { to, tag, what, .. }) = self.claims.waiting.remove(&key) else {
                continue;
            };
            // Who has gone meanwhile has no alarms, and no answer.
            let Some(caller) = self.callers.get(&to).cloned() else { continue };
            let method = what.method();
            let answer = result.and_then(|()| match what {
                What::Rank(params) => Ok(Answer::Registered(params)),
                What::Heart(params) => self.promise(&caller, params, (now, out)),
            });
            if let Err(refusal) = &answer {
                self.note_refusal(&caller, method, refusal);
            }
            out.extend(tag.map(|tag| Output::Reply { to, tag, answer }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Input, Limits};
    use super::*;
    use monitor_model::status::Status;
    use monitor_model::whose::Eyes;
    use monitor_protocol::call::Call;
    use monitor_sampling::veil::Veil;

    fn engine() -> Engine {
        let mut engine = Engine::new("n".into(), Limits::default());
        let caller =
            Caller { conn: 1, uid: 7, gid: 7, pid: 70, veil: Veil::Own(Eyes { uid: 7, gid: 7 }) };
        assert!(engine.input(Ns(0), Input::Opened(caller)).is_empty());
        engine
    }

    fn call(engine: &mut Engine, namespace: &str, rank: u32, pid: Option<u32>) -> Vec<Output> {
        let call = Call::Register(Register { namespace: namespace.into(), rank, pid });
        engine.input(Ns(5), Input::Called { from: 1, tag: Some(Tag::Number(1)), call })
    }

    #[track_caller]
    fn claims(out: &[Output]) -> &[(Key, Claim)] {
        let [Output::Claims(claims)] = out else { panic!("claims, and nothing else") };
        claims
    }

    #[track_caller]
    fn only(out: &[Output]) -> &(Key, Claim) {
        let [claim] = claims(out) else { panic!("one claim") };
        claim
    }

    #[test]
    fn claims_that_come_meanwhile_go_out_together_and_not_too_soon() {
        let mut engine = engine();
        let first = only(&call(&mut engine, "job", 0, None)).0;
        for rank in 1..=128 {
            assert!(call(&mut engine, "job", rank, None).is_empty());
        }
        assert_eq!(engine.due(), None, "some are out");
        let early = engine.input(Ns(6), Input::Claimed(vec![(first, Ok(()))]));
        assert!(matches!(&early[..], [Output::Reply { .. }]), "only the answer");
        assert_eq!(engine.due(), Some(Ns(5 + APART.0)));
        let out = engine.input(Ns(5 + APART.0), Input::Tick);
        assert_eq!(claims(&out).len(), 128);
    }

    #[test]
    fn so_many_registrations_of_a_user_may_wait_and_no_more() {
        let mut engine = engine();
        engine.limit(Limits { registrations: 2, ..Limits::default() });
        let _out = [call(&mut engine, "job", 0, None), call(&mut engine, "job", 1, None)];
        let out = call(&mut engine, "job", 2, None);
        let why = "2 registrations of user 7 wait, the limit \"registrations\": try again";
        assert!(matches!(&out[..], [Output::Reply { answer: Err(it), .. }] if it.message == why));
    }

    #[test]
    fn who_names_no_process_is_meant_himself_and_answered_when_it_is_settled() {
        let mut engine = engine();
        let out = call(&mut engine, "job", 3, None);
        let (key, claim) = only(&out);
        assert_eq!((claim.pid, claim.uid, claim.at), (Pid(70), 7, Ns(5)));
        let out = engine.input(Ns(6), Input::Claimed(vec![(*key, Ok(()))]));
        let want = Register { namespace: "job".into(), rank: 3, pid: Some(70) };
        assert!(
            matches!(&out[..], [Output::Reply { to: 1, answer: Ok(Answer::Registered(it)), .. }]
            if *it == want)
        );
        assert!(
            engine.input(Ns(7), Input::Claimed(vec![(*key, Ok(()))])).is_empty(),
            "answered once"
        );
    }

    #[test]
    fn why_it_cannot_be_is_the_answer() {
        let mut engine = engine();
        let out = call(&mut engine, "job", 3, Some(71));
        let (key, _) = only(&out);
        let refusal = Refusal::absent("no process 71");
        let out = engine.input(Ns(6), Input::Claimed(vec![(*key, Err(refusal.clone()))]));
        assert!(matches!(&out[..], [Output::Reply { answer: Err(why), .. }] if *why == refusal));
    }

    #[test]
    fn what_names_no_rank_is_refused() {
        let mut engine = engine();
        for (namespace, rank, pid) in
            [("", 0, None), ("a\n", 0, None), ("job", u32::MAX - 1, None), ("job", 0, Some(0))]
        {
            let out = call(&mut engine, namespace, rank, pid);
            assert!(matches!(&out[..], [Output::Reply { answer: Err(why), .. }]
                if why.status == Status::BadParam));
        }
    }
}
