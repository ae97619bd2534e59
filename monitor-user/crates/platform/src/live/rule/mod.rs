//! What the kernel sees of this node's processes by itself: lives, signals, turns, calls.
//!
//! ```text
//!  topics, processes -> looks (lists of the kernel, a set for each sort) and taps (calls)
//!  records of these  -> happenings, in the order in which they happened
//! ```
//!
//! Opened when a process is first followed, so that who never asks for an event pays nothing.
//! Where the kernel runs no rules, the backend's readings tell what they can.

mod call;
mod list;
mod marked;

use super::hands::caught::Caught;
use crate::events::Followed;
use crate::program::look;
use crate::program::look::Look;
use crate::program::set::processes;
use crate::program::{Placement, hold};
use crate::tap::{News, Taps};
use crate::{Happening, RuleKey, reading};
use marked::Marked;
use monitor_backend::rule::insn::ProcessSetId;
use monitor_backend::rule::rule_record::{RecordReason, RuleRecord as Record, StopScope};
use monitor_backend::rule::{Children, ProgramId};
use monitor_backends::ebpf::rule::KernelRules;
use monitor_backends::procfs;
use monitor_control::{CodePos, ProbeLocation};
use monitor_event::node_event::{EventKind, FollowedActivity};
use monitor_event::outcome::Refusal;
use monitor_event::right::Tool;
use monitor_model::id::{Identity, Ns};
use monitor_sys::pidfd;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

/// How soon is looked for records that wake nobody.
const LOOK: Ns = Ns(5_000_000);
/// How soon is looked for records that were lost.
const LOOK_FOR_LOSSES: Ns = Ns(100_000_000);
/// Most records that are taken at once; the rest is taken at once after it.
const MOST: usize = 4096;
/// How often in a row: whoever tells without an end must not keep us from all else.
const ROUNDS: usize = 64;

/// The rules of a node, for the events of its tools.
pub(super) struct Ruled {
    taps: Taps,
    sets: BTreeMap<FollowedActivity, ProcessSetId>,
    topics: BTreeSet<EventKind>,
    looks: BTreeMap<Look, ProgramId>,
    /// What a list is for; some that were removed are still told of.
    meant: HashMap<ProgramId, Look>,
    followed: Followed,
    /// What the kernel runs of stored requests.
    placement: Placement,
    /// Who was stopped by programs, and by lists that were taken away before that was read.
    caught: Vec<Caught>,
    strays: Vec<Identity>,
    /// What was told before lists were taken away, while it was known what they mean.
    waiting: Vec<Happening>,
    /// Who had ended before the kernel knew that he matters.
    gone: Vec<Identity>,
    lost: HashMap<ProgramId, u64>,
    n_lost_calls: u64,
    /// While somebody waits for the receipt of marked messages.
    marked: Option<Marked>,
    looked: Ns,
    looked_for_losses: Ns,
}

impl Ruled {
    /// Of this kernel.
    pub(super) fn open() -> Result<Self, Refusal> {
        let rules = KernelRules::open().map_err(reading::failed)?;
        let descriptions = Arc::new(call::descriptions()?);
        let taps = Taps::new(Path::new("/proc"), Box::new(rules), descriptions);
        let mut taps = taps.map_err(reading::failed)?;
        let mut sets = BTreeMap::new();
        for sort in [FollowedActivity::Lifecycle, FollowedActivity::Scheduling] {
            let set = taps.rules().make_set(Children::Included).map_err(reading::failed)?;
            let _before = sets.insert(sort, set);
        }
        Ok(Self {
            taps,
            sets,
            topics: BTreeSet::new(),
            looks: BTreeMap::new(),
            meant: HashMap::new(),
            followed: Followed::default(),
            placement: Placement::default(),
            caught: Vec::new(),
            strays: Vec::new(),
            waiting: Vec::new(),
            gone: Vec::new(),
            lost: HashMap::new(),
            n_lost_calls: 0,
            marked: None,
            looked: Ns(0),
            looked_for_losses: Ns(0),
        })
    }

    /// From now on these are looked out for. Which of them are seen.
    pub(super) fn watch(&mut self, topics: &BTreeSet<EventKind>) -> BTreeSet<EventKind> {
        self.drain();
        self.taps.set(&call::taps(topics));
        let waits = topics.contains(&EventKind::MessageReceived);
        self.marked = waits.then(|| self.marked.take().unwrap_or_default());
        self.topics.clone_from(topics);
        self.settle();
        let strangers = self.followed.strangers;
        let is_seen = |topic: &&EventKind| {
            let looks = Look::of(topic, strangers);
            let has_all = looks.iter().all(|look| self.looks.contains_key(look));
            topic.followed_activity() == Some(FollowedActivity::Calls)
                || (!looks.is_empty() && has_all)
        };
        topics.iter().filter(is_seen).cloned().collect()
    }

    /// In these, and for those who come to be.
    pub(super) fn follow(&mut self, followed: &Followed) {
        let nobody = BTreeSet::new();
        let before = std::mem::replace(&mut self.followed, followed.clone());
        for (&sort, &set) in &self.sets {
            let (old, new) = (before.of.get(&sort), followed.of.get(&sort));
            let (old, new) = (old.unwrap_or(&nobody), new.unwrap_or(&nobody));
            for gone in old.difference(new) {
                self.taps.rules().exclude(set, gone.pid);
            }
            for came in new.difference(old) {
                if let Err(error) = self.taps.rules().include(set, came.pid) {
                    tracing::warn!(pid = came.pid.0, %error, "its events are not seen");
                }
                self.gone.extend(
                    (sort == FollowedActivity::Lifecycle && has_ended(*came)).then_some(*came),
                );
            }
        }
        let callers = followed.of.get(&FollowedActivity::Calls).unwrap_or(&nobody);
        self.taps.follow(&callers.iter().map(|id| id.pid).collect());
        self.settle();
    }

    /// Sets the lists that are needed, and takes the others away.
    fn settle(&mut self) {
        let wanted = Look::all(&self.topics, self.followed.strangers);
        let known: Vec<Look> = self.looks.keys().copied().collect();
        for unwanted in known.iter().filter(|look| !wanted.contains(look)) {
            if let Some(list) = self.looks.remove(unwanted) {
                self.taps.rules().remove(list);
                let _lost = self.lost.remove(&list);
            }
        }
        for look in wanted {
            if self.looks.contains_key(&look) {
                continue;
            }
            let set = look.sort().and_then(|sort| self.sets.get(&sort).copied());
            let rules = self.taps.rules();
            match rules.add(&look.list(set)) {
                Ok(list) => {
                    rules.enable(list);
                    let _before = self.looks.insert(look, list);
                    let _before = self.meant.insert(list, look);
                }
                Err(error) => tracing::warn!(?look, %error, "the kernel does not look out for it"),
            }
        }
    }

    /// Where the kernel has put probes for these.
    pub(super) fn sites(&self) -> Vec<ProbeLocation> {
        let spots = self.taps.spots().into_iter();
        spots.map(|((_, inode), offset)| ProbeLocation { inode, offset }).collect()
    }

    pub(super) fn wake(&self) -> Option<BorrowedFd<'_>> {
        self.taps.wake()
    }

    pub(super) fn due(&self) -> Option<Ns> {
        let after = |at: Ns, pace: Ns| Ns(at.0.saturating_add(pace.0));
        if !self.waiting.is_empty() {
            return Some(Ns(0));
        }
        if !self.gone.is_empty() || self.looks.keys().any(|look| look.is_frequent()) {
            return Some(after(self.looked, LOOK));
        }
        let is_set = self.taps.is_set() || !self.looks.is_empty() || !self.placement.is_empty();
        is_set.then(|| after(self.looked_for_losses, LOOK_FOR_LOSSES))
    }

    /// What happened since.
    pub(super) fn happened(&mut self, now: Ns) -> Vec<Happening> {
        self.looked = now;
        self.drain();
        let mut happened = std::mem::take(&mut self.waiting);
        self.tell_gone(now, &mut happened);
        if now.since(self.looked_for_losses) >= LOOK_FOR_LOSSES {
            self.looked_for_losses = now;
            let n_lost = self.newly_lost();
            happened.extend((n_lost > 0).then_some(Happening::Lost(n_lost)));
        }
        happened
    }

    /// Takes all that was told.
    fn drain(&mut self) {
        for _ in 0..ROUNDS {
            let news = self.taps.news(MOST);
            if news.is_empty() {
                return;
            }
            self.take(news);
        }
    }

    fn take(&mut self, news: Vec<News>) {
        for news in news {
            match news {
                News::Called(it) => {
                    let called = self.called(&it);
                    self.waiting.extend(called);
                }
                News::Storm(_, Some(serial)) => {
                    let rule = self.placement.rider(serial);
                    self.waiting.extend(rule.map(|rule| Happening::Stormed(rule, serial)));
                }
                News::Storm(tap, None) => {
                    tracing::warn!("{} is called too often: its tap was switched off", tap.name);
                }
                News::Other(record) => {
                    let other = self.other(&record);
                    self.waiting.extend(other);
                }
            }
        }
    }

    fn other(&mut self, record: &Record) -> Vec<Happening> {
        if let Some(it) = self.placement.heard(record) {
            return self.unless_held(it, (record.stopped, None)).into_iter().collect();
        }
        // Its list was taken away meanwhile.
        self.strays.extend((record.stopped == StopScope::Process).then_some(record.process));
        let look =
            self.meant.get(&record.program).filter(|_| record.reason == RecordReason::Requested);
        look.map(|look| look.happened(record)).unwrap_or_default()
    }

    /// An event, unless who met it is held for it: then it is due when he stands.
    fn unless_held(
        &mut self,
        it: Happening,
        (how, spot): (StopScope, Option<CodePos>),
    ) -> Option<Happening> {
        match it {
            Happening::Ran { rule, serial, it } if how != StopScope::None => {
                self.caught.push(Caught { rule, serial, it, how, spot, is_asked: false });
                None
            }
            other => Some(other),
        }
    }

    /// Whom programs have stopped, and whom lists that are gone.
    pub(super) fn take_caught(&mut self) -> (Vec<Caught>, Vec<Identity>) {
        (std::mem::take(&mut self.caught), std::mem::take(&mut self.strays))
    }

    /// The requests that hold who meets their event: by serial, for whom, and whom.
    pub(super) fn holding(&self) -> Vec<(u64, RuleKey, Tool, BTreeSet<Identity>)> {
        let programs = self.placement.holding().filter_map(|(rule, program)| {
            let whom = processes(&program.whose).cloned().unwrap_or_default();
            Some((program.serial, rule, program.holds?, whom))
        });
        programs.collect()
    }

    /// From now on programs hold these processes so.
    pub(super) fn hold(&mut self, manners: &hold::Held) {
        self.placement.hold(manners, self.taps.rules());
    }

    /// Those of whose end the kernel has not told, because it did not know them yet.
    fn tell_gone(&mut self, now: Ns, happened: &mut Vec<Happening>) {
        for id in std::mem::take(&mut self.gone) {
            if !happened.contains(&Happening::Ended(id)) {
                happened.extend(look::ended(id, now, None));
            }
        }
    }

    fn newly_lost(&mut self) -> u64 {
        let calls = self.taps.n_lost();
        let mut n_lost = calls.saturating_sub(self.n_lost_calls);
        self.n_lost_calls = calls;
        n_lost += self.placement.newly_lost(&mut self.taps);
        for list in self.looks.values() {
            let records = self.taps.runs(*list).lost_records;
            let before = self.lost.insert(*list, records).unwrap_or(0);
            n_lost += records.saturating_sub(before);
        }
        n_lost
    }
}

/// Whether a process has ended; of one that cannot be asked, it is not known.
fn has_ended(id: Identity) -> bool {
    match pidfd::PidFd::open(id.pid) {
        Ok(held) => held.has_ended(),
        Err(_) => procfs::start_time(id.pid).is_none(),
    }
}
