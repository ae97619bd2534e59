//! A server from which nothing comes, although the node asks it: the connection is made again.
//!
//! In: the own signs of life, the number of messages that have come. Out: when it is time to ask
//! the server (`order` does), and a new connection. A member is awake for its signs of life, so it
//! counts those, and no timer wakes it. The client library has a ping for the same, whose timer
//! would; it remains as the last resort.

use async_nats::Client;
use async_nats::connection::State;
use monitor_cluster::bus::entry::EntryBody;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// Number of signs of life after which the server is asked, if there are several servers: a
/// consumer may be lost with one of them.
const QUIET_SIGNS: u32 = 1;
/// The same for one server, with which the connection is lost too.
const QUIET_SIGNS_OF_ONE: u32 = 3;
/// The servers answer the questions of all members one after the other, so that of many each asks
/// less often: after one more sign of life for this number.
const MEMBERS_OF_SIGN: usize = 1024;
/// After this time a node that gives no signs of life asks.
const QUIET: Duration = Duration::from_secs(5);
/// The same for one that has given some, and may give none now.
const LONG_QUIET: Duration = Duration::from_secs(20);
/// That is at least this time for each sign that is waited for.
const LONG_QUIET_OF_SIGN: Duration = Duration::from_secs(5);
/// A server from which nothing comes for as long as it takes to ask it so often is lost.
const QUESTIONS: u32 = 2;

/// After how many signs of life the server is asked.
#[derive(Clone)]
pub struct QuietSigns {
    has_election: bool,
    n_members: Arc<AtomicUsize>,
}

impl QuietSigns {
    /// Of a cluster with this number of members.
    pub fn new(has_election: bool, n_members: usize) -> Self {
        Self { has_election, n_members: Arc::new(AtomicUsize::new(n_members)) }
    }

    /// The members at a position were read.
    pub fn set_members(&self, n_members: usize) {
        self.n_members.store(n_members, Ordering::Relaxed);
    }

    /// A member came or went.
    pub fn note(&self, body: &EntryBody) {
        let change = |count: usize| match body {
            EntryBody::Joined { since: None, .. } => Some(count.saturating_add(1)),
            EntryBody::Left { .. } | EntryBody::Removed { .. } => Some(count.saturating_sub(1)),
            _ => None,
        };
        // One task changes it. Nothing has changed, if this fails.
        let _same = self.n_members.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    }

    /// Number of signs.
    fn count(&self) -> u32 {
        let least = if self.has_election { QUIET_SIGNS } else { QUIET_SIGNS_OF_ONE };
        let of_many = self.n_members.load(Ordering::Relaxed) / MEMBERS_OF_SIGN;
        least.max(u32::try_from(of_many).unwrap_or(u32::MAX))
    }
}

/// Waits until it is time to ask the server: for this number of signs of life.
pub async fn quiet(signs_until: &QuietSigns, signs: &mut watch::Receiver<Vec<u8>>) {
    let n_signs = signs_until.count();
    let limit = match signs.borrow_and_update().is_empty() {
        true => QUIET,
        false => LONG_QUIET.max(LONG_QUIET_OF_SIGN.saturating_mul(n_signs)),
    };
    let some = async {
        for _ in 0..n_signs {
            if signs.changed().await.is_err() {
                // The bus is gone, and so is this task soon.
                std::future::pending::<()>().await;
            }
        }
    };
    // The end of either is that time.
    let _ = tokio::time::timeout(limit, some).await;
}

/// Makes the connection again where nothing comes, until the bus is gone.
pub async fn reconnect(
    client: Client,
    signs_until: QuietSigns,
    mut signs: watch::Receiver<Vec<u8>>,
) {
    let statistics = client.statistics();
    let mut silence = Silence::default();
    loop {
        quiet(&signs_until, &mut signs).await;
        if client.connection_state() != State::Connected {
            // It connects by itself; a request to do so would be carried out after that.
            silence = Silence::default();
            continue;
        }
        if !silence.is_lost(statistics.in_messages.load(Ordering::Relaxed)) {
            continue;
        }
        tracing::info!("bus: nothing comes from the server; connecting again");
        // Fails only if the connection is closed for good.
        if let Err(error) = client.force_reconnect().await {
            return tracing::debug!("connection: {error}");
        }
    }
}

/// For how many questions nothing has come.
#[derive(Default)]
struct Silence {
    n_messages: u64,
    n_questions: u32,
}

impl Silence {
    /// Whether the server is lost, by the number of messages that have come until now.
    fn is_lost(&mut self, n_messages: u64) -> bool {
        let is_silent = std::mem::replace(&mut self.n_messages, n_messages) == n_messages;
        self.n_questions = if is_silent { self.n_questions + 1 } else { 0 };
        let is_lost = self.n_questions >= QUESTIONS;
        if is_lost {
            self.n_questions = 0;
        }
        is_lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{Agent, AgentOptions, Partition, TestSite, has_server};
    use monitor_cluster::bus::entry::{FORMATS, Incarnation, LedgerId};
    use std::time::Duration;

    /// Less than the ping of the client library takes.
    const DEADLINE: Duration = Duration::from_secs(45);

    /// Neither end sees that: the member is dead for the others, and must connect again by itself.
    #[test]
    fn a_member_whose_connection_is_forgotten_in_between_comes_back() {
        if !has_server() {
            return;
        }
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let mut site = TestSite::write(1, "n[1-2]", "n1");
            site.start();
            let mut network = Partition::default();
            let address = network.forward(site.servers[0].address).await.unwrap();
            let mut bus = site.options("n2");
            bus.connection.servers = vec![format!("tls://{address}")];
            let ledger = site.folder.join("nodes/n2/ledger");
            let service = site.agent("n1");
            let _member = Agent::start("n2", AgentOptions::new(bus, ledger));
            let members = async |n_members| {
                let seen = service.until(|view| view.n_members == n_members);
                let seen = tokio::time::timeout(DEADLINE, seen).await;
                seen.unwrap_or_else(|_| panic!("n1 does not see {n_members} members"));
            };
            members(2).await;
            network.forget();
            members(1).await;
            members(2).await;
        });
    }

    #[test]
    fn of_many_members_each_asks_less_often() {
        let count = |has_election, n_members| QuietSigns::new(has_election, n_members).count();
        assert_eq!([3, 4000, 10_000].map(|n| count(false, n)), [3, 3, 9]);
        assert_eq!([3, 4000, 10_000].map(|n| count(true, n)), [1, 3, 9]);
        let signs = QuietSigns::new(false, 4095);
        let incarnation = Incarnation(1);
        assert_eq!(signs.count(), 3);
        signs.note(&EntryBody::Joined {
            incarnation,
            ledger: LedgerId(1),
            since: None,
            formats: FORMATS,
            aggregators: String::new(),
        });
        assert_eq!(signs.count(), 4);
        signs.note(&EntryBody::Left { incarnation });
        assert_eq!(signs.count(), 3);
        signs.set_members(8192);
        assert_eq!(signs.count(), 8);
    }

    #[test]
    fn a_server_is_lost_after_two_questions_and_a_message_ends_a_silence() {
        let mut silence = Silence::default();
        let lost = [5, 5, 6, 6, 6, 6].map(|n| silence.is_lost(n));
        assert_eq!(lost, [false, false, false, false, true, false]);
    }
}
