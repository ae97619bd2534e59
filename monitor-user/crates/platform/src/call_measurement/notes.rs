//! What a profile of calls lacks, as notes.

use super::session::CallSession;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Functions that cannot be probed, of which the reason is shown.
const MAX_REFUSED: usize = 5;

/// Adds the notes about functions, of which these were called, about ranks that have ended, and
/// about calls that were lost.
pub fn add(session: &mut CallSession, called: &BTreeSet<Arc<str>>) {
    let mut notes = given_up(session, &session.untimed, "not timed");
    notes.extend(given_up(session, &session.uncounted, "not counted"));
    let functions = &session.functions;
    let mut is_partial = !notes.is_empty() || !functions.refused.is_empty();
    let untimed = functions.untimed.iter().filter(|(name, _)| called.contains(*name));
    notes.extend(untimed.map(|(name, why)| format!("{name} is counted, not timed: {why}")));
    let refused = functions.refused.iter().take(MAX_REFUSED);
    notes.extend(refused.map(|(name, why)| format!("{name} is not counted: {why}")));
    let more = functions.refused.len().saturating_sub(MAX_REFUSED);
    notes.extend((more > 0).then(|| format!("{more} more functions are not counted")));
    for it in session.ranks.iter().filter(|it| it.ended_ns.is_some()) {
        let (rank, pid) = (it.rank, it.process.pid.0);
        notes.push(format!("rank {rank} (process {pid}) has ended meanwhile"));
    }
    if session.unseen_ends > 0 {
        let unseen = session.unseen_ends;
        notes.push(format!("{unseen} calls that had begun before have returned, unseen"));
    }
    let lost = session.profiler.lost();
    if lost > 0 {
        is_partial = true;
        notes.push(format!("{lost} calls are missing: their tables are full"));
    }
    session.is_partial |= is_partial;
    session.notes.append(&mut notes);
}

/// Notes about functions that were given up, and when.
fn given_up(session: &CallSession, all: &BTreeMap<u32, Duration>, what: &str) -> Vec<String> {
    let note = |(function, after): (&u32, &Duration)| {
        let name = &session.functions.all[*function as usize].name;
        let after = after.as_secs_f64();
        format!("{name} is {what} after {after:.1} s: its probes cost too much (--max-overhead)")
    };
    all.iter().map(note).collect()
}
