//! Views: the members, and how the order continues when they change.
//!
//! The lowest node is the sequencer. A new sequencer collects the slots of all nodes, resends them
//! to all, and begins the new view after them. A slot whose payload no live node has is left empty:
//! no live node has executed it.

use super::{OrderMessage, OrderOutput, Slot, TotalOrder, UNKNOWN, ViewChange};
use monitor_model::Ns;
use monitor_omis::Node;
use std::collections::{BTreeMap, BTreeSet};

/// Timeout of the state collection.
const COLLECT_TIMEOUT: Ns = Ns(500_000_000);

impl TotalOrder {
    /// Sets the members.
    pub fn set_members(&mut self, now: Ns, mut members: Vec<Node>) -> Vec<OrderOutput> {
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
            self.announce_view(now, &mut out);
        } else {
            self.become_sequencer(now, &mut out);
        }
        out
    }

    /// Waits for the view of another sequencer; a node that was alone starts from zero.
    fn follow(&mut self, was_alone: bool, now: Ns, out: &mut Vec<OrderOutput>) {
        self.change = None;
        // Proposals are deferred until the view arrives. The sequencer may not know this node yet.
        (self.base, self.since) = (Some(UNKNOWN), Some(now));
        out.push(OrderOutput::Send(self.sequencer(), OrderMessage::Hello));
        if was_alone {
            (self.view, self.oldest, self.next) = (0, 0, 1);
            self.held.clear();
            self.past.clear();
        }
    }

    /// Becomes the sequencer: asks all nodes for their slots.
    fn become_sequencer(&mut self, now: Ns, out: &mut Vec<OrderOutput>) {
        self.view = self.view.max(self.oldest) + 1;
        self.oldest = self.view;
        let waiting: BTreeSet<Node> = self.others().collect();
        let message = OrderMessage::CollectSlots { view: self.view };
        out.extend(waiting.iter().map(|to| OrderOutput::Send(*to, message.clone())));
        let found = self.known_slots();
        let deadline = Ns(now.0.saturating_add(COLLECT_TIMEOUT.0));
        self.change = Some(ViewChange { waiting, found, deadline });
        self.end_change(now, out);
    }

    /// The slots that were executed or are held back here.
    fn known_slots(&self) -> BTreeMap<u64, Slot> {
        let held = self.held.iter().map(|(seq, slot)| (*seq, slot.clone()));
        self.past.iter().cloned().chain(held).collect()
    }

    /// Sends the slots to a new sequencer.
    pub(super) fn send_slots(&mut self, to: Node, view: u64, out: &mut Vec<OrderOutput>) {
        self.oldest = self.oldest.max(view);
        let slots = self.known_slots().into_iter().collect();
        out.push(OrderOutput::Send(to, OrderMessage::Slots { view, slots }));
    }

    /// Handles the slots of a node.
    pub(super) fn receive_slots(
        &mut self,
        from: Node,
        (view, slots): (u64, Vec<(u64, Slot)>),
        now: Ns,
        out: &mut Vec<OrderOutput>,
    ) {
        let is_meant = view == self.view;
        if let Some(change) = self.change.as_mut().filter(|_| is_meant) {
            change.waiting.remove(&from);
            change.found.extend(slots);
        }
        self.end_change(now, out);
    }

    /// Begins the view when all nodes have sent their slots, or the timeout has passed.
    pub(super) fn end_change(&mut self, now: Ns, out: &mut Vec<OrderOutput>) {
        let is_over = |it: &mut ViewChange| it.waiting.is_empty() || it.deadline <= now;
        let Some(change) = self.change.take_if(is_over) else { return };
        let last = change.found.keys().next_back().copied().unwrap_or(0);
        self.issued = self.issued.max(last).max(self.next - 1);
        let first = change.found.keys().next().copied().unwrap_or(self.next).min(self.next);
        for seq in first..=self.issued {
            let empty = Slot { origin: self.own.0, nonce: 0, payload: None };
            let slot = change.found.get(&seq).cloned().unwrap_or(empty);
            for to in self.others() {
                let (view, slot) = (self.view, slot.clone());
                out.push(OrderOutput::Send(to, OrderMessage::Deliver { view, seq, slot }));
            }
            self.accept(seq, slot, now, out);
        }
        self.announce_view(now, out);
    }

    /// Announces the view, after all assigned numbers.
    fn announce_view(&mut self, now: Ns, out: &mut Vec<OrderOutput>) {
        let (view, base) = (self.view, self.issued);
        out.extend(
            self.others().map(|to| OrderOutput::Send(to, OrderMessage::View { view, base })),
        );
        self.base = Some(base);
        self.end_view(now, out);
    }

    /// Sends the current view to a node.
    pub(super) fn send_view(&self, to: Node, out: &mut Vec<OrderOutput>) {
        if self.is_sequencer() && self.members.contains(&to) {
            out.push(OrderOutput::Send(
                to,
                OrderMessage::View { view: self.view, base: self.issued },
            ));
        }
    }

    /// Handles a new view.
    pub(super) fn begin_view(&mut self, view: u64, base: u64, now: Ns, out: &mut Vec<OrderOutput>) {
        let is_new_here = self.view == 0 && self.next == 1 && self.held.is_empty();
        if view < self.view {
            return;
        }
        self.view = view;
        if is_new_here {
            self.next = base + 1;
        }
        (self.issued, self.base) = (base, Some(base));
        self.note_last(base, now);
        self.end_view(now, out);
    }

    /// Proposes payloads without a number again, once the previous view is executed.
    pub(super) fn end_view(&mut self, now: Ns, out: &mut Vec<OrderOutput>) {
        if self.change.is_some() || self.base.take_if(|base| self.next > *base).is_none() {
            return;
        }
        let again: Vec<u64> = self.proposed.keys().copied().collect();
        for nonce in again {
            self.send_proposal(nonce, now, out);
        }
    }
}
