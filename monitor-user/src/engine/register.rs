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
use crate::wire::call::{Register, Tag};
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
    pub(super) fn claimed(
        &mut self,
        key: Key,
        result: Result<(), Refusal>,
        out: &mut Vec<Output>,
    ) {
        let Some((to, tag, params)) = self.claims.remove(&key) else { return };
        if let Err(refusal) = &result {
            self.refused += 1;
            tracing::info!(method = "register", status = refusal.status.name(), "{refusal}");
        }
        let answer = result.map(|()| Answer::Registered(params));
        out.extend(tag.map(|tag| Output::Reply { to, tag, answer }));
    }
}
