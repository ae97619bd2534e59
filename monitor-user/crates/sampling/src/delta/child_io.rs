//! I/O of children that the kernel adds to the process that waits for them, counted once.
//!
//! In: the processes that are gone, with the I/O reported for them so far. Out: reduced deltas of
//! their parents. Two rules:
//!
//! 1. I/O reported for a living child is its own. When it ends, the counters of its parent jump by
//!    at least that amount, which is subtracted from the parent's delta. The jump may come one
//!    sample late, as a pass over all processes takes time. Without a jump no process waited.
//! 2. I/O of a child after its last sample is reported for its parent, whose counters include it
//!    already, unless the parent's counters are too small for that.
//!
//! A parent that ends together with its child passes its credit on to its own parent.

use super::account::{Account, Io, State, io};
use crate::parents::ParentIndex;
use monitor_model::{Identity, Pid};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// A process that is gone.
#[derive(Debug)]
pub struct Gone {
    /// Its identity.
    pub id: Identity,
    /// The process id of its parent.
    pub parent: Option<Pid>,
    /// Its counters at its last sample, as far as not yet subtracted from the parent.
    pub known: Io,
    /// Credit passed on by children that ended together with it.
    pub inherited: Io,
}

/// I/O to subtract from the parent's growth, which has not covered it yet.
#[derive(Debug)]
struct ChildIoCredit {
    parent: Identity,
    amount: Io,
    /// Subtracted in addition if the parent's growth covers it: a child that briefly outlived its
    /// parent was waited for by another process.
    inherited: Io,
}

/// The credits that wait for the next sample.
#[derive(Debug, Default)]
pub struct ChildIoCredits {
    pending: Vec<ChildIoCredit>,
}

type Accounts = HashMap<Identity, Account>;

/// Youngest first: children before their parents.
type Queue = BTreeMap<Reverse<(u64, Pid)>, Gone>;

impl ChildIoCredits {
    /// Reduces the growth of this sample.
    pub fn settle(&mut self, gone: Vec<Gone>, accounts: &mut Accounts, parents: &ParentIndex) {
        let mut queue: Queue = gone.into_iter().map(|it| (queue_key(it.id), it)).collect();
        for credit in std::mem::take(&mut self.pending) {
            // The second attempt: if the growth does not cover it now, no process waited.
            let _ = subtract(&credit, accounts, &mut queue);
        }
        while let Some((_, child)) = queue.pop_first() {
            let Some(parent) = child.parent.and_then(|pid| parents.parent_with_pid(pid, child.id))
            else {
                continue;
            };
            let Gone { id, known, inherited, .. } = child;
            let mut credit = ChildIoCredit { parent, amount: known, inherited };
            if subtract(&credit, accounts, &mut queue) {
                (credit.amount, credit.inherited) = (Io::default(), Io::default());
            }
            credit.amount = sum(&credit.amount, &absorb(id, parent, accounts));
            if credit.amount != Io::default() {
                self.pending.push(credit);
            }
        }
    }
}

fn queue_key(id: Identity) -> Reverse<(u64, Pid)> {
    Reverse((id.start.0, id.pid))
}

/// The first rule; returns whether the credit is settled.
fn subtract(credit: &ChildIoCredit, accounts: &mut Accounts, queue: &mut Queue) -> bool {
    let whole = sum(&credit.amount, &credit.inherited);
    let Some(parent) = accounts.get_mut(&credit.parent) else { return true };
    let amount = match parent.state {
        // It has no counters now: the process that waited for it has them.
        State::Dying | State::Lost => whole,
        _ if covers(&parent.grown, &whole) => whole,
        _ if covers(&parent.grown, &credit.amount) => credit.amount,
        _ => return false,
    };
    if matches!(parent.state, State::Living | State::Ended) {
        for (at, amount) in amount.iter().enumerate() {
            parent.grown[at] -= amount;
            parent.unexplained[at] = parent.unexplained[at].saturating_sub(*amount);
        }
    } else {
        parent.credit = sum(&parent.credit, &amount);
    }
    // The counters of its own parent have jumped by this, too.
    if parent.state != State::Living && amount != Io::default() {
        let (id, parent) = (credit.parent, parent.parent);
        let none = || Gone { id, parent, known: Io::default(), inherited: Io::default() };
        let gone = queue.entry(queue_key(id)).or_insert_with(none);
        gone.inherited = sum(&gone.inherited, &amount);
    }
    true
}

/// The second rule, for an exit record; returns the amount that it could not absorb.
fn absorb(child: Identity, parent: Identity, accounts: &mut Accounts) -> Io {
    let ended = accounts.get(&child).filter(|it| it.state == State::Ended);
    let Some(amount) = ended.map(|it| io(&it.grown)) else { return Io::default() };
    let Some(waiter) = accounts.get_mut(&parent) else { return Io::default() };
    // A parent that is gone has it for sure: the kernel names it as the process that waited.
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

/// Whether all seven counters are large enough: they jump at once.
fn covers(counters: &[u64], amount: &Io) -> bool {
    counters.iter().zip(amount).all(|(counter, amount)| counter >= amount)
}
