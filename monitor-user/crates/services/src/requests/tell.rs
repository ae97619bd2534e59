//! What runs here, for people: the stored requests of all sessions, and how often they ran.
//!
//! In: whose may be told of. Out: rows. Changes nothing.

use super::Machine;
use super::seat::Seat;
use super::stored::Rule;
use crate::{Level, Registry};
use monitor_event::right::Tool;
use monitor_omis::{Request, RequestId, print};
use monitor_platform::Ground;
use monitor_protocol::answer;
use std::sync::Arc;

impl Machine {
    /// The stored requests of those whose may be told of, in the order of their definition.
    pub fn rules(
        &self,
        is_shown: impl Fn(&Tool) -> bool,
        ground: &mut dyn Ground,
    ) -> Vec<answer::Rule> {
        let seats = self.seats.values().filter(|it| is_shown(&it.session.tool));
        let mut all: Vec<(u64, answer::Rule)> = Vec::new();
        for seat in seats {
            for (id, rule) in &seat.stored.requests {
                let mut row = told(&self.registry, seat, (*id, rule));
                if rule.kernel.has_it {
                    let key = (seat.session.tool.session, *id);
                    // What it tells of was counted there, too.
                    row.occurrences = row.occurrences.max(ground.n_runs(key));
                    row.enabled = ground.is_on(key);
                }
                all.push((rule.serial, row));
            }
        }
        all.sort_unstable_by_key(|(serial, _)| *serial);
        all.into_iter().map(|(_, rule)| rule).collect()
    }
}

fn told(registry: &Registry, seat: &Seat, (id, rule): (RequestId, &Rule)) -> answer::Rule {
    let tool = &seat.session.tool;
    let event =
        Request { event: None, stages: vec![monitor_omis::Stage(vec![rule.event().clone()])] };
    let actions = Request { event: None, ..Request::clone(&Arc::clone(&rule.request)) };
    answer::Rule {
        session: tool.session.conn,
        uid: tool.uid,
        requestor: tool.pid,
        id: id.0.get().unwrap_or_default(),
        event: print::request(&event),
        actions: print::request(&actions),
        level: level(registry, &rule.request).name().into(),
        enabled: rule.is_enabled,
        occurrences: rule.seq,
    }
}

/// The weakest level that suffices for all actions.
fn level(registry: &Registry, request: &Request) -> Level {
    let rows = request.actions().filter_map(|it| registry.row(it.service.as_str()));
    rows.map(|row| row.level).max().unwrap_or(Level::Anywhere)
}
