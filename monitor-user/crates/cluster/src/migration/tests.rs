//! All that can happen to a migration: each order of messages, lost, late and repeated, and a kill
//! of each service between any two steps.

use super::{
    SourceEffect, SourceInput, SourceState, TargetEffect, TargetInput, TargetReply, TargetState,
};
use std::collections::BTreeSet;

/// A copy of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ProcessCopy {
    Absent,
    Stopped,
    Running,
}

/// What was sent once may come at any time, and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Message {
    Images,
    Commit,
    Abort,
    Reply(TargetReply),
}

/// A node: what is on its disk, what it has yet to do, and its copy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NodeWorld<S> {
    state: S,
    /// The number of effects of the last transition that are done, and that transition's input;
    /// lost with the service.
    pending: Vec<u8>,
    copy: ProcessCopy,
    /// The service was killed, and starts next.
    is_down: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    source: NodeWorld<SourceState>,
    target: NodeWorld<TargetState>,
    sent: BTreeSet<Message>,
    /// CRIU of the target has finished, and the service that began it still runs.
    is_restored: bool,
    is_commit_executed: bool,
}

/// The effects by their numbers in `pending`.
const SOURCE_EFFECTS: [SourceEffect; 5] = [
    SourceEffect::SendImages,
    SourceEffect::SendCommit,
    SourceEffect::SendAbort,
    SourceEffect::Resume,
    SourceEffect::Kill,
];
const TARGET_EFFECTS: [TargetEffect; 6] = [
    TargetEffect::Restore,
    TargetEffect::Resume,
    TargetEffect::Drop,
    TargetEffect::Reply(TargetReply::Restored),
    TargetEffect::Reply(TargetReply::Running),
    TargetEffect::Reply(TargetReply::Dropped),
];

fn numbers<E: PartialEq>(all: &[E], effects: &[E]) -> Vec<u8> {
    let number = |it: &E| all.iter().position(|other| other == it).unwrap();
    effects.iter().map(|it| u8::try_from(number(it)).unwrap()).collect()
}

impl World {
    fn begin() -> Self {
        let (pending, is_down) = (Vec::new(), false);
        let copy = ProcessCopy::Stopped;
        Self {
            source: NodeWorld {
                state: SourceState::Dumping,
                pending: pending.clone(),
                copy,
                is_down,
            },
            target: NodeWorld {
                state: TargetState::Unknown,
                pending,
                copy: ProcessCopy::Absent,
                is_down,
            },
            sent: BTreeSet::new(),
            is_restored: false,
            is_commit_executed: false,
        }
    }

    fn source_input(&self, input: SourceInput) -> Option<Self> {
        let (state, effects) = self.source.state.next(input)?;
        let mut next = self.clone();
        next.source.state = state;
        next.source.pending = numbers(&SOURCE_EFFECTS, effects);
        next.source.is_down = false;
        Some(next)
    }

    fn target_input(&self, input: TargetInput) -> Option<Self> {
        let (state, effects) = self.target.state.next(input)?;
        let mut next = self.clone();
        next.target.state = state;
        next.target.pending = numbers(&TARGET_EFFECTS, effects);
        next.target.is_down = false;
        Some(next)
    }

    fn source_effect(&self) -> Self {
        let mut next = self.clone();
        match SOURCE_EFFECTS[usize::from(next.source.pending.remove(0))] {
            SourceEffect::SendImages => _ = next.sent.insert(Message::Images),
            SourceEffect::SendCommit => _ = next.sent.insert(Message::Commit),
            SourceEffect::SendAbort => _ = next.sent.insert(Message::Abort),
            SourceEffect::Resume => next.source.copy = ProcessCopy::Running,
            SourceEffect::Kill => next.source.copy = ProcessCopy::Absent,
        }
        next
    }

    fn target_effect(&self) -> Self {
        let mut next = self.clone();
        match TARGET_EFFECTS[usize::from(next.target.pending.remove(0))] {
            TargetEffect::Restore => {
                (next.target.copy, next.is_restored) = (ProcessCopy::Stopped, true);
            }
            TargetEffect::Resume => next.target.copy = ProcessCopy::Running,
            TargetEffect::Drop => next.target.copy = ProcessCopy::Absent,
            TargetEffect::Reply(reply) => _ = next.sent.insert(Message::Reply(reply)),
        }
        next
    }

    fn started_source(&self) -> Self {
        let mut idle = self.clone();
        idle.source.is_down = false;
        self.source_input(SourceInput::Started).unwrap_or(idle)
    }

    fn started_target(&self) -> Self {
        let mut idle = self.clone();
        idle.target.is_down = false;
        self.target_input(TargetInput::Started).unwrap_or(idle)
    }

    /// All that the source may do or see next.
    fn of_source(&self) -> Vec<Self> {
        let mut killed = self.clone();
        (killed.source.pending, killed.source.is_down) = (Vec::new(), true);
        if self.source.is_down {
            return vec![self.started_source()];
        }
        if !self.source.pending.is_empty() {
            return vec![killed, self.source_effect()];
        }
        let mut next = vec![killed];
        let replies = self.sent.iter().filter_map(|it| match it {
            Message::Reply(reply) => Some(SourceInput::Replied(*reply)),
            Message::Images | Message::Commit | Message::Abort => None,
        });
        let own = [SourceInput::Dumped, SourceInput::Failed, SourceInput::Retry];
        next.extend(replies.chain(own).filter_map(|it| self.source_input(it)));
        // The order says so only of a command that no member executes any more.
        if self.sent.contains(&Message::Commit) && !self.is_commit_executed {
            let mut expired = self.clone();
            expired.sent.remove(&Message::Commit);
            next.extend(expired.source_input(SourceInput::NotExecuted));
        }
        next
    }

    /// All that the target may do or see next.
    fn of_target(&self) -> Vec<Self> {
        let mut killed = self.clone();
        (killed.target.pending, killed.target.is_down) = (Vec::new(), true);
        killed.is_restored = false;
        if self.target.is_down {
            return vec![self.started_target()];
        }
        if !self.target.pending.is_empty() {
            return vec![killed, self.target_effect()];
        }
        let mut next = vec![killed];
        let restored = self.is_restored.then_some(TargetInput::Restored);
        next.extend(restored.and_then(|it| self.target_input(it)));
        next.extend(self.target_input(TargetInput::Failed));
        for message in &self.sent {
            let input = match message {
                Message::Images => TargetInput::Received,
                Message::Commit => TargetInput::Commit,
                Message::Abort => TargetInput::Abort,
                Message::Reply(_) => continue,
            };
            let mut executed = self.target_input(input);
            if let Some(next) = &mut executed {
                next.is_commit_executed |= input == TargetInput::Commit;
            }
            next.extend(executed);
        }
        next
    }

    /// Goes on without kills, with all that is sent arriving, until nothing changes.
    fn settled(mut self) -> Self {
        loop {
            let before = self.clone();
            while self.source.is_down || !self.source.pending.is_empty() {
                self =
                    if self.source.is_down { self.started_source() } else { self.source_effect() };
            }
            while self.target.is_down || !self.target.pending.is_empty() {
                self =
                    if self.target.is_down { self.started_target() } else { self.target_effect() };
            }
            let is_known = self.source.state != SourceState::Dumping;
            let input = if is_known { SourceInput::Retry } else { SourceInput::Failed };
            self = self.source_input(input).unwrap_or(self);
            // What was asked last is what the target executes.
            for (message, input) in
                [(Message::Images, TargetInput::Received), (Message::Abort, TargetInput::Abort)]
            {
                if self.sent.contains(&message) {
                    self = self.target_input(input).unwrap_or(self);
                    while !self.target.pending.is_empty() {
                        self = self.target_effect();
                    }
                }
            }
            // Its deadline.
            if self.source.state == SourceState::Sent {
                self = self.source_input(SourceInput::Failed).unwrap_or(self);
            }
            while !self.source.pending.is_empty() {
                self = self.source_effect();
            }
            for reply in [TargetReply::Running, TargetReply::Dropped] {
                if self.sent.contains(&Message::Reply(reply)) {
                    let input = SourceInput::Replied(reply);
                    self = self.source_input(input).unwrap_or(self);
                }
            }
            while !self.source.pending.is_empty() {
                self = self.source_effect();
            }
            if self == before {
                return self;
            }
        }
    }
}

/// All worlds that can come about.
fn reachable() -> BTreeSet<World> {
    let mut found = BTreeSet::from([World::begin()]);
    let mut open = vec![World::begin()];
    while let Some(world) = open.pop() {
        for next in world.of_source().into_iter().chain(world.of_target()) {
            if found.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    found
}

#[test]
fn two_copies_never_run_and_one_is_always_there() {
    let worlds = reachable();
    assert!(worlds.len() > 500, "{}", worlds.len());
    for world in &worlds {
        let copies = [world.source.copy, world.target.copy];
        assert_ne!(copies, [ProcessCopy::Running; 2], "{world:?}");
        assert_ne!(copies, [ProcessCopy::Absent; 2], "{world:?}");
    }
    let runs = |it: &World, at_source: bool| {
        let node = if at_source { it.source.copy } else { it.target.copy };
        node == ProcessCopy::Running
    };
    assert!(worlds.iter().any(|it| runs(it, true)) && worlds.iter().any(|it| runs(it, false)));
}

#[test]
fn without_further_kills_exactly_one_copy_runs_and_both_nodes_know_where() {
    for world in reachable() {
        let end = world.clone().settled();
        let known = (end.source.state, end.source.copy, end.target.copy);
        let moved = (SourceState::Committed, ProcessCopy::Absent, ProcessCopy::Running);
        let stayed = (SourceState::Aborted, ProcessCopy::Running, ProcessCopy::Absent);
        assert!(known == moved || known == stayed, "from {world:?}\nto {end:?}");
    }
}

#[test]
fn when_the_outcome_is_not_known_the_source_says_so_and_runs_nothing() {
    for world in reachable().iter().filter(|it| it.source.state == SourceState::Deciding) {
        assert_ne!(world.source.copy, ProcessCopy::Running, "{world:?}");
        // It is named until the target has said what it wrote down.
        let started = world.started_source();
        assert_eq!(started.source.state, SourceState::Deciding);
    }
}
