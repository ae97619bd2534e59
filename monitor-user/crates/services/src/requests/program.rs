//! What of stored requests the kernel is given to run, and what becomes of their switches there.
//!
//! In: all that is stored, after each input that changed anything about it. Out: programs. The
//! kernel's requests enable each other, so it knows best which of them are on.

use super::compile::{self, Compiled, Wanted};
use super::stored::Rule;
use super::{Machine, Turn};
use crate::kernel::Bound;
use crate::row::Row;
use monitor_event::action::Step;
use monitor_event::occurrence::{EventKind, ProcessSelector};
use monitor_event::right::SessionId;
use monitor_omis::{Basic, NodeRef, Var, kind};
use monitor_platform::{Members, Program, Programs, RuleKey};
use std::collections::BTreeMap;

/// Runs in a second of a request that tells nobody, beyond which it is switched off.
pub const MOST_UNTOLD: u32 = 1_000_000;

impl Machine {
    /// Gives the kernel what it can run.
    pub(super) fn program(&mut self, turn: &mut Turn<'_>) {
        self.heed_switches(turn);
        loop {
            let compiled = compile::compile(&self.wanted());
            let programs = self.programs(&compiled);
            if programs.is_empty() && !self.has_programs {
                return self.note(&compiled, turn);
            }
            self.has_programs = !programs.is_empty();
            let refused = turn.ground.run(&programs);
            if refused.is_empty() {
                return self.note(&compiled, turn);
            }
            for (key, why) in refused {
                tracing::debug!(request = key.1.0.to_string(), "{why}");
                if let Some(rule) = self.rule_mut(key) {
                    rule.kernel.refused = Some(why);
                }
            }
        }
    }

    /// What tools have switched the kernel is told; what it has switched itself is learned.
    fn heed_switches(&mut self, turn: &mut Turn<'_>) {
        for (session, seat) in &mut self.seats {
            for (id, rule) in &mut seat.stored.requests {
                let is_asked = std::mem::take(&mut rule.kernel.is_asked);
                match (rule.kernel.has_it, is_asked) {
                    (true, true) => {
                        let _since = turn.ground.switch((*session, *id), rule.is_enabled);
                    }
                    (true, false) => rule.is_enabled = turn.ground.is_on((*session, *id)),
                    (false, _) => {}
                }
            }
        }
    }

    /// Remembers what is run where; switches on what is new there and enabled.
    fn note(&mut self, compiled: &BTreeMap<RuleKey, Compiled>, turn: &mut Turn<'_>) {
        for (key, it) in compiled {
            let Some(rule) = self.rule_mut(*key) else { continue };
            rule.kernel.members = if it.is_possible { it.members.clone() } else { [].into() };
            if it.is_needed && !rule.kernel.has_it {
                rule.kernel.since = turn.ground.switch(*key, rule.is_enabled);
            }
            (rule.kernel.has_it, rule.kernel.tells) = (it.is_needed, it.tells);
            rule.kernel.holds = it.holds;
        }
    }

    /// All stored requests as the compiler sees them.
    pub(super) fn wanted(&self) -> Vec<Wanted> {
        let mut all = Vec::new();
        for (session, seat) in &self.seats {
            let rules = seat.stored.requests.iter();
            all.extend(rules.map(|(id, rule)| {
                let stages = rule.request.stages.iter();
                let steps = |action: &Basic| self.steps(*session, action);
                Wanted {
                    key: (*session, *id),
                    topic: rule.watch.topic.clone(),
                    check: rule.watch.check.clone(),
                    stages: stages.map(|stage| stage.0.iter().map(steps).collect()).collect(),
                    waits_for_strangers: seat.session.scope.n_joins() > 0,
                    holds: self.holds(rule),
                    is_enabled: rule.is_enabled,
                    is_placed: rule.kernel.has_it,
                    is_refused: rule.kernel.refused.is_some(),
                }
            }));
        }
        all
    }

    /// Whether a request has an action that needs who met its event as he was there, and the kernel
    /// can stop him.
    fn holds(&self, rule: &Rule) -> bool {
        let needs_him = |action: &Basic| {
            let row = self.registry.row(action.service.as_str());
            self.is_here(action) && row.is_some_and(|row| row.level.needs_hold())
        };
        let can_be = matches!(rule.watch.topic, EventKind::Called(_) | EventKind::Signalled);
        can_be && rule.request.stages.iter().flat_map(|stage| &stage.0).any(needs_him)
    }

    /// What an action would be in the kernel; nothing, if it cannot be there.
    fn steps(&self, session: SessionId, action: &Basic) -> Option<Vec<Step>> {
        let row: &Row = self.registry.row(action.service.as_str())?;
        let lower = row.kernel.filter(|_| self.is_here(action))?;
        let args = kind::arrange(row.takes, &action.args).ok()?;
        let session = &self.seats.get(&session)?.session;
        lower(&Bound { args: &args, session, shelf: &self.shelf })
    }

    /// Whether an action is for the node of its event alone, and that is this one.
    fn is_here(&self, action: &Basic) -> bool {
        match action.nodes.as_deref() {
            None | Some([]) => self.members.len() == 1,
            Some([NodeRef::Number(node)]) => *node == self.node,
            Some([NodeRef::Var(Var::Position(0), _)]) => true,
            Some([NodeRef::Var(Var::Named(name), _)]) => name.as_str() == "node",
            Some(_) => false,
        }
    }

    fn programs(&self, compiled: &BTreeMap<RuleKey, Compiled>) -> Programs {
        let needed = compiled.iter().filter(|(_, it)| it.is_needed);
        needed.filter_map(|(key, it)| Some((*key, self.program_of(*key, it)?))).collect()
    }

    fn program_of(&self, (session, id): RuleKey, it: &Compiled) -> Option<Program> {
        let seat = self.seats.get(&session)?;
        let rule = seat.stored.requests.get(&id)?;
        let whose = match (&rule.watch.topic, &rule.watch.whose) {
            (EventKind::User(_), _) | (_, ProcessSelector::Anybody) => Members::Anybody,
            (_, ProcessSelector::Attached) => {
                Members::Attached(session, seat.session.scope.members().collect())
            }
            (_, ProcessSelector::These(these)) => Members::These(these.clone()),
        };
        let told = u32::try_from(self.limits.occurrences).unwrap_or(u32::MAX);
        let looks_into = rule.watch.topic.is_within() || it.holds;
        Some(Program {
            serial: rule.serial,
            eyes: seat.session.tool.only().filter(|_| looks_into),
            topic: rule.watch.topic.clone(),
            whose,
            check: rule.watch.check.clone(),
            steps: it.steps.clone(),
            tells: it.tells,
            holds: it.holds.then_some(seat.session.tool),
            most: if it.tells { told } else { MOST_UNTOLD },
        })
    }

    pub(super) fn rule_mut(&mut self, (session, id): RuleKey) -> Option<&mut Rule> {
        self.seats.get_mut(&session)?.stored.requests.get_mut(&id)
    }
}
