//! What a node asks the server for: the stream of the order, and its members.
//!
//! In: a connection. Out: values of the bus, or an error that says which question failed.

use super::consumer::{Deliveries, consume};
use super::failure::{Failed, failed};
use super::streams::{LEASE_KEYS, MEMBER_KEYS, STREAM, Streams};
use super::subject;
use async_nats::HeaderMap;
use async_nats::header::{NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, NATS_MESSAGE_ID};
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::context::{GetStreamError, GetStreamErrorKind};
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{LastRawMessageError, LastRawMessageErrorKind, Stream};
use async_nats::jetstream::{Context, kv};
use futures_util::StreamExt;
use monitor_cluster::bus::entry::{BusEntry, EntryBody, Seq, StreamTime};
use monitor_cluster::bus::{BaseCause, BusEvent, MemberRecord, OwnRecord};
use monitor_model::Ns;
use monitor_sys::clock;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The server, as this node uses it.
#[derive(Clone)]
pub struct Server {
    pub jetstream: Context,
    pub stream: Stream,
    members: kv::Store,
    /// The keys of leases, only on nodes that serve the cluster.
    pub leases: Option<kv::Store>,
}

/// By what an entry is recognized at its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryMark {
    pub seq: Seq,
    pub stamp: StreamTime,
    /// What its sender sent for the server to recognize copies.
    pub id: Option<String>,
}

/// The stream as its leader has it.
pub struct OrderState {
    /// The oldest position.
    pub first: Seq,
    /// The last position.
    pub last: Seq,
    /// The server that leads it, if there are several.
    pub leader: Option<String>,
}

/// An answer of JetStream, as far as it is an error.
#[derive(Default, Deserialize)]
struct ApiAnswer {
    error: Option<ApiError>,
}

#[derive(Deserialize)]
struct ApiError {
    #[serde(default)]
    description: String,
}

/// The members at a position.
pub struct Base {
    pub as_of: Seq,
    /// The entry there.
    pub last: Option<EntryMark>,
    members: Vec<MemberRecord>,
}

impl Base {
    /// Number of members.
    pub fn count(&self) -> usize {
        self.members.len()
    }

    /// The event that reports them.
    pub fn event(self, cause: BaseCause) -> BusEvent {
        BusEvent::Base { as_of: self.as_of, members: self.members, cause }
    }
}

/// An entry about a node, at its position.
pub struct MemberEntry {
    pub seq: Seq,
    pub entry: BusEntry,
    /// The position of the one before it on its subject, as its sender knew it and the server
    /// checked it; 0 if there was none.
    before: Option<Seq>,
}

impl Server {
    /// Finds the stream and the keys, or makes them.
    pub async fn open(jetstream: Context, streams: &Streams) -> Result<Self, Failed> {
        let question = "stream MONCMD";
        let config = streams.order();
        let stream = match streams.makes {
            true => jetstream.get_or_create_stream(config).await.map_err(failed(question))?,
            false => found(jetstream.get_stream(STREAM).await).map_err(failed(question))?,
        };
        streams.check_cluster(&stream.cached_info().config)?;
        let members = open_keys(&jetstream, MEMBER_KEYS, streams).await?;
        let leases = match streams.makes {
            true => Some(open_keys(&jetstream, LEASE_KEYS, streams).await?),
            false => None,
        };
        Ok(Self { jetstream, stream, members, leases })
    }

    /// The stream of the order with the keys of nodes, as a node without leases has them.
    pub async fn of_stream(jetstream: Context, stream: Stream) -> Result<Self, Failed> {
        let members = jetstream.get_key_value(MEMBER_KEYS).await.map_err(failed(MEMBER_KEYS))?;
        Ok(Self { jetstream, stream, members, leases: None })
    }

    /// Whether several servers keep the stream, and elect the one that leads it. A server that
    /// keeps it alone says so too that it is in a cluster (`ClusterInfo`, 2.9.10 to 2.12), with
    /// itself as the leader.
    pub fn has_election(&self) -> bool {
        self.stream.cached_info().config.num_replicas > 1
    }

    /// Makes a consumer of the entries whose subject fits.
    pub async fn consume(
        &self,
        question: &'static str,
        what: (DeliverPolicy, &str),
    ) -> Result<Deliveries, Failed> {
        consume((&self.jetstream, &self.stream), question, what).await
    }

    /// The oldest and the last position.
    pub async fn range(&self) -> Result<(Seq, Seq), Failed> {
        let OrderState { first, last, .. } = self.state().await?;
        Ok((first, last))
    }

    /// The positions of the stream, and its leader.
    pub async fn state(&self) -> Result<OrderState, Failed> {
        let info = self.stream.get_info().await.map_err(failed("state of the stream"))?;
        let (first, last) = (Seq(info.state.first_sequence), Seq(info.state.last_sequence));
        Ok(OrderState { first, last, leader: info.cluster.and_then(|it| it.leader) })
    }

    /// Asks the server that leads all servers, which makes consumers: it alone answers this. What
    /// it says of the account, the client library cannot read from nats-server 2.9.10.
    pub async fn find_leader(&self) -> Result<(), Failed> {
        let question = "leader of the servers";
        let asked = self.jetstream.client().request("$JS.API.INFO", "".into()).await;
        let answer: ApiAnswer =
            serde_json::from_slice(&asked.map_err(failed(question))?.payload).unwrap_or_default();
        answer.error.map_or(Ok(()), |error| Err(failed(question)(error.description)))
    }

    /// By what the entry at a position is recognized; `None` if there is none.
    pub async fn mark(&self, seq: Seq) -> Result<Option<EntryMark>, Failed> {
        if seq == Seq(0) {
            return Ok(None);
        }
        let message = self.stream.get_raw_message(seq.0).await;
        let Some(message) = if_found("entry at a position", message)? else { return Ok(None) };
        let id = message.headers.get(NATS_MESSAGE_ID).map(|id| id.as_str().to_owned());
        Ok(Some(EntryMark { seq, stamp: stream_time(message.time), id }))
    }

    /// The members at the position that was the last one when they were asked for.
    pub async fn base(&self) -> Result<Base, Failed> {
        let (_, as_of) = self.range().await?;
        self.base_at(as_of).await
    }

    /// The members at a position that was the last one not long ago.
    pub async fn base_at(&self, as_of: Seq) -> Result<Base, Failed> {
        let last = self.mark(as_of).await?;
        let mut claims = self.last_entries(subject::MEMBERS).await?;
        let mut removals = self.last_entries(subject::REMOVALS).await?;
        self.uncover(&mut claims, as_of).await?;
        self.uncover(&mut removals, as_of).await?;
        let members = claims.values().filter_map(|claim| {
            let member = member(claim, removals.get(&claim.entry.origin))?;
            // An announcement after the position comes in the order.
            let is_draining = member.is_draining && claim.seq <= as_of;
            Some(MemberRecord { is_draining, ..member })
        });
        let members = members.collect();
        Ok(Base { as_of, last, members })
    }

    /// Replaces entries that came after a position by what they hide: the last one until then,
    /// about the same node. One that repeats what was there hides nothing. Where many nodes join,
    /// some do so during each reading of all, and most of them hide nothing: a question for each
    /// would be too many.
    async fn uncover(
        &self,
        entries: &mut BTreeMap<String, MemberEntry>,
        as_of: Seq,
    ) -> Result<(), Failed> {
        let later = entries.extract_if(.., |_, it| it.since() > as_of);
        let later: Vec<(String, MemberEntry)> = later.collect();
        for (node, entry) in later {
            let hidden = self.hidden(entry, as_of).await?;
            entries.extend(hidden.map(|it| (node, it)));
        }
        Ok(())
    }

    /// The last entry on the subject of a later one, up to a position.
    async fn hidden(&self, later: MemberEntry, as_of: Seq) -> Result<Option<MemberEntry>, Failed> {
        let mut entry = later;
        while entry.since() > as_of {
            let Some(before) = entry.before.filter(|it| *it > Seq(0)) else { return Ok(None) };
            // The server has dropped none that counts: members repeat theirs before.
            let Some(found) = self.member_entry(before).await? else { return Ok(None) };
            entry = found;
        }
        Ok(Some(entry))
    }

    /// The entry about a node at a position.
    async fn member_entry(&self, seq: Seq) -> Result<Option<MemberEntry>, Failed> {
        let message = self.stream.get_raw_message(seq.0).await;
        let message = if_found("entry about a node", message)?;
        Ok(message.as_ref().and_then(MemberEntry::from_stored))
    }

    /// The last entry about each node, on subjects with a wildcard.
    async fn last_entries(&self, filter: &str) -> Result<BTreeMap<String, MemberEntry>, Failed> {
        let about = |it: MemberEntry| {
            let node = match &it.entry.body {
                EntryBody::Removed { node, .. } => node.clone(),
                _ => it.entry.origin.clone(),
            };
            (node, it)
        };
        let entries = self.entries(DeliverPolicy::LastPerSubject, filter).await?;
        Ok(entries.into_iter().map(about).collect())
    }

    /// The entries about members that there are, in their order.
    async fn entries(
        &self,
        which: DeliverPolicy,
        filter: &str,
    ) -> Result<Vec<MemberEntry>, Failed> {
        let question = "members";
        let Deliveries { mut n_pending, mut messages, .. } =
            self.consume(question, (which, filter)).await?;
        let mut found = Vec::new();
        while n_pending > 0 {
            let Some(message) = messages.next().await else { break };
            let message = message.map_err(failed(question))?;
            let about = message.info().map_err(failed(question))?;
            n_pending = about.pending;
            let seq = Seq(about.stream_sequence);
            let entry = subject::read_entry(&message.subject, &message.payload);
            let before = message.headers.as_ref().and_then(before);
            found.extend(entry.map(|entry| MemberEntry { seq, entry, before }));
        }
        Ok(found)
    }

    /// The last entry on a subject.
    pub async fn last_entry(&self, subject: &str) -> Result<Option<MemberEntry>, Failed> {
        let message = self.stream.get_last_raw_message_by_subject(subject).await;
        let message = if_found("last entry about the node", message)?;
        Ok(message.as_ref().and_then(MemberEntry::from_stored))
    }

    /// The membership of a node.
    pub async fn member(&self, node: &str) -> Result<Option<MemberRecord>, Failed> {
        let Some(claim) = self.last_entry(&subject::member(node)).await? else { return Ok(None) };
        let removal = self.last_entry(&subject::removed(node)).await?;
        Ok(member(&claim, removal.as_ref()))
    }

    /// Writes the node's key, and reads what the server has of it; the positions that it keeps only
    /// if they are wanted.
    pub async fn own_record(
        &self,
        node: &str,
        (asked, wants_kept): (Ns, bool),
    ) -> Result<OwnRecord, Failed> {
        let (key, question) = (subject::token(node), "key of the node");
        let revision = self.members.put(&key, "".into()).await.map_err(failed(question))?;
        let written = self.members.entry(&key).await.map_err(failed(question))?;
        // The stamp of another writer would be later: it says nothing of this question.
        let written = written.filter(|it| it.revision == revision);
        let written = written.ok_or("another one has written it").map_err(failed(question))?;
        let (stamp, stamped) = (stream_time(written.created), clock::boot());
        let kept = if wants_kept { Some(self.range().await?) } else { None };
        let member = self.member(node).await?;
        Ok(OwnRecord { asked, stamp, stamped, member, kept })
    }
}

/// The position before an entry on its subject, by the header that the server has checked.
fn before(headers: &HeaderMap) -> Option<Seq> {
    headers.get(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE)?.as_str().parse().ok().map(Seq)
}

impl MemberEntry {
    /// Of a message of the stream; `None` if it is no entry.
    fn from_stored(message: &StreamMessage) -> Option<Self> {
        let entry = subject::read_entry(&message.subject, &message.payload)?;
        Some(Self { seq: Seq(message.sequence), entry, before: before(&message.headers) })
    }

    /// Where what it says has begun.
    fn since(&self) -> Seq {
        match self.entry.body {
            EntryBody::Joined { since: Some(since), .. } | EntryBody::Draining { since, .. } => {
                since
            }
            _ => self.seq,
        }
    }
}

/// The membership that the last entries about a node make.
fn member(claim: &MemberEntry, removal: Option<&MemberEntry>) -> Option<MemberRecord> {
    let is_draining = matches!(claim.entry.body, EntryBody::Draining { .. });
    let (incarnation, ledger, formats, aggregators) = match &claim.entry.body {
        EntryBody::Joined { incarnation, ledger, formats, aggregators, .. }
        | EntryBody::Draining { incarnation, ledger, formats, aggregators, .. } => {
            (*incarnation, *ledger, *formats, aggregators.clone())
        }
        _ => return None,
    };
    let is_removed = removal.filter(|it| it.seq > claim.since()).is_some_and(|removal| {
        let EntryBody::Removed { incarnation: ended, .. } = &removal.entry.body else {
            return false;
        };
        *ended == incarnation
    });
    let (node, since) = (claim.entry.origin.clone(), claim.since());
    let record =
        MemberRecord { node, ledger, incarnation, since, is_draining, formats, aggregators };
    (!is_removed).then_some(record)
}

/// A time of the server.
pub fn stream_time(time: async_nats::datetime::DateTime) -> StreamTime {
    StreamTime(u64::try_from(time.unix_timestamp_nanos()).unwrap_or(0))
}

/// Finds a bucket of keys, or makes it.
async fn open_keys(
    jetstream: &Context,
    bucket: &'static str,
    streams: &Streams,
) -> Result<kv::Store, Failed> {
    if streams.makes {
        let stream = jetstream.get_or_create_stream(streams.keys(bucket)).await;
        stream.map(drop).map_err(failed(bucket))?;
    }
    jetstream.get_key_value(bucket).await.map_err(failed(bucket))
}

/// A message of the stream; `None` if it has none there.
fn if_found(
    question: &'static str,
    message: Result<StreamMessage, LastRawMessageError>,
) -> Result<Option<StreamMessage>, Failed> {
    match message {
        Ok(message) => Ok(Some(message)),
        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
        Err(error) => Err(failed(question)(error)),
    }
}

/// A stream, or why there is none.
fn found(stream: Result<Stream, GetStreamError>) -> Result<Stream, String> {
    stream.map_err(|error| match error.kind() {
        GetStreamErrorKind::JetStream(error) if error.code() == 404 => {
            "it does not exist yet: a node with cluster.removes_dead makes it".to_owned()
        }
        _ => error.to_string(),
    })
}
