//! The list of stored requests of all sessions for users, with their event counts.
//!
//! In: a predicate for the tools to show. Out: rows of the socket protocol. Changes nothing.

use super::{RequestEngine, session::SessionState, stored::StoredRequest};
use crate::{ExecutionLevel, Registry};
use monitor_event::Tool;
use monitor_omis::{Request, RequestId, print};
use monitor_platform::Platform;
use monitor_protocol::answer;
use std::sync::Arc;

impl RequestEngine {
    /// The stored requests of the selected tools, in the order of definition.
    pub fn rules(
        &self,
        is_shown: impl Fn(&Tool) -> bool,
        platform: &mut dyn Platform,
    ) -> Vec<answer::RuleSummary> {
        let sessions = self.sessions.values().filter(|it| is_shown(&it.session.tool));
        let mut all: Vec<(u64, answer::RuleSummary)> = Vec::new();
        for state in sessions {
            for (id, rule) in &state.stored.requests {
                let mut row = row(&self.shared.registry, state, (*id, rule));
                row.node = self.member_name(state.session.tool.session.entry);
                if rule.kernel.is_installed {
                    let key = (state.session.tool.session, *id);
                    // The kernel's count includes the events that it reported.
                    row.occurrences = row.occurrences.max(platform.rule_runs(key));
                    row.enabled = platform.is_rule_on(key);
                }
                all.push((rule.serial, row));
            }
        }
        all.sort_unstable_by_key(|(serial, _)| *serial);
        all.into_iter().map(|(_, rule)| rule).collect()
    }

    /// The name of a member by its number.
    fn member_name(&self, number: u32) -> Option<String> {
        let member = self.members.iter().find(|it| it.node.0 == number)?;
        Some(member.name.clone())
    }
}

fn row(
    registry: &Registry,
    state: &SessionState,
    (id, rule): (RequestId, &StoredRequest),
) -> answer::RuleSummary {
    let tool = &state.session.tool;
    let event =
        Request { event: None, stages: vec![monitor_omis::Stage(vec![rule.event().clone()])] };
    let actions = Request { event: None, ..Request::clone(&Arc::clone(&rule.request)) };
    answer::RuleSummary {
        session: tool.session.conn,
        node: None,
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

/// The weakest level that is sufficient for all actions.
fn level(registry: &Registry, request: &Request) -> ExecutionLevel {
    let rows = request.actions().filter_map(|it| registry.spec(it.service.as_str()));
    rows.map(|row| row.level).max().unwrap_or(ExecutionLevel::Anywhere)
}
