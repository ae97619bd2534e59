//! Total-order broadcast of requests to several nodes.
//!
//! ```text
//!  origin --Propose--> sequencer, the lowest node --Deliver(view, seq)--> every node, in order
//! ```
//!
//! In: payloads of this node, messages of others, the members. Out: messages, and payloads that are
//! next here. A node executes strictly in sequence: early slots are held back, missing ones
//! fetched. When the members change, a new view begins: the sequencer collects the slots that any
//! node has of the old one, and payloads without a number are proposed again. Atomic means the same
//! order on all live nodes, and execution on all or none of them; no more than that.

pub mod message;
#[cfg(test)]
mod tests;
mod view;

pub use message::{OrderMessage, Payload, Slot, WirePacket};

use monitor_model::Ns;
use monitor_omis::Node;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How long a gap may last before missing slots are fetched.
const GAP_TIMEOUT: Ns = Ns(100_000_000);
/// End of a view that is not known yet.
const UNKNOWN: u64 = u64::MAX;
/// Number of executed slots kept for resending.
const KEPT: usize = 4096;

/// What the caller has to do.
#[derive(Debug, PartialEq)]
pub enum OrderOutput {
    /// Send a message to a node.
    Send(Node, OrderMessage),
    /// Execute this payload here.
    Execute(Payload),
}

/// The state of the total order on one node.
pub struct TotalOrder {
    own: Node,
    /// All nodes, including this one, ascending; the first is the sequencer.
    members: Vec<Node>,
    view: u64,
    /// The oldest view whose messages are accepted: slots shown for a newer view are complete.
    oldest: u64,
    /// The next sequence number to execute here.
    next: u64,
    /// The last assigned sequence number.
    issued: u64,
    /// Slots that arrived early.
    held: BTreeMap<u64, Slot>,
    /// The last executed slots.
    past: VecDeque<(u64, Slot)>,
    /// Payloads that this node has proposed and not received yet.
    proposed: BTreeMap<u64, Payload>,
    nonce: u64,
    /// The state collection for a new view.
    change: Option<ViewChange>,
    /// The end of the previous view, which must be executed before new proposals.
    base: Option<u64>,
    /// When a gap was found, or a number assigned last.
    since: Option<Ns>,
}

/// The state collection for a new view.
struct ViewChange {
    /// The nodes that have not sent their slots.
    waiting: BTreeSet<Node>,
    found: BTreeMap<u64, Slot>,
    /// When the view begins without those.
    deadline: Ns,
}

impl TotalOrder {
    /// The order of a single node.
    pub fn new(own: Node) -> Self {
        Self {
            own,
            members: vec![own],
            view: 0,
            oldest: 0,
            next: 1,
            issued: 0,
            held: BTreeMap::new(),
            past: VecDeque::new(),
            proposed: BTreeMap::new(),
            nonce: 0,
            change: None,
            base: None,
            since: None,
        }
    }

    /// Proposes a payload.
    pub fn propose(&mut self, now: Ns, payload: Payload) -> Vec<OrderOutput> {
        let mut out = Vec::new();
        self.nonce += 1;
        self.proposed.insert(self.nonce, payload);
        self.send_proposal(self.nonce, now, &mut out);
        out
    }

    /// Handles a message of another node.
    pub fn receive(&mut self, now: Ns, from: Node, message: OrderMessage) -> Vec<OrderOutput> {
        let mut out = Vec::new();
        match message {
            OrderMessage::Propose { view, nonce, payload } => {
                // A proposal of another view will be made again.
                if view == self.view && self.is_sequencer() {
                    self.assign(
                        Slot { origin: from.0, nonce, payload: Some(payload) },
                        now,
                        &mut out,
                    );
                }
            }
            // Sent by a previous sequencer, too late for the state collection.
            OrderMessage::Deliver { view, .. } | OrderMessage::UpTo { view, .. }
                if view < self.oldest => {}
            OrderMessage::Deliver { seq, slot, .. } => self.accept(seq, slot, now, &mut out),
            OrderMessage::UpTo { seq, .. } => self.note_last(seq, now),
            OrderMessage::Fetch { first, last } => self.resend(from, first, last, &mut out),
            OrderMessage::CollectSlots { view } => self.send_slots(from, view, &mut out),
            OrderMessage::Slots { view, slots } => {
                self.receive_slots(from, (view, slots), now, &mut out)
            }
            OrderMessage::Hello => self.send_view(from, &mut out),
            OrderMessage::View { view, base } => self.begin_view(view, base, now, &mut out),
        }
        out
    }

    /// Handles the passing of time.
    pub fn tick(&mut self, now: Ns) -> Vec<OrderOutput> {
        let mut out = Vec::new();
        self.end_change(now, &mut out);
        if self.since.is_some_and(|since| now.since(since) >= GAP_TIMEOUT) {
            self.since = None;
            self.fetch_missing(now, &mut out);
        }
        out
    }

    /// When the next `tick` is due.
    pub fn due(&self) -> Option<Ns> {
        let later = |at: Ns| Ns(at.0.saturating_add(GAP_TIMEOUT.0));
        let change = self.change.as_ref().map(|it| it.deadline);
        self.since.map(later).into_iter().chain(change).min()
    }

    /// The node that assigns sequence numbers.
    fn sequencer(&self) -> Node {
        self.members.first().copied().unwrap_or(self.own)
    }

    fn is_sequencer(&self) -> bool {
        self.sequencer() == self.own && self.change.is_none()
    }

    /// Sends a proposal of this node to the sequencer; while a view begins it is deferred.
    fn send_proposal(&mut self, nonce: u64, now: Ns, out: &mut Vec<OrderOutput>) {
        let Some(payload) = self.proposed.get(&nonce).cloned() else { return };
        if self.change.is_some() || self.base.is_some() {
            return;
        }
        if self.sequencer() == self.own {
            let slot = Slot { origin: self.own.0, nonce, payload: Some(payload) };
            return self.assign(slot, now, out);
        }
        let message = OrderMessage::Propose { view: self.view, nonce, payload };
        out.push(OrderOutput::Send(self.sequencer(), message));
    }

    /// Assigns the next sequence number.
    fn assign(&mut self, slot: Slot, now: Ns, out: &mut Vec<OrderOutput>) {
        self.issued += 1;
        let (view, seq) = (self.view, self.issued);
        for to in self.others() {
            out.push(OrderOutput::Send(
                to,
                OrderMessage::Deliver { view, seq, slot: slot.clone() },
            ));
        }
        // A loss of the last slot leaves no gap: `UpTo` reports the last number later.
        self.since = (self.members.len() > 1).then_some(now);
        self.accept(seq, slot, now, out);
    }

    /// Executes the next slots, and holds back early ones.
    fn accept(&mut self, seq: u64, slot: Slot, now: Ns, out: &mut Vec<OrderOutput>) {
        if seq < self.next {
            return;
        }
        self.held.insert(seq, slot);
        while let Some(slot) = self.held.remove(&self.next) {
            if slot.origin == self.own.0 {
                self.proposed.remove(&slot.nonce);
            }
            let is_ours =
                |payload: &Payload| payload.nodes.is_empty() || payload.nodes.contains(&self.own.0);
            out.extend(slot.payload.clone().filter(is_ours).map(OrderOutput::Execute));
            self.past.push_back((self.next, slot));
            if self.past.len() > KEPT {
                self.past.pop_front();
            }
            self.next += 1;
        }
        if !self.held.is_empty() {
            self.since.get_or_insert(now);
        }
        self.end_view(now, out);
    }

    /// Notes the last assigned number.
    fn note_last(&mut self, seq: u64, now: Ns) {
        if self.next <= seq {
            self.issued = self.issued.max(seq);
            self.since.get_or_insert(now);
        }
    }

    /// Fetches missing slots, or as the sequencer announces the last number.
    fn fetch_missing(&mut self, now: Ns, out: &mut Vec<OrderOutput>) {
        if self.base == Some(UNKNOWN) {
            self.since = Some(now);
            return out.push(OrderOutput::Send(self.sequencer(), OrderMessage::Hello));
        }
        if self.sequencer() == self.own {
            let (view, seq) = (self.view, self.issued);
            out.extend(
                self.others().map(|to| OrderOutput::Send(to, OrderMessage::UpTo { view, seq })),
            );
            return;
        }
        let last = self.held.keys().next().map_or(self.issued, |first| first - 1);
        if self.next <= last {
            self.since = Some(now);
            let message = OrderMessage::Fetch { first: self.next, last };
            out.push(OrderOutput::Send(self.sequencer(), message));
        }
    }

    fn resend(&self, to: Node, first: u64, last: u64, out: &mut Vec<OrderOutput>) {
        let wanted = self.past.iter().filter(|(seq, _)| (first..=last).contains(seq));
        out.extend(wanted.map(|(seq, slot)| {
            OrderOutput::Send(
                to,
                OrderMessage::Deliver { view: self.view, seq: *seq, slot: slot.clone() },
            )
        }));
    }

    fn others(&self) -> impl Iterator<Item = Node> + use<> {
        let own = self.own;
        self.members.clone().into_iter().filter(move |it| *it != own)
    }
}
