//! Which actions of stored requests the kernel runs itself, and what user space does after it.
//!
//! In: all requests of a node, with the steps that each action would be in the kernel. Out: for
//! each request the actions that are run there. Pure: nothing is placed, and what the kernel then
//! refuses comes in again, marked.
//!
//! It begins with all that could be, and takes away until nothing changes: an action is run in the
//! kernel only if what it names is there too, and if no action before its `;` is in user space.

mod raise;
#[cfg(test)]
mod tests;

use monitor_backend::rule::act::{MAX_TRACED, Move};
use monitor_event::action::{Operand, Step};
use monitor_event::occurrence::is_shared;
use monitor_event::occurrence::{Predicate, EventKind};
use monitor_platform::RuleKey;
use raise::Raises;
use std::collections::{BTreeMap, BTreeSet};

/// Parameters of an event that lists raise.
pub const MOST_PARAMETERS: usize = 3;
/// Values of a check of which one must be told: a list of the kernel for each.
const MOST_CHOICES: usize = 4;

/// A stored request, as far as it matters here.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Which.
    pub key: RuleKey,
    /// What it waits for.
    pub topic: EventKind,
    /// Which of these.
    pub check: Option<Predicate>,
    /// Its actions, stage by stage: what each would be in the kernel.
    pub stages: Vec<Vec<Option<Vec<Step>>>>,
    /// Whether it waits for processes that the kernel does not know before they join.
    pub waits_for_strangers: bool,
    /// Whether some action needs who met the event as he was there.
    pub holds: bool,
    /// Whether it runs now.
    pub is_enabled: bool,
    /// Whether the kernel has it already.
    pub is_placed: bool,
    /// Whether the kernel did not take it.
    pub is_refused: bool,
}

/// An action: its stage, and its place there.
pub type Member = (usize, usize);

/// What becomes of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compiled {
    /// The actions that the kernel runs.
    pub members: BTreeSet<Member>,
    /// What it does then, in their order.
    pub steps: Vec<Step>,
    /// Whether something is left for user space.
    pub tells: bool,
    /// Whether who met the event is held until that is done.
    pub holds: bool,
    /// Whether the kernel would run them at its event.
    pub is_possible: bool,
    /// Whether the kernel needs it now.
    pub is_needed: bool,
}

/// Says where the actions of each request are run.
pub fn compile(all: &[Wanted]) -> BTreeMap<RuleKey, Compiled> {
    let mut book = Book::new(all);
    while book.narrow() {}
    let needed = book.needed();
    let compiled = |(at, it): (usize, &Wanted)| {
        let members = book.members[at].clone();
        let n_actions: usize = it.stages.iter().map(Vec::len).sum();
        let is_needed = needed.contains(&at);
        let tells = members.len() < n_actions;
        let steps = book.steps(at).cloned().collect();
        // What waits for events of the tool's own is run there if one is raised there.
        let is_possible = is_needed || !matches!(it.topic, EventKind::User(_));
        let holds = is_possible && it.holds && is_candidate(it);
        (it.key, Compiled { members, steps, tells, holds, is_possible, is_needed })
    };
    all.iter().enumerate().map(compiled).collect()
}

/// What is still thought possible.
struct Book<'w> {
    all: &'w [Wanted],
    by_key: BTreeMap<RuleKey, usize>,
    members: Vec<BTreeSet<Member>>,
    /// Requests that raise too much at once for the kernel.
    raises_too_much: BTreeSet<usize>,
}

impl<'w> Book<'w> {
    fn new(all: &'w [Wanted]) -> Self {
        let by_key = all.iter().enumerate().map(|(at, it)| (it.key, at)).collect();
        let every = |it: &Wanted| {
            let stages = it.stages.iter().enumerate();
            stages.flat_map(|(s, stage)| (0..stage.len()).map(move |m| (s, m))).collect()
        };
        let members = all.iter().map(every).collect();
        Self { all, by_key, members, raises_too_much: BTreeSet::new() }
    }

    /// Takes away what cannot be, as things stand. Whether there was anything.
    fn narrow(&mut self) -> bool {
        let timers = self.split_timers();
        let next: Vec<_> = (0..self.all.len()).map(|at| self.kept(at, &timers)).collect();
        let mut is_less = next != self.members;
        self.members = next;
        if !is_less {
            let too_much = Raises::of(self).too_much();
            is_less = !too_much.is_subset(&self.raises_too_much);
            self.raises_too_much.extend(too_much);
        }
        is_less
    }

    /// The actions of a request that can still be run in the kernel.
    fn kept(&self, at: usize, split_timers: &BTreeSet<u64>) -> BTreeSet<Member> {
        let mut kept = BTreeSet::new();
        if !is_candidate(&self.all[at]) {
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
                let ends = steps.iter().filter(|it| matches!(it, Step::End(..))).count();
                let is_possible = steps.iter().all(|it| self.is_possible(at, it, split_timers));
                // The end of a timer that was not begun ends its list: one, and in the last place.
                if is_possible && ends + usize::from(has_ended) <= 1 {
                    has_ended |= ends > 0;
                    let _is_new = kept.insert((s, m));
                }
            }
            // What stands behind a `;` waits for all before it.
            if kept.len() - before < stage.len() {
                break;
            }
        }
        kept
    }

    fn is_possible(&self, at: usize, step: &Step, split_timers: &BTreeSet<u64>) -> bool {
        let it = &self.all[at];
        match step {
            Step::Tell(operand, _) | Step::Move(Move::By(operand) | Move::To(operand), ..) => {
                knows(&it.topic, *operand)
            }
            Step::Record(operands, _) => {
                operands.len() <= MAX_TRACED
                    && operands.iter().all(|operand| knows(&it.topic, *operand))
            }
            // Elsewhere it is not who meets the event that runs.
            Step::Signal(_) => matches!(it.topic, EventKind::Called(_) | EventKind::Signalled),
            Step::Begin(timer) | Step::End(timer, _) => {
                // Elsewhere the kernel may have no memory for who has begun.
                let may_begin = matches!(it.topic, EventKind::Called(_));
                may_begin && !split_timers.contains(&timer.number)
            }
            Step::Enable(id) | Step::Disable(id) => {
                let target = self.by_key.get(&(it.key.0, *id));
                target.is_some_and(|target| is_candidate(&self.all[*target]))
            }
            Step::Raise(number, operands) => {
                let mut waiting = self.waiting(at, *number).peekable();
                operands.len() <= MOST_PARAMETERS
                    && operands.iter().all(|operand| knows(&it.topic, *operand))
                    && !self.raises_too_much.contains(&at)
                    && waiting.peek().is_some()
                    && waiting.all(|waiter| is_candidate(&self.all[waiter]))
            }
        }
    }

    /// The requests that wait for an event that this one raises.
    fn waiting(&self, at: usize, number: i64) -> impl Iterator<Item = usize> {
        let session = self.all[at].key.0;
        let is_meant = move |(_, it): &(usize, &Wanted)| {
            it.topic == EventKind::User(number) && (is_shared(number) || it.key.0 == session)
        };
        self.all.iter().enumerate().filter(is_meant).map(|(at, _)| at)
    }

    /// Timers that some action would begin or end in user space.
    fn split_timers(&self) -> BTreeSet<u64> {
        let mut split = BTreeSet::new();
        for (at, it) in self.all.iter().enumerate() {
            for (s, stage) in it.stages.iter().enumerate() {
                for (m, steps) in stage.iter().enumerate() {
                    let is_out = !self.members[at].contains(&(s, m)) || !is_candidate(it);
                    let steps = steps.iter().flatten().filter(|_| is_out);
                    split.extend(steps.filter_map(|step| match step {
                        Step::Begin(timer) | Step::End(timer, _) => Some(timer.number),
                        _ => None,
                    }));
                }
            }
        }
        split
    }

    /// What a request does in the kernel, in its order.
    fn steps(&self, at: usize) -> impl Iterator<Item = &Step> {
        let stages = &self.all[at].stages;
        self.members[at].iter().flat_map(|(s, m)| stages[*s][*m].iter().flatten())
    }

    /// Those that the kernel must have: what is enabled and does something there, what it has
    /// already, and whatever these name.
    fn needed(&self) -> BTreeSet<usize> {
        let is_root = |at: &usize| {
            let it = &self.all[*at];
            let is_user = matches!(it.topic, EventKind::User(_));
            let is_wanted = (it.is_enabled || it.is_placed) && !is_user;
            let has_work = it.holds || !self.members[*at].is_empty();
            is_wanted && is_candidate(it) && has_work
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
}

/// Whether the kernel could run anything of it.
fn is_candidate(it: &Wanted) -> bool {
    // A receipt is what two calls mean together.
    let is_direct = it.topic.sort().is_some() && it.topic != EventKind::Received;
    let is_seen = is_direct || matches!(it.topic, EventKind::User(_));
    let is_checked = match &it.check {
        None => true,
        Some(Predicate::OneOf(place, values)) => {
            let place = u32::try_from(*place).map_or(u32::MAX, |place| place + 1);
            let are_numbers = values.iter().all(|value| value.integer::<i64>().is_some());
            values.len() <= MOST_CHOICES && are_numbers && knows(&it.topic, Operand::Told(place))
        }
        Some(Predicate::Not(..) | Predicate::AtLeast(..) | Predicate::All(_)) => false,
    };
    let joins = it.waits_for_strangers && it.topic == EventKind::Born;
    is_seen && is_checked && !joins && !it.is_refused
}

/// Whether the kernel can know a number at such an event.
pub fn knows(topic: &EventKind, operand: Operand) -> bool {
    let Operand::Told(place) = operand else { return true };
    match topic {
        // The first is the process: its number is the session's, not the kernel's.
        EventKind::Called(_) => place > 1,
        EventKind::Signalled => place == 2,
        EventKind::Scheduled => place == 3,
        EventKind::User(_) => usize::try_from(place).is_ok_and(|place| place <= MOST_PARAMETERS),
        _ => false,
    }
}
