//! The compiler of stored requests: splits their actions between the kernel and user space.
//!
//! In: all requests of a node, with the steps of each action. Out: for each request the actions
//! that run in the kernel. Pure: installs nothing; requests that the kernel refuses come in again,
//! marked.
//!
//! It starts with all possible actions and removes some until a fixed point: an action runs in the
//! kernel only if the requests it names are there too, and no action before its `;` is in user
//! space.

#[cfg(test)]
mod tests;

use super::stored::{ActionIndex, KernelPart, KernelRefusal, StoredRequest};
use monitor_backend::rule::insn::{GaugeChange, MAX_PENDING_EVENTS, MAX_TRACED};
use monitor_event::action::{Operand, Step};
use monitor_event::{EventKind, Predicate, node_event::is_shared};
use monitor_platform::RuleKey;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of parameters of a user event raised in the kernel.
pub const MAX_PARAMS: usize = 3;
/// Maximum number of values of a predicate: each one takes a rule program.
const MAX_CHOICES: usize = 4;

/// A stored request, and what its session makes of it.
pub struct CompilerInput<'r> {
    /// Its key.
    pub key: RuleKey,
    /// The request.
    pub rule: &'r StoredRequest,
    /// The steps of its actions, stage by stage; `None` for an action that the kernel cannot run.
    pub stages: Vec<Vec<Option<Vec<Step>>>>,
    /// Whether its scope has patterns, so that processes may join that the kernel does not know.
    pub has_patterns: bool,
    /// Whether an action needs the thread held at the event.
    pub holds: bool,
    /// Whether its tool may not observe every process, so that the kernel checks credentials.
    pub is_restricted: bool,
}

/// Decides where the actions of each request run.
pub fn compile(all: &[CompilerInput<'_>]) -> BTreeMap<RuleKey, KernelPart> {
    let mut candidates = Candidates::new(all);
    while candidates.narrow() {}
    let needed = candidates.needed();
    let compiled = |(at, it): (usize, &CompilerInput<'_>)| {
        let n_actions: usize = it.stages.iter().map(Vec::len).sum();
        let is_installed = needed.contains(&at);
        // A request that waits for a user event runs there only if the event is raised there.
        let is_possible = is_installed || !matches!(it.kind(), EventKind::User(_));
        let part = KernelPart {
            checks: it.is_candidate(),
            reports: candidates.members[at].len() < n_actions,
            steps: candidates.steps(at).cloned().collect(),
            holds: is_possible && it.holds && it.is_candidate(),
            members: candidates.members[at].iter().copied().filter(|_| is_possible).collect(),
            is_installed,
        };
        (it.key, part)
    };
    all.iter().enumerate().map(compiled).collect()
}

/// The candidates of the fixed-point iteration.
struct Candidates<'w> {
    all: &'w [CompilerInput<'w>],
    by_key: BTreeMap<RuleKey, usize>,
    members: Vec<BTreeSet<ActionIndex>>,
    /// Requests that raise too many events at once for the kernel.
    raises_too_much: BTreeSet<usize>,
}

impl<'w> Candidates<'w> {
    fn new(all: &'w [CompilerInput<'w>]) -> Self {
        let by_key = all.iter().enumerate().map(|(at, it)| (it.key, at)).collect();
        let every = |it: &CompilerInput<'_>| {
            let stages = it.stages.iter().enumerate();
            stages.flat_map(|(s, stage)| (0..stage.len()).map(move |m| (s, m))).collect()
        };
        let members = all.iter().map(every).collect();
        Self { all, by_key, members, raises_too_much: BTreeSet::new() }
    }

    /// Removes actions that cannot run in the kernel; whether there were any.
    fn narrow(&mut self) -> bool {
        let timers = self.split_timers();
        let next: Vec<_> = (0..self.all.len()).map(|at| self.kept(at, &timers)).collect();
        let mut is_less = next != self.members;
        self.members = next;
        if !is_less {
            let too_much = self.over_limit();
            is_less = !too_much.is_subset(&self.raises_too_much);
            self.raises_too_much.extend(too_much);
        }
        is_less
    }

    /// The actions of a request that can still be run in the kernel.
    fn kept(&self, at: usize, split_timers: &BTreeSet<u64>) -> BTreeSet<ActionIndex> {
        let mut kept = BTreeSet::new();
        if !self.all[at].is_candidate() {
            return kept;
        }
        let mut has_ended = false;
        for (s, stage) in self.all[at].stages.iter().enumerate() {
            let before = kept.len();
            for (m, steps) in stage.iter().enumerate() {
                let Some(steps) = steps.as_ref().filter(|_| self.members[at].contains(&(s, m)))
                else {
                    continue;
                };
                let ends = steps.iter().filter(|it| matches!(it, Step::StopTimer(..))).count();
                let is_possible = steps.iter().all(|it| self.is_possible(at, it, split_timers));
                // Stopping a timer that is not running ends the program: allow one stop, as the
                // last step.
                if is_possible && ends + usize::from(has_ended) <= 1 {
                    has_ended |= ends > 0;
                    let _is_new = kept.insert((s, m));
                }
            }
            // Actions after a `;` wait for all actions before it.
            if kept.len() - before < stage.len() {
                break;
            }
        }
        kept
    }

    fn is_possible(&self, at: usize, step: &Step, split_timers: &BTreeSet<u64>) -> bool {
        let it = &self.all[at];
        match step {
            Step::Observe(operand, _)
            | Step::ChangeGauge(GaugeChange::By(operand) | GaugeChange::To(operand), ..) => {
                kernel_knows(it.kind(), *operand)
            }
            Step::Record(operands, _) => {
                operands.len() <= MAX_TRACED
                    && operands.iter().all(|operand| kernel_knows(it.kind(), *operand))
            }
            // At other events the current task is not the process that hits the event.
            Step::Signal(_) => matches!(it.kind(), EventKind::Called(_) | EventKind::Signalled),
            Step::StartTimer(timer) | Step::StopTimer(timer, _) => {
                // At other events the kernel may be unable to allocate the timer's task storage.
                let may_begin = matches!(it.kind(), EventKind::Called(_));
                may_begin && !split_timers.contains(&timer.number)
            }
            Step::Enable(id) | Step::Disable(id) => {
                let target = self.by_key.get(&(it.key.0, *id));
                target.is_some_and(|target| self.all[*target].is_candidate())
            }
            Step::Raise(number, operands) => {
                let mut waiting = self.waiting(at, *number).peekable();
                operands.len() <= MAX_PARAMS
                    && operands.iter().all(|operand| kernel_knows(it.kind(), *operand))
                    && !self.raises_too_much.contains(&at)
                    && waiting.peek().is_some()
                    && waiting.all(|waiter| self.all[waiter].is_candidate())
            }
        }
    }

    /// The requests that wait for an event that this one raises.
    fn waiting(&self, at: usize, number: i64) -> impl Iterator<Item = usize> {
        let session = self.all[at].key.0;
        let is_meant = move |(_, it): &(usize, &CompilerInput<'_>)| {
            *it.kind() == EventKind::User(number) && (is_shared(number) || it.key.0 == session)
        };
        self.all.iter().enumerate().filter(is_meant).map(|(at, _)| at)
    }

    /// Timers that an action starts or stops in user space.
    fn split_timers(&self) -> BTreeSet<u64> {
        let mut split = BTreeSet::new();
        for (at, it) in self.all.iter().enumerate() {
            for (s, stage) in it.stages.iter().enumerate() {
                for (m, steps) in stage.iter().enumerate() {
                    let is_out = !self.members[at].contains(&(s, m)) || !it.is_candidate();
                    let steps = steps.iter().flatten().filter(|_| is_out);
                    split.extend(steps.filter_map(|step| match step {
                        Step::StartTimer(timer) | Step::StopTimer(timer, _) => Some(timer.number),
                        _ => None,
                    }));
                }
            }
        }
        split
    }

    /// The steps of a request in the kernel, in order.
    fn steps(&self, at: usize) -> impl Iterator<Item = &Step> {
        let stages = &self.all[at].stages;
        self.members[at].iter().flat_map(|(s, m)| stages[*s][*m].iter().flatten())
    }

    /// The requests to install: those that are enabled with actions there, those installed already,
    /// and all that these name.
    fn needed(&self) -> BTreeSet<usize> {
        let is_root = |at: &usize| {
            let it = &self.all[*at];
            let is_user = matches!(it.kind(), EventKind::User(_));
            let is_wanted = (it.rule.is_enabled || it.rule.kernel.is_installed) && !is_user;
            let has_work = it.holds || !self.members[*at].is_empty();
            is_wanted && (it.is_candidate() && has_work || it.is_reportable())
        };
        let mut open: Vec<usize> = (0..self.all.len()).filter(is_root).collect();
        let mut needed = BTreeSet::new();
        while let Some(at) = open.pop() {
            if !needed.insert(at) {
                continue;
            }
            for step in self.steps(at) {
                match step {
                    Step::Enable(id) | Step::Disable(id) => {
                        open.extend(self.by_key.get(&(self.all[at].key.0, *id)));
                    }
                    Step::Raise(number, _) => open.extend(self.waiting(at, *number)),
                    _ => {}
                }
            }
        }
        needed
    }

    /// The requests that must not raise events in the kernel: it queues `MAX_PENDING_EVENTS` of one
    /// event and counts more as lost, user space queues all.
    fn over_limit(&self) -> BTreeSet<usize> {
        let mut by_place: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
        let mut too_much = BTreeSet::new();
        for (at, it) in self.all.iter().enumerate() {
            match tracepoint(it.kind()) {
                Some(place) => by_place.entry(place).or_default().push(at),
                None if self.weight(at, 0) > MAX_PENDING_EVENTS
                    && !matches!(it.kind(), EventKind::User(_)) =>
                {
                    let _is_new = too_much.insert(at);
                }
                None => {}
            }
        }
        for together in by_place.into_values() {
            let raising: Vec<_> =
                together.into_iter().filter(|at| self.weight(*at, 0) > 0).collect();
            if raising.iter().map(|at| self.weight(*at, 0)).sum::<usize>() > MAX_PENDING_EVENTS {
                too_much.extend(raising);
            }
        }
        too_much
    }

    /// Number of events that a request raises, directly and indirectly; above the limit for a
    /// cycle.
    fn weight(&self, at: usize, depth: usize) -> usize {
        let mut weight = 0;
        for step in self.steps(at) {
            let Step::Raise(number, _) = step else { continue };
            weight += 1;
            if depth > MAX_PENDING_EVENTS || weight > MAX_PENDING_EVENTS {
                return MAX_PENDING_EVENTS + 1;
            }
            let waiting = self.waiting(at, *number);
            weight += waiting.map(|waiter| self.weight(waiter, depth + 1)).sum::<usize>();
        }
        weight
    }
}

impl CompilerInput<'_> {
    const fn kind(&self) -> &EventKind {
        &self.rule.filter.kind
    }

    /// Whether the kernel reports its events if it does nothing else: each request on a call has
    /// probes of its own, so that no process has a breakpoint for the request of another tool.
    const fn is_reportable(&self) -> bool {
        matches!(self.kind(), EventKind::Called(_))
            && !matches!(self.rule.kernel_refusal, KernelRefusal::Whole)
    }

    /// Whether the kernel could run its actions at all.
    fn is_candidate(&self) -> bool {
        let kind = self.kind();
        // `MessageReceived` is derived from two calls.
        let is_direct = kind.followed_activity().is_some() && *kind != EventKind::MessageReceived;
        let is_seen = is_direct || matches!(kind, EventKind::User(_));
        let is_checked = match &self.rule.filter.predicate {
            None => true,
            Some(Predicate::OneOf(place, values)) => {
                let place = u32::try_from(*place).map_or(u32::MAX, |place| place + 1);
                let are_numbers = values.iter().all(|value| value.integer::<i64>().is_some());
                values.len() <= MAX_CHOICES
                    && are_numbers
                    && kernel_knows(kind, Operand::Param(place))
            }
            Some(_) => false,
        };
        let joins = self.has_patterns && *kind == EventKind::Created;
        // Of the two processes of a switch the kernel checks the credentials of one.
        let is_half_checked = self.is_restricted && *self.kind() == EventKind::Scheduled;
        is_seen
            && is_checked
            && !joins
            && !is_half_checked
            && self.rule.kernel_refusal == KernelRefusal::None
    }
}

/// Whether the kernel knows an operand at such an event.
pub fn kernel_knows(kind: &EventKind, operand: Operand) -> bool {
    let Operand::Param(place) = operand else { return true };
    match kind {
        // The first parameter is the process, whose number only the session knows.
        EventKind::Called(_) => place > 1,
        EventKind::Signalled => place == 2,
        EventKind::Scheduled => place == 3,
        EventKind::User(_) => usize::try_from(place).is_ok_and(|place| place <= MAX_PARAMS),
        _ => false,
    }
}

/// The tracepoint of a kind of event: its requests share one program run. Requests at a call have
/// a run each.
const fn tracepoint(kind: &EventKind) -> Option<u8> {
    match kind {
        EventKind::Created => Some(0),
        EventKind::Ended => Some(1),
        EventKind::Signalled => Some(2),
        EventKind::Blocked | EventKind::Scheduled => Some(3),
        EventKind::Unblocked => Some(4),
        EventKind::Executed => Some(5),
        _ => None,
    }
}
