//! Installs the kernel's part of stored requests as rule programs, and keeps their switches in
//! sync.
//!
//! In: all stored requests, after each input that changed them. Out: rule programs. Requests in the
//! kernel can enable each other, so the kernel's switches are authoritative.

use super::compile::{self, CompilerInput};
use super::stored::{KernelPart, KernelRefusal, StoredRequest};
use super::{RequestEngine, Turn};
use crate::{ServiceSpec, lower::StoredCall};
use monitor_event::{EventKind, ProcessSelector, SessionId, action::Step};
use monitor_omis::{Basic, NodeRef, Var, param_type};
use monitor_platform::{CompiledRule, CompiledRules, RuleKey, RuleTargets};
use std::collections::BTreeMap;

impl RequestEngine {
    /// Installs what the kernel can run.
    pub(super) fn install_programs(&mut self, turn: &mut Turn<'_>) {
        self.sync_switches(turn);
        loop {
            let compiled = compile::compile(&self.compiler_input());
            let programs = self.programs(&compiled);
            if programs.is_empty() && !self.requested.has_programs {
                return self.record_installed(compiled, turn);
            }
            self.requested.has_programs = !programs.is_empty();
            let refused = turn.platform.set_rules(&programs);
            if refused.is_empty() {
                return self.record_installed(compiled, turn);
            }
            for (key, why) in refused {
                tracing::debug!(request = key.1.0.to_string(), "{why}");
                let did_more = compiled.get(&key).is_some_and(|it| it.checks);
                let Some(rule) = self.rule_mut(key) else { continue };
                let is_call = rule.filter.kind.tap().is_some();
                if is_call && did_more {
                    rule.kernel_refusal = KernelRefusal::Actions;
                    continue;
                }
                rule.kernel_refusal = KernelRefusal::Whole;
                // Nothing else sets probes.
                if is_call && rule.is_enabled && turn.platform.runs_rules() {
                    rule.is_enabled = false;
                    let text = format!("{why}: disabled");
                    let reply = self.notice(key, (why.status, vec![text.as_str().into()]));
                    self.send_notice(key.0, reply, turn);
                }
            }
        }
    }

    /// Copies switches of tools to the kernel, and reads those that the kernel has changed.
    fn sync_switches(&mut self, turn: &mut Turn<'_>) {
        for (session, state) in &mut self.sessions {
            for (id, rule) in &mut state.stored.requests {
                let is_asked = std::mem::take(&mut rule.is_switch_pending);
                match (rule.kernel.is_installed, is_asked) {
                    (true, true) => {
                        let _since = turn.platform.switch_rule((*session, *id), rule.is_enabled);
                    }
                    (true, false) => rule.is_enabled = turn.platform.is_rule_on((*session, *id)),
                    (false, _) => {}
                }
            }
        }
    }

    /// Stores what runs where; switches on enabled requests that are new in the kernel.
    fn record_installed(&mut self, compiled: BTreeMap<RuleKey, KernelPart>, turn: &mut Turn<'_>) {
        for (key, kernel) in compiled {
            let Some(rule) = self.rule_mut(key) else { continue };
            if kernel.is_installed && !rule.kernel.is_installed {
                rule.installed_at = turn.platform.switch_rule(key, rule.is_enabled);
            }
            rule.kernel = kernel;
        }
    }

    /// All stored requests, as input of the compiler.
    pub(super) fn compiler_input(&self) -> Vec<CompilerInput<'_>> {
        let mut all = Vec::new();
        for (session, state) in &self.sessions {
            let rules = state.stored.requests.iter();
            let is_restricted = state.session.tool.visibility.credentials().is_some();
            all.extend(rules.map(|(id, rule)| {
                let stages = rule.request.stages.iter();
                let steps = |action: &Basic| self.lowered(*session, action);
                CompilerInput {
                    key: (*session, *id),
                    rule,
                    stages: stages.map(|stage| stage.0.iter().map(steps).collect()).collect(),
                    has_patterns: state.session.scope.n_patterns() > 0,
                    holds: self.needs_hold(rule),
                    is_restricted,
                }
            }));
        }
        all
    }

    /// Whether a request has an action that needs the thread held at the event, and the kernel can
    /// stop it.
    fn needs_hold(&self, rule: &StoredRequest) -> bool {
        let needs_thread = |action: &Basic| {
            let row = self.shared.registry.spec(action.service.as_str());
            self.is_here(action) && row.is_some_and(|row| row.level.needs_hold())
        };
        let can_be = matches!(rule.filter.kind, EventKind::Called(_) | EventKind::Signalled);
        can_be && rule.request.stages.iter().flat_map(|stage| &stage.0).any(needs_thread)
    }

    /// The steps of an action in the kernel; `None` if it cannot run there.
    fn lowered(&self, session: SessionId, action: &Basic) -> Option<Vec<Step>> {
        let row: &ServiceSpec = self.shared.registry.spec(action.service.as_str())?;
        let lower = row.lower.filter(|_| self.is_here(action))?;
        let args = param_type::arrange(row.params, &action.args).ok()?;
        let session = &self.sessions.get(&session)?.session;
        lower(&StoredCall { args: &args, session, instruments: &self.shared.instruments })
    }

    /// Whether an action is for this node alone.
    fn is_here(&self, action: &Basic) -> bool {
        match action.nodes.as_deref() {
            None | Some([]) => self.members.len() == 1,
            Some([NodeRef::Number(node)]) => *node == self.shared.node,
            Some([NodeRef::Var(Var::Position(0), _)]) => true,
            Some([NodeRef::Var(Var::Named(name), _)]) => name.as_str() == "node",
            Some(_) => false,
        }
    }

    fn programs(&self, compiled: &BTreeMap<RuleKey, KernelPart>) -> CompiledRules {
        let needed = compiled.iter().filter(|(_, it)| it.is_installed);
        needed.filter_map(|(key, it)| Some((*key, self.rule_program(*key, it)?))).collect()
    }

    fn rule_program(&self, (session, id): RuleKey, it: &KernelPart) -> Option<CompiledRule> {
        let state = self.sessions.get(&session)?;
        let rule = state.stored.requests.get(&id)?;
        let whose = match (&rule.filter.kind, &rule.filter.processes) {
            (EventKind::User(_), _) | (_, ProcessSelector::Any) => RuleTargets::Any,
            (_, ProcessSelector::Attached) => {
                RuleTargets::Attached(session, state.session.scope.members().collect())
            }
            (_, ProcessSelector::Listed(these)) => RuleTargets::Processes(these.clone()),
        };
        let looks_into = rule.filter.kind.reads_process() || it.holds;
        let tool = state.session.tool;
        // The kernel compares with the credentials of the process at the event.
        let viewer = tool.restricted_to().filter(|_| looks_into);
        let observer = tool.visibility.credentials().filter(|_| rule.filter.kind.is_of_process());
        let most = self.shared.limits.events_per_second;
        Some(CompiledRule {
            serial: rule.serial,
            tool,
            viewer: viewer.or(observer),
            event: rule.filter.kind.clone(),
            targets: whose,
            predicate: rule.filter.predicate.clone().filter(|_| it.checks),
            steps: it.steps.clone(),
            reports: it.reports,
            held_for: it.holds.then_some(state.session.tool),
            max_rate: u32::try_from(rule.max_runs(it, most)).unwrap_or(u32::MAX),
        })
    }

    pub(super) fn rule_mut(&mut self, (session, id): RuleKey) -> Option<&mut StoredRequest> {
        self.sessions.get_mut(&session)?.stored.requests.get_mut(&id)
    }
}
