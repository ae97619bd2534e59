//! Entries on their way to the stream, one after the other: a node's own order is kept.
//!
//! An entry is sent again, with the same id, until the server has acknowledged or refused it, or
//! its time is over. The last entry about a node is always that of its member: such an entry is
//! accepted only if no other one came since it was read.

use super::failure::TIMEOUT;
use super::order::OwnEntry;
use super::outlet::EventOutlet;
use super::server::{MemberEntry, Server};
use super::subject;
use async_nats::header::{NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, NATS_MESSAGE_ID};
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::{HeaderMap, HeaderValue};
use monitor_cluster::bus::entry::{BusEntry, EntryBody, EntryId, Seq};
use monitor_cluster::bus::{BusEvent, UnsequencedCause};
use monitor_model::Ns;
use monitor_sys::clock;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Time between two attempts.
const RETRY: Duration = Duration::from_millis(100);
/// How long the acknowledgement of a command is awaited before it is sent again: while a stream
/// has no leader, nothing is answered. An entry about a node is several questions.
const COMMAND: Duration = Duration::from_millis(750);

/// An entry, and until when it is sent again.
pub struct Publication {
    pub entry: BusEntry,
    pub give_up: Ns,
}

/// What an attempt has shown.
enum Attempt {
    /// It has this position.
    Sequenced(Seq),
    /// It has no position, and will not get one.
    Unsequenced(UnsequencedCause),
    /// This attempt was refused; another one may succeed.
    Refused(String),
    /// It is not known whether it has a position.
    Unknown(String),
}

/// What publishes the entries of a node.
pub struct Publisher {
    pub server: Server,
    pub outlet: EventOutlet,
    /// The last one that came in the order.
    pub in_order: watch::Receiver<OwnEntry>,
}

impl Publisher {
    /// Publishes entries until the bus is gone.
    pub async fn publish_all(self, mut publications: mpsc::Receiver<Publication>) {
        while let Some(publication) = publications.recv().await {
            let id = publication.entry.id;
            let event = match self.publish(&publication).await {
                Attempt::Sequenced(seq) => BusEvent::Sequenced { id, seq },
                Attempt::Unsequenced(why) => BusEvent::Unsequenced { id, why },
                Attempt::Refused(why) => {
                    BusEvent::Unsequenced { id, why: UnsequencedCause::Refused(why) }
                }
                Attempt::Unknown(why) => {
                    tracing::warn!("the server has not acknowledged entry {}: {why}", id.number);
                    continue;
                }
            };
            self.outlet.put(event).await;
        }
    }

    /// Makes attempts until one is final; the result of the last one.
    async fn publish(&self, Publication { entry, give_up }: &Publication) -> Attempt {
        let mut is_unknown = false;
        let time_limit = match entry.body {
            EntryBody::Command(_) => COMMAND,
            _ => 2 * TIMEOUT,
        };
        loop {
            let attempt = attempt(&self.server, entry);
            let attempt = match tokio::time::timeout(time_limit, attempt).await {
                Ok(attempt) => attempt,
                Err(_) => Attempt::Unknown("no answer".to_owned()),
            };
            let why = match attempt {
                Attempt::Refused(why) => why,
                Attempt::Unknown(why) => {
                    is_unknown = true;
                    why
                }
                // An earlier attempt may have got a position that the server no longer shows.
                Attempt::Unsequenced(_) if is_unknown => {
                    return Attempt::Unknown("refused".to_owned());
                }
                last => return last,
            };
            if clock::boot() >= *give_up {
                return if is_unknown { Attempt::Unknown(why) } else { Attempt::Refused(why) };
            }
            tokio::time::sleep(RETRY).await;
            if let Some(seq) = self.position(entry.id) {
                return Attempt::Sequenced(seq);
            }
        }
    }

    /// The position of an entry that came in the order. It is not sent again: if the server has
    /// lost it since then, it would get another position after its outcomes were reported.
    fn position(&self, id: EntryId) -> Option<Seq> {
        let (own, seq) = (*self.in_order.borrow())?;
        (own == id).then_some(seq)
    }
}

async fn attempt(server: &Server, entry: &BusEntry) -> Attempt {
    let mut headers = HeaderMap::new();
    headers.insert(NATS_MESSAGE_ID, message_id(entry).as_str());
    if !matches!(entry.body, EntryBody::Command(_)) {
        let last = match server.last_entry(&subject::entry(entry)).await {
            Ok(last) => last,
            Err(error) => return Attempt::Refused(error.to_string()),
        };
        if let Some(attempt) = compare(server, entry, last.as_ref()).await {
            return attempt;
        }
        let expected = last.map_or(0, |last| last.seq.0);
        headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, HeaderValue::from(expected));
    }
    let bytes = entry.to_bytes().into();
    let sent = server.jetstream.publish_with_headers(subject::entry(entry), headers, bytes).await;
    let acknowledged = match sent {
        Ok(acknowledgement) => acknowledgement.await,
        Err(error) => Err(error),
    };
    match acknowledged {
        Ok(acknowledgement) => Attempt::Sequenced(Seq(acknowledgement.sequence)),
        Err(error) => failed_attempt(&error),
    }
}

fn failed_attempt(error: &PublishError) -> Attempt {
    let why = error.to_string();
    match error.kind() {
        PublishErrorKind::MaxPayloadExceeded => {
            Attempt::Unsequenced(UnsequencedCause::Refused(why))
        }
        // JetStream is not ready, or another entry about this node was faster.
        PublishErrorKind::StreamNotFound | PublishErrorKind::WrongLastSequence => {
            Attempt::Refused(why)
        }
        _ => Attempt::Unknown(why),
    }
}

/// Compares an entry about a node with the last one: whether it is that one, or may not follow
/// it.
async fn compare(server: &Server, entry: &BusEntry, last: Option<&MemberEntry>) -> Option<Attempt> {
    let last = last?;
    if last.entry.id == entry.id {
        return Some(Attempt::Sequenced(last.seq));
    }
    if let EntryBody::Removed { incarnation, .. } = &entry.body {
        // A late removal of an earlier stay must not hide that of the last one.
        let is_late = matches!(last.entry.body,
            EntryBody::Removed { incarnation: ended, .. } if ended >= *incarnation);
        let why = "this stay of the node has been ended already".to_owned();
        return is_late.then_some(Attempt::Unsequenced(UnsequencedCause::Refused(why)));
    }
    let member = match server.member(&entry.origin).await {
        Ok(member) => member,
        Err(error) => return Some(Attempt::Refused(error.to_string())),
    };
    match (&entry.body, member) {
        (EntryBody::Joined { ledger, .. }, Some(member)) if member.ledger != *ledger => {
            Some(Attempt::Unsequenced(UnsequencedCause::NameInUse))
        }
        (EntryBody::Left { incarnation } | EntryBody::Draining { incarnation, .. }, member)
            if member.as_ref().map(|it| it.incarnation) != Some(*incarnation) =>
        {
            let why = "this stay of the node has ended already".to_owned();
            Some(Attempt::Unsequenced(UnsequencedCause::Refused(why)))
        }
        _ => None,
    }
}

/// By this the server recognizes copies.
fn message_id(entry: &BusEntry) -> String {
    let origin = subject::token(&entry.origin);
    format!("{origin}-{:x}-{}", entry.id.start, entry.id.number)
}
