//! The accountings of connections: the usage of the child processes of their clients.
//!
//! In: consumers that come back from readings. Out: replies. Without pending sums an accounting
//! reads once a second, so that no child is missed. A sum waits for the exit records of ended
//! processes, up to a limit.

use super::{Answer, MonitorKey, MonitorOutput, reading_shares::ReadingShares};
use monitor_model::{Capability, Ns, Pid, Refusal};
use monitor_protocol::{Conn, answer::Accounting, call::Tag};
use monitor_sampling::child_usage::{self, ChildUsage};
use monitor_sampling::consumer::Consumer;
use std::collections::BTreeMap;

/// Interval between readings without pending sums.
pub const EVERY: Ns = Ns(1_000_000_000);
/// Interval between readings while a sum waits for exit records.
const SETTLE_EVERY: Ns = Ns(5_000_000);
/// Maximum time that a sum waits for exit records.
const SETTLE: Ns = Ns(2_000_000_000);

/// The accountings of all connections.
#[derive(Default)]
pub struct Accountings(pub BTreeMap<MonitorKey, ConnectionAccounting>);

impl Accountings {
    /// When the next reading is due.
    pub fn due(&self, readings: &ReadingShares) -> Option<Ns> {
        self.0.values().filter_map(|it| it.ready_at(readings)).min()
    }

    /// The consumers that are due, for a reading.
    pub fn take_due(&mut self, now: Ns, readings: &ReadingShares) -> Vec<(MonitorKey, Consumer)> {
        let due =
            self.0.iter_mut().filter(|(_, it)| it.ready_at(readings).is_some_and(|at| at <= now));
        due.filter_map(|(key, it)| Some((*key, it.take_consumer()?))).collect()
    }

    /// The capabilities that they need.
    pub fn capabilities(&self) -> &'static [Capability] {
        if self.0.is_empty() { &[] } else { &child_usage::CAPABILITIES }
    }

    /// Removes the accounting of a closed connection.
    pub fn close(&mut self, conn: Conn) {
        self.0.retain(|_, it| it.owner != conn);
    }

    /// Number of accountings of a user.
    pub fn count_of_user(&self, uid: u32) -> usize {
        self.0.values().filter(|it| it.uid == uid).count()
    }

    /// The accounting of a connection.
    pub fn by_conn(&mut self, conn: Conn) -> Option<&mut ConnectionAccounting> {
        self.0.values_mut().find(|it| it.owner == conn)
    }
}

/// The accounting of one connection.
pub struct ConnectionAccounting {
    pub owner: Conn,
    pub uid: u32,
    pub pid: u32,
    /// The consumer; `None` while it is at a reading.
    pub consumer: Option<Box<ChildUsage>>,
    pub next: Ns,
    /// The tag of the call `account`, until its reply.
    pub first: Option<Tag>,
    pub sums: Vec<PendingSum>,
}

/// A pending sum.
pub struct PendingSum {
    pub tag: Option<Tag>,
    pub child: Pid,
    pub called_at: Ns,
    /// Whether a reading was taken since the call.
    pub was_read: bool,
}

impl ConnectionAccounting {
    /// When its next reading is due.
    fn due(&self) -> Option<Ns> {
        self.consumer.is_some().then_some(self.next)
    }

    /// The same, when its user has credit.
    fn ready_at(&self, readings: &ReadingShares) -> Option<Ns> {
        Some(self.due()?.max(readings.ready_at(self.uid)?))
    }

    /// Takes its consumer for a reading.
    fn take_consumer(&mut self) -> Option<Consumer> {
        self.sums.iter_mut().for_each(|it| it.was_read = true);
        self.consumer.take().map(Consumer::ChildUsage)
    }

    /// Replies to the calls that wait for nothing more.
    pub fn reply_settled(&mut self, now: Ns, out: &mut Vec<MonitorOutput>) {
        let Some(consumer) = &mut self.consumer else { return };
        let to = self.owner;
        let backend = consumer.source().name().to_owned();
        let begun = Answer::Account(Accounting { pid: self.pid, backend });
        let first = self.first.take();
        out.extend(first.map(|tag| MonitorOutput::Reply { to, tag, answer: Ok(begun) }));
        let over = |it: &mut PendingSum| {
            it.was_read && (consumer.settled(it.child) || now.since(it.called_at) >= SETTLE)
        };
        let done: Vec<PendingSum> = self.sums.extract_if(.., over).collect();
        for PendingSum { tag, child, .. } in done {
            let answer = consumer.sum(child).map(|sum| Answer::Sum(Box::new(sum)));
            out.extend(tag.map(|tag| MonitorOutput::Reply { to, tag, answer }));
        }
        let pause = if self.sums.is_empty() { EVERY } else { SETTLE_EVERY };
        self.next = Ns(now.0.saturating_add(pause.0));
    }

    /// Refuses all pending calls after a failed reading.
    pub fn refuse_all(&mut self, refusal: &Refusal, out: &mut Vec<MonitorOutput>) {
        let sums = self.sums.drain(..).filter_map(|it| it.tag);
        let to = self.owner;
        let refused = |tag| MonitorOutput::Reply { to, tag, answer: Err(refusal.clone()) };
        out.extend(self.first.take().into_iter().chain(sums).map(refused));
    }
}
