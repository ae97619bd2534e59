//! I/O of children that the kernel adds to whoever waited for them, told once.
//!
//! In: who is gone, with what was told of its I/O before. Out: smaller growths. Two rules:
//!
//! 1. What was told of a child while it lived is its own. As it goes, its parent leaps by at
//!    least that much; so much of the parent's leap is not told. The leap may come one sample
//!    late, as a pass over all processes takes its time. If it does not come, nobody waited.
//! 2. What a child used after it was last seen is told with its parent, whose counters have it
//!    already, unless the parent's counters are too small to have it.
//!
//! A parent that goes with its child hands on what it owes to its own parent.

use super::{Account, Io, State};
use crate::kin::Kin;
use monitor_model::id::{Identity, Pid};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// One that is gone.
#[derive(Debug)]
pub struct Gone {
    /// Who.
    pub id: Identity,
    /// Its parent, by number.
    pub parent: Option<Pid>,
    /// What its counters were when it was last seen alive, as far as that is still to be settled.
    pub known: Io,
    /// What children that went with it have handed on.
    pub handed: Io,
}

/// A debt that the parent's growth has not covered yet.
#[derive(Debug)]
struct Owed {
    parent: Identity,
    amount: Io,
    /// Comes on top, if the parent's growth has room for it: a child that outlived its parent by
    /// a moment was waited for by somebody else.
    handed: Io,
}

/// The debts that wait for the next sample.
#[derive(Debug, Default)]
pub struct Debts {
    owed: Vec<Owed>,
}

type Accounts = HashMap<Identity, Account>;

/// Youngest first: children before their parents.
type Queue = BTreeMap<Reverse<(u64, Pid)>, Gone>;

impl Debts {
    /// Lessens the growths of this sample.
    pub fn settle(&mut self, gone: Vec<Gone>, accounts: &mut Accounts, kin: &Kin) {
        let mut queue: Queue = gone.into_iter().map(|it| (place(it.id), it)).collect();
        for owed in std::mem::take(&mut self.owed) {
            // It had its second chance; if it is not covered now, nobody waited.
            let _ = pay(&owed, accounts, &mut queue);
        }
        while let Some((_, child)) = queue.pop_first() {
            let Some(parent) = child.parent.and_then(|pid| kin.older(pid, child.id)) else {
                continue;
            };
            let Gone { id, known, handed, .. } = child;
            let mut owed = Owed { parent, amount: known, handed };
            if pay(&owed, accounts, &mut queue) {
                (owed.amount, owed.handed) = (Io::default(), Io::default());
            }
            owed.amount = sum(&owed.amount, &absorb(id, parent, accounts));
            if owed.amount != Io::default() {
                self.owed.push(owed);
            }
        }
    }
}

fn place(id: Identity) -> Reverse<(u64, Pid)> {
    Reverse((id.start.0, id.pid))
}

/// The first rule; says whether it was done.
fn pay(owed: &Owed, accounts: &mut Accounts, queue: &mut Queue) -> bool {
    let whole = sum(&owed.amount, &owed.handed);
    let Some(parent) = accounts.get_mut(&owed.parent) else { return true };
    let amount = match parent.state {
        // It has no numbers of its own now: who waited for it has them.
        State::Dying | State::Lost => whole,
        _ if covers(&parent.grown, &whole) => whole,
        _ if covers(&parent.grown, &owed.amount) => owed.amount,
        _ => return false,
    };
    if matches!(parent.state, State::Living | State::Ended) {
        for (at, amount) in amount.iter().enumerate() {
            parent.grown[at] -= amount;
            parent.unexplained[at] = parent.unexplained[at].saturating_sub(*amount);
        }
    } else {
        parent.owes = sum(&parent.owes, &amount);
    }
    // Its own parent has leapt by this too.
    if parent.state != State::Living && amount != Io::default() {
        let (id, parent) = (owed.parent, parent.parent);
        let none = || Gone { id, parent, known: Io::default(), handed: Io::default() };
        let gone = queue.entry(place(id)).or_insert_with(none);
        gone.handed = sum(&gone.handed, &amount);
    }
    true
}

/// The second rule, for a final record; gives what it could not do it for.
fn absorb(child: Identity, parent: Identity, accounts: &mut Accounts) -> Io {
    let ended = accounts.get(&child).filter(|it| it.state == State::Ended);
    let Some(amount) = ended.map(|it| super::io(&it.grown)) else { return Io::default() };
    let Some(waiter) = accounts.get_mut(&parent) else { return Io::default() };
    // One that is gone itself is sure to have it: the kernel names it as the one that waited.
    let is_gone = matches!(waiter.state, State::Dying | State::Lost);
    if !is_gone && !covers(&waiter.unexplained, &amount) {
        return amount;
    }
    for (at, amount) in amount.iter().enumerate() {
        waiter.unexplained[at] = waiter.unexplained[at].saturating_sub(*amount);
    }
    if let Some(account) = accounts.get_mut(&child) {
        account.grown[..amount.len()].fill(0);
    }
    Io::default()
}

fn sum(one: &Io, other: &Io) -> Io {
    std::array::from_fn(|at| one[at] + other[at])
}

/// All seven leap at once, so each must be large enough.
fn covers(counters: &[u64], amount: &Io) -> bool {
    counters.iter().zip(amount).all(|(counter, amount)| counter >= amount)
}
