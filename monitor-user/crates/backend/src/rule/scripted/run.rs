//! A run of lists, act by act, as the kernel does it.

use super::{Happened, NO_VALUES, Scripted};
use crate::rule::act::{
    Act, CellKind, MAX_TEXTS, MAX_VALUES, MISSING, Move, Recorded, Set, Source, Timer, Value, Whose,
};
use crate::rule::told::{Held, Told, Why};
use crate::rule::{List, ListId, Place, Rules as _};
use monitor_model::id::{Identity, Ns, Pid};
use std::collections::VecDeque;
use std::sync::PoisonError;

/// Events that may be raised, one by the other, as in the kernel.
const MAX_RAISED: usize = 16;

/// What one list knows as it runs.
struct Run<'a> {
    at: &'a Happened,
    id: ListId,
    values: [u64; MAX_VALUES],
}

/// Whether the next act follows.
enum Then {
    GoOn,
    End,
}

impl Scripted {
    /// Something happens: the lists that are there for it run, then those that they raise.
    pub fn happen(&mut self, first: Happened) {
        if first.place == Place::Fork {
            self.inherit(&first);
        }
        let mut waiting = VecDeque::from([first]);
        let mut n_raised = 0;
        while let Some(at) = waiting.pop_front() {
            let lists: Vec<ListId> = self.lists.keys().copied().collect();
            for id in lists {
                let raised = self.run(id, &at);
                n_raised += raised.len();
                if n_raised > MAX_RAISED {
                    let tally = self.lists.get_mut(&id).map(|listed| &mut listed.tally);
                    let _ = tally.map(|tally| tally.lost_raises += 1);
                    return;
                }
                waiting.extend(raised);
            }
        }
    }

    fn inherit(&mut self, fork: &Happened) {
        let process = |number: u64| Pid(u32::try_from(number).unwrap_or(u32::MAX));
        let (parent, child) = (process(fork.arguments[0]), process(fork.arguments[1]));
        for (set, members) in &mut self.sets {
            if self.inherited.contains(set) && members.contains(&parent) {
                let _ = members.insert(child);
            }
        }
    }

    fn is_in(&self, set: Set, process: Pid) -> bool {
        self.sets.get(&set.0).is_some_and(|members| members.contains(&process))
    }

    /// Runs one list; returns what it raised.
    fn run(&mut self, id: ListId, at: &Happened) -> Vec<Happened> {
        let is_on = |list: &List| self.is_enabled(list.switch.unwrap_or(id));
        let is_its = |it: &&super::Listed| it.list.place == at.place && is_on(&it.list);
        let Some(listed) = self.lists.get(&id).filter(is_its) else { return Vec::new() };
        if listed.list.set.is_some_and(|set| !self.is_in(set, at.pid)) {
            return Vec::new();
        }
        if listed.list.eyes.is_some() && listed.list.eyes != at.eyes {
            return Vec::new();
        }
        let acts = listed.list.acts.clone();
        let _ = self.lists.get_mut(&id).map(|listed| listed.tally.runs += 1);
        let mut run = Run { at, id, values: NO_VALUES };
        let mut raised = Vec::new();
        for act in &acts {
            if let Act::Raise(event, from) = *act {
                let [a, b, c, d] = [0, 1, 2, 3].map(|n| run.values[usize::from(from.0 + n) % 8]);
                let arguments = [a, b, c, d, 0, 0];
                raised.push(Happened { place: Place::Raised(event), arguments, ..at.clone() });
            } else if matches!(self.act(&mut run, act), Then::End) {
                break;
            }
        }
        raised
    }

    fn act(&mut self, run: &mut Run<'_>, act: &Act) -> Then {
        let signed = |value: Value| run.values[usize::from(value.0)].cast_signed();
        match *act {
            Act::Argument(to, n, how) => {
                run.set(to, how.cut(run.at.arguments.get(usize::from(n)).copied().unwrap_or(0)));
            }
            Act::Source(to, what) => run.set(to, self.source(run, what)),
            Act::Constant(to, value) => run.set(to, value.cast_unsigned()),
            Act::Memory(to, from, offset, how) => {
                let address = run.get(from).wrapping_add_signed(offset);
                let Some(value) = self.memory.get(&address) else { return self.fault(run) };
                run.set(to, how.cut(*value));
            }
            Act::Peek(to, from, offset, how) => {
                let address = run.get(from).wrapping_add_signed(offset);
                let value = self.memory.get(&address).map(|value| how.cut(*value));
                run.set(to, value.unwrap_or(MISSING));
            }
            Act::Filter(of, how, with) if !how.holds(run.get(of), with) => return Then::End,
            Act::Filter(..) | Act::Raise(..) => {}
            Act::Count(cell) => self.change(cell, |held| held.unwrap_or(0).wrapping_add(1)),
            Act::Add(cell, of) => {
                let by = signed(of);
                self.change(cell, |held| held.unwrap_or(0).wrapping_add(by));
            }
            Act::Change(id, by) => {
                let level = self.change_level(id, Move::By(signed(by)));
                run.set(by, level.cast_unsigned());
            }
            Act::Level(id, is) => {
                let _level = self.change_level(id, Move::To(signed(is)));
            }
            Act::Spread(id, of) => self.note(id, signed(of)),
            Act::Trace(id, of, n) => {
                let values = (of.0..of.0 + n).map(|n| run.get(Value(n)).cast_signed()).collect();
                self.traces.entry(id.0).or_default().push((self.now, values));
            }
            Act::Extreme(cell, of) => {
                let value = signed(of);
                let is_least = cell.kind == CellKind::Least;
                let pick = if is_least { i64::min } else { i64::max };
                self.change(cell, |held| held.map_or(value, |held| pick(held, value)));
            }
            Act::Histogram(id, of) => {
                let value = Ns(run.get(of));
                self.histograms.entry(id.0).or_default().note(value);
            }
            Act::Begin(..) | Act::End(..) | Act::Running(..) => return self.time(run, act),
            Act::Record(it) => self.tell(run, it),
            Act::Enable(id) => crate::rule::Rules::enable(self, id),
            Act::Disable(id) => crate::rule::Rules::disable(self, id),
            Act::Signal(number, to) => self.signals.push((run.at.pid, number, to)),
            Act::Ours(to, of, set) => {
                let process = run.get(of);
                let pid = Pid(u32::try_from(process).unwrap_or(u32::MAX));
                run.set(to, if self.is_in(set, pid) { process } else { u64::MAX });
            }
        }
        Then::GoOn
    }

    fn fault(&mut self, run: &Run<'_>) -> Then {
        let _ = self.lists.get_mut(&run.id).map(|listed| listed.tally.faults += 1);
        Then::End
    }

    const fn source(&self, run: &Run<'_>, what: Source) -> u64 {
        match what {
            Source::Pid => run.at.pid.0 as u64,
            Source::Tid => run.at.tid.0 as u64,
            Source::Time => self.now.0,
            Source::Cpu | Source::Ip | Source::Sp | Source::ThreadPointer => 0,
        }
    }

    fn time(&mut self, run: &mut Run<'_>, act: &Act) -> Then {
        let now = self.now;
        match *act {
            Act::Begin(timer, keep) => {
                let kept = [0, 1, 2].map(|n| run.values[usize::from(keep.0 + n) % MAX_VALUES]);
                self.calls.entry(key(timer, run.at)).or_default().push((now, kept));
            }
            Act::End(to, timer) => {
                let begun = self.calls.get_mut(&key(timer, run.at)).and_then(Vec::pop);
                let Some((since, kept)) = begun else {
                    let _ = self.lists.get_mut(&run.id).map(|it| it.tally.lost_times += 1);
                    return Then::End;
                };
                run.set(to, now.since(since).0);
                for (n, value) in (1..).zip(kept) {
                    run.set(Value((to.0 + n) % 8), value);
                }
            }
            Act::Running(to, timer) => {
                let begun = self.calls.get(&key(timer, run.at));
                run.set(to, u64::from(begun.is_some_and(|calls| !calls.is_empty())));
            }
            _ => {}
        }
        Then::GoOn
    }

    fn tell(&mut self, run: &Run<'_>, it: Recorded) {
        let is_text = |n: &u8| it.texts >> n & 1 == 1;
        let text = |n: u8| self.texts.get(&run.values[usize::from(n)]).cloned();
        let told = Told {
            why: Why::Asked,
            held: self.held(it, run.at.pid),
            list: run.id,
            at: self.now,
            process: Identity { pid: run.at.pid, start: Ns(0) },
            eyes: run.at.eyes,
            tid: run.at.tid,
            cpu: 0,
            ip: 0,
            sp: 0,
            values: run.values,
            texts: (0..8).filter(is_text).take(MAX_TEXTS).map(text).collect(),
            stack: Vec::new(),
        };
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push_back(told);
    }

    fn held(&self, it: Recorded, pid: Pid) -> Held {
        match it.holds {
            Some(holds) if self.is_in(holds.traced, pid) => Held::Thread,
            Some(holds) if self.is_in(holds.stoppable, pid) => Held::Process,
            Some(_) | None => Held::Nobody,
        }
    }
}

impl Run<'_> {
    fn get(&self, value: Value) -> u64 {
        self.values[usize::from(value.0) % MAX_VALUES]
    }

    fn set(&mut self, to: Value, value: u64) {
        self.values[usize::from(to.0) % MAX_VALUES] = value;
    }
}

const fn key(timer: Timer, at: &Happened) -> (u32, Pid) {
    let whose = match timer.whose {
        Whose::Thread => at.tid,
        Whose::Process => at.pid,
        Whose::Node => Pid(0),
    };
    (timer.index, whose)
}
