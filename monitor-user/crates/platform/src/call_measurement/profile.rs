//! The profile of a measurement, when it is over.
//!
//! In: a session. Out: its sums and open calls by rank, function and place, and what they lack.

use super::measured::MeasuredCalls;
use super::notes;
use super::options::CallError;
use super::session::CallSession;
use monitor_backend::call_profile::{CallSite, CallSums, OpenCall};
use monitor_jobs::call_profile::{CallTotals, RankCalls, call_profile};
use monitor_sys::clock;
use std::collections::BTreeSet;
use std::sync::Arc;

impl CallSession {
    /// Ends the counting, and makes the profile.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn finish(mut self) -> Result<MeasuredCalls, CallError> {
        self.profiler.end_counting()?;
        let (end_ns, span) = (clock::boot().0, self.begun.elapsed());
        let _some = self.has_ranks();
        let (sums, (open, left)) = (self.profiler.sums(), self.open_calls());
        let sites =
            sums.iter().map(|(site, _)| *site).chain(open.iter().chain(&left).map(|it| it.site));
        self.look_up(sites);
        let _hottest = self.judge(&sums);
        let of_sums =
            sums.iter().map(|(site, it)| rank_calls(&self, site, totals(&self, site, it)));
        let of_open = open.iter().map(|call| open_call(&self, call, end_ns));
        let unseen = CallTotals { left: 1, ..CallTotals::default() };
        let of_left = left.iter().map(|call| rank_calls(&self, &call.site, unseen));
        let calls: Vec<RankCalls> = of_sums.chain(of_open).chain(of_left).collect();
        let measured = self
            .ranks
            .iter()
            .map(|it| (it.rank, it.ended_ns.unwrap_or(end_ns).saturating_sub(it.since_ns)));
        let profile = call_profile(&calls, &measured.collect());
        let called: BTreeSet<Arc<str>> = calls.into_iter().map(|it| it.function).collect();
        notes::add(&mut self, &called);
        Ok(MeasuredCalls {
            span,
            profile,
            processes: self.ranks.iter().map(|it| (it.rank, it.process)).collect(),
            ends: self.options.ends,
            price_ns: self.price_ns(),
            error_ns: self.prices.error_ns,
            overhead: self.overhead.largest,
            notes: self.notes,
            is_partial: self.is_partial,
        })
    }
}

fn rank_calls(session: &CallSession, site: &CallSite, sums: CallTotals) -> RankCalls {
    let key = (site.process, site.return_address);
    let unknown = || format!("{:#x}", site.return_address).into();
    RankCalls {
        rank: session.ranks[site.process as usize].rank,
        function: Arc::clone(&session.functions.all[site.function as usize].name),
        place: session.places.get(&key).cloned().unwrap_or_else(unknown),
        sums,
    }
}

/// A call that has not ended: its time so far, or until its rank has ended.
fn open_call(session: &CallSession, call: &OpenCall, end_ns: u64) -> RankCalls {
    let rank = &session.ranks[call.site.process as usize];
    let time_ns = rank.ended_ns.unwrap_or(end_ns).saturating_sub(call.since_ns);
    let sums = CallTotals { open: 1, time_ns, max_ns: time_ns, ..CallTotals::default() };
    rank_calls(session, &call.site, sums)
}

/// The sums of a place, without the time that the probes themselves add to each call.
fn totals(session: &CallSession, site: &CallSite, sums: &CallSums) -> CallTotals {
    let added_ns = session.prices.empty(session.functions.kind(site.function));
    let size = session.sizes.get(&(site.process, site.element_type)).copied().flatten();
    let max_ns = sums.max_ns.saturating_sub(added_ns);
    let totals = CallTotals {
        calls: sums.calls,
        timed: sums.ended,
        // What probes add is measured; where that is too much, the longest call remains.
        time_ns: sums.time_ns.saturating_sub(sums.ended * added_ns).max(max_ns),
        max_ns,
        open: 0,
        left: sums.left,
        // Those before the function was given up are a sample of all.
        estimated: match session.untimed.contains_key(&site.function) {
            true => sums.calls.saturating_sub(sums.ended + sums.left),
            false => 0,
        },
        sized: size.map_or(0, |_| sums.calls),
        bytes: size.map_or(0, |bytes| bytes.saturating_mul(sums.elements)),
    };
    totals.with_estimate()
}
