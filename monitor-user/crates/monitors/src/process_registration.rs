//! Registration of processes as ranks, and checks of processes for heartbeat watches.
//!
//! In: the call. Out: a claim; the reader checks the owner of the process, and the reply follows.
//! Claims that arrive during a check go out together, a minimum time after it, because each check
//! reads all processes of the node. Registered ranks are not stored here.

use super::pending::{ClaimPurpose, PendingRegistration};
use super::{Answer, Caller, MonitorEngine, MonitorKey, MonitorOutput, caller::TaggedCaller};
use monitor_model::{Ns, Pid, Rank, Refusal};
use monitor_protocol::{call::Tag, params::Register};
use monitor_sampling::{job_index::RankClaim, plan};

/// Minimum interval between two checks.
const CHECK_INTERVAL: Ns = Ns(50_000_000);
/// Upper bound of ranks: `PMIX_RANK_VALID` of pmix_common.h; higher values are reserved.
const RANK_LIMIT: u32 = u32::MAX - 50;

impl MonitorEngine {
    /// Queues a registration; the reply follows when it is settled.
    pub(super) fn register(
        &mut self,
        caller: &Caller,
        tag: Option<Tag>,
        mut params: Register,
        now: Ns,
    ) -> Result<Option<Answer>, Refusal> {
        plan::check_name(&params.namespace)?;
        let rank = params.rank;
        if rank >= RANK_LIMIT {
            return Err(Refusal::bad(format!("rank {rank}: the largest is {}", RANK_LIMIT - 1)));
        }
        let pid = *params.pid.get_or_insert(caller.pid);
        if pid == 0 {
            return Err(Refusal::bad("pid 0: expected a process id, or no pid for the caller"));
        }
        let rank = Rank { namespace: params.namespace.as_str().into(), rank };
        self.queue_claim((caller, tag), (Pid(pid), Some(rank)), ClaimPurpose::Rank(params), now)?;
        Ok(None)
    }

    /// Queues a claim.
    pub(super) fn queue_claim(
        &mut self,
        (caller, tag): TaggedCaller<'_>,
        (pid, rank): (Pid, Option<Rank>),
        what: ClaimPurpose,
        now: Ns,
    ) -> Result<(), Refusal> {
        self.check_claim_limit(caller)?;
        let claim =
            RankClaim { pid, rank, uid: caller.uid, visibility: caller.visibility, at: now };
        let key = self.next_key;
        self.next_key += 1;
        let waiting = PendingRegistration { to: caller.conn, uid: caller.uid, tag, what };
        self.claims.waiting.insert(key, waiting);
        self.claims.new.push((key, claim));
        Ok(())
    }

    fn check_claim_limit(&self, caller: &Caller) -> Result<(), Refusal> {
        let (most, uid) = (self.limits.registrations, caller.uid);
        let own = self.claims.waiting.values().filter(|it| it.uid == uid);
        if own.count() < most {
            return Ok(());
        }
        Err(Refusal::limit(format!(
            "{most} registrations of user {uid} are pending, the limit \"registrations\": try again"
        )))
    }

    /// Starts a check if one is due.
    pub(super) fn start_check(&mut self, now: Ns, out: &mut Vec<MonitorOutput>) {
        if self.claims.due().is_some_and(|at| at <= now) {
            self.claims.is_checking = true;
            self.claims.next = Ns(now.0.saturating_add(CHECK_INTERVAL.0));
            out.push(MonitorOutput::CheckClaims(std::mem::take(&mut self.claims.new)));
        }
    }

    /// Handles settled claims.
    pub(super) fn claims_settled(
        &mut self,
        settled: Vec<(MonitorKey, Result<(), Refusal>)>,
        now: Ns,
        out: &mut Vec<MonitorOutput>,
    ) {
        self.claims.is_checking = false;
        for (key, result) in settled {
            let Some(PendingRegistration { to, tag, what, .. }) = self.claims.waiting.remove(&key)
            else {
                continue;
            };
            // A client that has disconnected meanwhile gets no alarm and no reply.
            let Some(caller) = self.callers.get(&to).cloned() else { continue };
            let method = what.method();
            let answer = result.and_then(|()| match what {
                ClaimPurpose::Rank(params) => Ok(Answer::Registered(params)),
                ClaimPurpose::Heartbeat(params) => {
                    self.start_heartbeat(&caller, params, (now, out))
                }
            });
            if let Err(refusal) = &answer {
                self.count_refusal(&caller, method, refusal);
            }
            out.extend(tag.map(|tag| MonitorOutput::Reply { to, tag, answer }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MonitorInput, UserLimits};
    use super::MonitorOutput as Output;
    use super::*;
    use monitor_model::credentials::Credentials;
    use monitor_model::status::Status;
    use monitor_protocol::call::Call;
    use monitor_sampling::visibility::Visibility;

    fn engine() -> MonitorEngine {
        let mut engine = MonitorEngine::new("n".into(), UserLimits::default());
        let caller = Caller {
            conn: 1,
            uid: 7,
            gid: 7,
            pid: 70,
            visibility: Visibility::OwnInFull(Credentials { uid: 7, gid: 7 }),
        };
        assert!(engine.input(Ns(0), MonitorInput::Opened(caller)).is_empty());
        engine
    }

    fn call(
        engine: &mut MonitorEngine,
        namespace: &str,
        rank: u32,
        pid: Option<u32>,
    ) -> Vec<MonitorOutput> {
        let call = Call::Register(Register { namespace: namespace.into(), rank, pid });
        engine.input(Ns(5), MonitorInput::Called { from: 1, tag: Some(Tag::Number(1)), call })
    }

    #[track_caller]
    fn claims(out: &[MonitorOutput]) -> &[(MonitorKey, RankClaim)] {
        let [MonitorOutput::CheckClaims(claims)] = out else { panic!("claims only") };
        claims
    }

    #[track_caller]
    fn only(out: &[MonitorOutput]) -> &(MonitorKey, RankClaim) {
        let [claim] = claims(out) else { panic!("one claim") };
        claim
    }

    #[test]
    fn claims_during_a_check_go_out_together_after_the_interval() {
        let mut engine = engine();
        let first = only(&call(&mut engine, "job", 0, None)).0;
        for rank in 1..=128 {
            assert!(call(&mut engine, "job", rank, None).is_empty());
        }
        assert_eq!(engine.due(), None, "a check is running");
        let early = engine.input(Ns(6), MonitorInput::ClaimsSettled(vec![(first, Ok(()))]));
        assert!(matches!(&early[..], [MonitorOutput::Reply { .. }]), "only the reply");
        assert_eq!(engine.due(), Some(Ns(5 + CHECK_INTERVAL.0)));
        let out = engine.input(Ns(5 + CHECK_INTERVAL.0), MonitorInput::Tick);
        assert_eq!(claims(&out).len(), 128);
    }

    #[test]
    fn pending_registrations_of_a_user_are_limited() {
        let mut engine = engine();
        engine.set_limits(UserLimits { registrations: 2, ..UserLimits::default() });
        let _out = [call(&mut engine, "job", 0, None), call(&mut engine, "job", 1, None)];
        let out = call(&mut engine, "job", 2, None);
        let why = "2 registrations of user 7 are pending, the limit \"registrations\": try again";
        assert!(
            matches!(&out[..], [MonitorOutput::Reply { answer: Err(it), .. }] if it.message == why)
        );
    }

    #[test]
    fn without_a_pid_the_caller_is_registered_and_the_reply_follows_the_check() {
        let mut engine = engine();
        let out = call(&mut engine, "job", 3, None);
        let (key, claim) = only(&out);
        assert_eq!((claim.pid, claim.uid, claim.at), (Pid(70), 7, Ns(5)));
        let out = engine.input(Ns(6), MonitorInput::ClaimsSettled(vec![(*key, Ok(()))]));
        let want = Register { namespace: "job".into(), rank: 3, pid: Some(70) };
        assert!(
            matches!(&out[..], [Output::Reply { to: 1, answer: Ok(Answer::Registered(it)), .. }]
            if *it == want)
        );
        assert!(
            engine.input(Ns(7), MonitorInput::ClaimsSettled(vec![(*key, Ok(()))])).is_empty(),
            "one reply only"
        );
    }

    #[test]
    fn a_failed_claim_is_refused_with_its_reason() {
        let mut engine = engine();
        let out = call(&mut engine, "job", 3, Some(71));
        let (key, _) = only(&out);
        let refusal = Refusal::absent("no process 71");
        let out =
            engine.input(Ns(6), MonitorInput::ClaimsSettled(vec![(*key, Err(refusal.clone()))]));
        assert!(
            matches!(&out[..], [MonitorOutput::Reply { answer: Err(why), .. }] if *why == refusal)
        );
    }

    #[test]
    fn an_invalid_rank_is_refused() {
        let mut engine = engine();
        for (namespace, rank, pid) in
            [("", 0, None), ("a\n", 0, None), ("job", u32::MAX - 1, None), ("job", 0, Some(0))]
        {
            let out = call(&mut engine, namespace, rank, pid);
            assert!(matches!(&out[..], [MonitorOutput::Reply { answer: Err(why), .. }]
                if why.status == Status::BadParam));
        }
    }
}
