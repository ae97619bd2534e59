//! A process says that it is a rank, or somebody says it of a process of his.
//!
//! In: the call. Out: a claim; whoever reads processes finds out whose the process is, and the
//! answer comes then. What is known of ranks is not kept here.

use super::{Answer, Caller, Conn, Engine, Key, Output};
use crate::meter::census::Claim;
use crate::meter::job::Rank;
use crate::meter::plan;
use crate::model::id::{Ns, Pid};
use crate::model::status::Refusal;
use crate::wire::call::Tag;
use crate::wire::params::Register;
use std::collections::HashMap;

/// Claims that may wait at once.
const CLAIMS: usize = 4096;
/// Ranks are smaller: `PMIX_RANK_VALID` of pmix_common.h. What is above has meanings of its own.
const RANKS: u32 = u32::MAX - 50;

/// Claims that wait, each with whom to answer what.
pub type Claims = HashMap<Key, (Conn, Option<Tag>, Register)>;

impl Engine {
    /// Takes in a claim; the answer comes when it is settled.
    pub(super) fn register(
        &mut self,
        caller: &Caller,
        tag: Option<Tag>,
        mut params: Register,
        (now, out): (Ns, &mut Vec<Output>),
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
        if self.claims.len() >= CLAIMS {
            return Err(Refusal::limit(format!("{CLAIMS} claims wait already: try again")));
        }
        let rank = Rank { namespace: params.namespace.as_str().into(), rank };
        let claim = Claim { pid: Pid(pid), rank, uid: caller.uid, veil: caller.veil, at: now };
        let key = self.next_key;
        self.next_key += 1;
        self.claims.insert(key, (caller.conn, tag, params));
        out.push(Output::Claim(key, claim));
        Ok(None)
    }

    /// A claim is settled.
    pub(super) fn claimed(&mut self, key: Key, result: Result<(), Refusal>, out: &mut Vec<Output>) {
        let Some((to, tag, params)) = self.claims.remove(&key) else { return };
        if let Err(refusal) = &result {
            *self.refused.entry(refusal.status.name()).or_default() += 1;
            tracing::info!(method = "register", status = refusal.status.name(), "{refusal}");
        }
        let answer = result.map(|()| Answer::Registered(params));
        out.extend(tag.map(|tag| Output::Reply { to, tag, answer }));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Input, Limits};
    use super::*;
    use crate::meter::veil::{Eyes, Veil};
    use crate::model::status::Status;
    use crate::wire::call::Call;

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

    #[test]
    fn who_names_no_process_is_meant_himself_and_answered_when_it_is_settled() {
        let mut engine = engine();
        let out = call(&mut engine, "job", 3, None);
        let [Output::Claim(key, claim)] = &out[..] else { panic!("a claim") };
        assert_eq!((claim.pid, claim.uid, claim.at), (Pid(70), 7, Ns(5)));
        let out = engine.input(Ns(6), Input::Claimed(*key, Ok(())));
        let want = Register { namespace: "job".into(), rank: 3, pid: Some(70) };
        assert!(
            matches!(&out[..], [Output::Reply { to: 1, answer: Ok(Answer::Registered(it)), .. }]
            if *it == want)
        );
        assert!(engine.input(Ns(7), Input::Claimed(*key, Ok(()))).is_empty(), "answered once");
    }

    #[test]
    fn why_it_cannot_be_is_the_answer() {
        let mut engine = engine();
        let out = call(&mut engine, "job", 3, Some(71));
        let [Output::Claim(key, _)] = &out[..] else { panic!("a claim") };
        let refusal = Refusal::absent("no process 71");
        let out = engine.input(Ns(6), Input::Claimed(*key, Err(refusal.clone())));
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
