//! Views: which nodes there are, and how the order goes on when that changes.
//!
//! The lowest node gives the numbers. If that is another one than before, it gathers from all
//! what they have seen, gives everybody what he lacks, and begins the new view after it. A number
//! whose parcel nobody has that lives is left empty: nobody that lives has executed it.

use super::{Letter, Order, Out, Slot, UNKNOWN};
use monitor_model::id::Ns;
use monitor_omis::Node;
use std::collections::{BTreeMap, BTreeSet};

/// How long is waited for what others have seen.
const GATHERING: Ns = Ns(500_000_000);

/// A view that begins.
pub struct Change {
    /// Who has not shown what he has.
    waiting: BTreeSet<Node>,
    found: BTreeMap<u64, Slot>,
    /// When it begins without those.
    pub deadline: Ns,
}

impl Order {
    /// These nodes are there from now on.
    pub fn meet(&mut self, now: Ns, mut members: Vec<Node>) -> Vec<Out> {
        let mut out = Vec::new();
        members.sort_unstable();
        members.dedup();
        if members == self.members {
            return out;
        }
        let gave_numbers = self.sequencer() == self.own;
        let was_alone = self.members.len() == 1;
        self.members = members;
        if self.sequencer() != self.own {
            self.follow(was_alone, now, &mut out);
        } else if gave_numbers {
            self.view += 1;
            self.begin(now, &mut out);
        } else {
            self.take_over(now, &mut out);
        }
        out
    }

    /// Another node gives the numbers; whoever was alone has no part in what was before.
    fn follow(&mut self, was_alone: bool, now: Ns, out: &mut Vec<Out>) {
        self.change = None;
        // Until its view is here, nothing is proposed. It may not know yet that we are there.
        (self.base, self.since) = (Some(UNKNOWN), Some(now));
        out.push(Out::Send(self.sequencer(), Letter::Hello));
        if was_alone {
            (self.view, self.oldest, self.next) = (0, 0, 1);
            self.held.clear();
            self.past.clear();
        }
    }

    /// Asks everybody what he has seen.
    fn take_over(&mut self, now: Ns, out: &mut Vec<Out>) {
        self.view = self.view.max(self.oldest) + 1;
        self.oldest = self.view;
        let waiting: BTreeSet<Node> = self.others().collect();
        let letter = Letter::Gather { view: self.view };
        out.extend(waiting.iter().map(|to| Out::Send(*to, letter.clone())));
        let found = self.seen();
        let deadline = Ns(now.0.saturating_add(GATHERING.0));
        self.change = Some(Change { waiting, found, deadline });
        self.end_change(now, out);
    }

    /// What was executed or is held back here.
    fn seen(&self) -> BTreeMap<u64, Slot> {
        let held = self.held.iter().map(|(seq, slot)| (*seq, slot.clone()));
        self.past.iter().cloned().chain(held).collect()
    }

    /// Shows it to a node that takes over.
    pub(super) fn show(&mut self, to: Node, view: u64, out: &mut Vec<Out>) {
        self.oldest = self.oldest.max(view);
        let slots = self.seen().into_iter().collect();
        out.push(Out::Send(to, Letter::Held { view, slots }));
    }

    /// Somebody shows what he has.
    pub(super) fn shown(
        &mut self,
        from: Node,
        (view, slots): (u64, Vec<(u64, Slot)>),
        now: Ns,
        out: &mut Vec<Out>,
    ) {
        let is_meant = view == self.view;
        if let Some(change) = self.change.as_mut().filter(|_| is_meant) {
            change.waiting.remove(&from);
            change.found.extend(slots);
        }
        self.end_change(now, out);
    }

    /// Begins the view, once all have shown what they have, or too much time has passed.
    pub(super) fn end_change(&mut self, now: Ns, out: &mut Vec<Out>) {
        let is_over = |it: &mut Change| it.waiting.is_empty() || it.deadline <= now;
        let Some(change) = self.change.take_if(is_over) else { return };
        let last = change.found.keys().next_back().copied().unwrap_or(0);
        self.issued = self.issued.max(last).max(self.next - 1);
        let first = change.found.keys().next().copied().unwrap_or(self.next).min(self.next);
        for seq in first..=self.issued {
            let empty = Slot { origin: self.own.0, nonce: 0, parcel: None };
            let slot = change.found.get(&seq).cloned().unwrap_or(empty);
            for to in self.others() {
                let (view, slot) = (self.view, slot.clone());
                out.push(Out::Send(to, Letter::Deliver { view, seq, slot }));
            }
            self.take(seq, slot, now, out);
        }
        self.begin(now, out);
    }

    /// The view begins, after all that was given a number.
    fn begin(&mut self, now: Ns, out: &mut Vec<Out>) {
        let (view, base) = (self.view, self.issued);
        out.extend(self.others().map(|to| Out::Send(to, Letter::View { view, base })));
        self.base = Some(base);
        self.end_view(now, out);
    }

    /// Somebody waits for the view.
    pub(super) fn welcome(&self, to: Node, out: &mut Vec<Out>) {
        if self.gives_numbers() && self.members.contains(&to) {
            out.push(Out::Send(to, Letter::View { view: self.view, base: self.issued }));
        }
    }

    /// Another node has begun a view.
    pub(super) fn adopt(&mut self, view: u64, base: u64, now: Ns, out: &mut Vec<Out>) {
        let is_new_here = self.view == 0 && self.next == 1 && self.held.is_empty();
        if view < self.view {
            return;
        }
        self.view = view;
        if is_new_here {
            self.next = base + 1;
        }
        (self.issued, self.base) = (base, Some(base));
        self.miss_up_to(base, now);
        self.end_view(now, out);
    }

    /// Once the view before is executed to its end, what it gave no number is proposed again.
    pub(super) fn end_view(&mut self, now: Ns, out: &mut Vec<Out>) {
        if self.change.is_some() || self.base.take_if(|base| self.next > *base).is_none() {
            return;
        }
        let again: Vec<u64> = self.proposed.keys().copied().collect();
        for nonce in again {
            self.hand_in(nonce, now, out);
        }
    }
}
