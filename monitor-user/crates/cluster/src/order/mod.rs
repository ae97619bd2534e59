//! One order for the requests of all nodes: who goes to several, goes through here.
//!
//! ```text
//!  origin --Propose--> sequencer, the lowest node --Deliver(view, seq)--> every node, in order
//! ```
//!
//! In: parcels of this node, letters of others, who there is. Out: letters, and the parcels whose
//! turn it is here. A node executes strictly by sequence: what comes too early is held back, what
//! is missing is fetched. When the set of nodes changes, a new view begins; the sequencer gathers
//! what anybody has seen of the old one first, and what was never given a number is proposed again.
//! Atomic means the same order on all nodes that live, and all or none of them; not more.

pub mod letter;
#[cfg(test)]
mod tests;
mod view;

pub use letter::{Letter, Parcel, Slot};

use monitor_model::id::Ns;
use monitor_omis::Node;
use std::collections::{BTreeMap, VecDeque};
use view::Change;

/// How long a gap may last before what is missing is fetched.
const PATIENCE: Ns = Ns(100_000_000);
/// The end of a view that was not told yet.
const UNKNOWN: u64 = u64::MAX;
/// Slots that are kept for those who miss one.
const KEPT: usize = 4096;

/// Whatever is to be done.
#[derive(Debug, PartialEq)]
pub enum Out {
    /// Send this to a node.
    Send(Node, Letter),
    /// It is the turn of this parcel, here.
    Due(Parcel),
}

/// The order, as one node sees it.
pub struct Order {
    own: Node,
    /// All nodes, this one too, ascending; the first gives the numbers.
    members: Vec<Node>,
    view: u64,
    /// The oldest view of which anything is still heard: what somebody was shown is complete.
    oldest: u64,
    /// The next slot that is executed here.
    next: u64,
    /// The last number that was given out, if this node gives them.
    issued: u64,
    /// What came too early.
    held: BTreeMap<u64, Slot>,
    /// What was executed last.
    past: VecDeque<(u64, Slot)>,
    /// What this node has proposed and not seen yet.
    proposed: BTreeMap<u64, Parcel>,
    nonce: u64,
    /// A view that begins: what is gathered for it.
    change: Option<Change>,
    /// The end of the view before, which must be executed before proposals are made again.
    base: Option<u64>,
    /// When something was found missing, or given out last.
    since: Option<Ns>,
}

impl Order {
    /// Of a node alone.
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

    /// Gives a parcel its place in the order.
    pub fn propose(&mut self, now: Ns, parcel: Parcel) -> Vec<Out> {
        let mut out = Vec::new();
        self.nonce += 1;
        self.proposed.insert(self.nonce, parcel);
        self.hand_in(self.nonce, now, &mut out);
        out
    }

    /// Takes a letter of another node.
    pub fn receive(&mut self, now: Ns, from: Node, letter: Letter) -> Vec<Out> {
        let mut out = Vec::new();
        match letter {
            Letter::Propose { view, nonce, parcel } => {
                // Of another view it will be proposed again.
                if view == self.view && self.gives_numbers() {
                    self.issue(Slot { origin: from.0, nonce, parcel: Some(parcel) }, now, &mut out);
                }
            }
            // On its way from a node that gave numbers before, and too late to be shown.
            Letter::Deliver { view, .. } | Letter::UpTo { view, .. } if view < self.oldest => {}
            Letter::Deliver { seq, slot, .. } => self.take(seq, slot, now, &mut out),
            Letter::UpTo { seq, .. } => self.miss_up_to(seq, now),
            Letter::Fetch { first, last } => self.give(from, first, last, &mut out),
            Letter::Gather { view } => self.show(from, view, &mut out),
            Letter::Held { view, slots } => self.shown(from, (view, slots), now, &mut out),
            Letter::Hello => self.welcome(from, &mut out),
            Letter::View { view, base } => self.adopt(view, base, now, &mut out),
        }
        out
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Ns) -> Vec<Out> {
        let mut out = Vec::new();
        self.end_change(now, &mut out);
        if self.since.is_some_and(|since| now.since(since) >= PATIENCE) {
            self.since = None;
            self.mend(now, &mut out);
        }
        out
    }

    /// When it must be given time.
    pub fn due(&self) -> Option<Ns> {
        let later = |at: Ns| Ns(at.0.saturating_add(PATIENCE.0));
        let change = self.change.as_ref().map(|it| it.deadline);
        self.since.map(later).into_iter().chain(change).min()
    }

    /// Who gives the numbers.
    fn sequencer(&self) -> Node {
        self.members.first().copied().unwrap_or(self.own)
    }

    fn gives_numbers(&self) -> bool {
        self.sequencer() == self.own && self.change.is_none()
    }

    /// Hands a proposal of our own to the sequencer; later, while a view begins.
    fn hand_in(&mut self, nonce: u64, now: Ns, out: &mut Vec<Out>) {
        let Some(parcel) = self.proposed.get(&nonce).cloned() else { return };
        if self.change.is_some() || self.base.is_some() {
            return;
        }
        if self.sequencer() == self.own {
            let slot = Slot { origin: self.own.0, nonce, parcel: Some(parcel) };
            return self.issue(slot, now, out);
        }
        let letter = Letter::Propose { view: self.view, nonce, parcel };
        out.push(Out::Send(self.sequencer(), letter));
    }

    /// Gives a number.
    fn issue(&mut self, slot: Slot, now: Ns, out: &mut Vec<Out>) {
        self.issued += 1;
        let (view, seq) = (self.view, self.issued);
        for to in self.others() {
            out.push(Out::Send(to, Letter::Deliver { view, seq, slot: slot.clone() }));
        }
        // The last one may be lost, and nobody would miss it: then it is told how far it goes.
        self.since = (self.members.len() > 1).then_some(now);
        self.take(seq, slot, now, out);
    }

    /// Executes what is next, and holds back what is not.
    fn take(&mut self, seq: u64, slot: Slot, now: Ns, out: &mut Vec<Out>) {
        if seq < self.next {
            return;
        }
        self.held.insert(seq, slot);
        while let Some(slot) = self.held.remove(&self.next) {
            if slot.origin == self.own.0 {
                self.proposed.remove(&slot.nonce);
            }
            let is_ours =
                |parcel: &Parcel| parcel.nodes.is_empty() || parcel.nodes.contains(&self.own.0);
            out.extend(slot.parcel.clone().filter(is_ours).map(Out::Due));
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

    /// Somebody has given out numbers so far.
    fn miss_up_to(&mut self, seq: u64, now: Ns) {
        if self.next <= seq {
            self.issued = self.issued.max(seq);
            self.since.get_or_insert(now);
        }
    }

    /// Fetches what is missing, or tells how far it goes.
    fn mend(&mut self, now: Ns, out: &mut Vec<Out>) {
        if self.base == Some(UNKNOWN) {
            self.since = Some(now);
            return out.push(Out::Send(self.sequencer(), Letter::Hello));
        }
        if self.sequencer() == self.own {
            let (view, seq) = (self.view, self.issued);
            out.extend(self.others().map(|to| Out::Send(to, Letter::UpTo { view, seq })));
            return;
        }
        let last = self.held.keys().next().map_or(self.issued, |first| first - 1);
        if self.next <= last {
            self.since = Some(now);
            let letter = Letter::Fetch { first: self.next, last };
            out.push(Out::Send(self.sequencer(), letter));
        }
    }

    fn give(&self, to: Node, first: u64, last: u64, out: &mut Vec<Out>) {
        let wanted = self.past.iter().filter(|(seq, _)| (first..=last).contains(seq));
        out.extend(wanted.map(|(seq, slot)| {
            Out::Send(to, Letter::Deliver { view: self.view, seq: *seq, slot: slot.clone() })
        }));
    }

    fn others(&self) -> impl Iterator<Item = Node> + use<> {
        let own = self.own;
        self.members.clone().into_iter().filter(move |it| *it != own)
    }
}
