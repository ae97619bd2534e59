//! The bus: what carries commands to many nodes in one order, and messages beside it.
//!
//! ```text
//!  multicast --> position in the order --> every port, in order --> execution where it is meant
//!  reply, send, publish ------------------> the ports concerned, at most once
//! ```
//!
//! What a port sends beside the order to another one comes in the order in which it was sent,
//! unless a connection was made again in between; it has no place among the entries.
//!
//! In: calls that never wait. Out: events, of `poll_event`. `local` joins ports of one process;
//! the crate `nats` joins daemons of many nodes. Time comes in as a value, on the boot clock.
//! What a node executes, and what a caller gets to know of it, is decided by `command`.

pub mod entry;
pub mod local;
pub mod membership;

use self::entry::StreamTime;
use self::entry::{BusEntry, CommandReply, EntryId, Incarnation, LedgerId, Seq, SequencedEntry};
use monitor_model::Ns;
use monitor_protocol::cluster::MessageFormats;
use std::task::{Context, Poll, Waker};

/// How long an entry with the same id as an earlier one is dropped: no sender repeats its entry
/// for longer than half of it.
pub const DUPLICATE_WINDOW: Ns = Ns(120_000_000_000);
/// How long a bus keeps entries at least, unless there are too many: a member repeats its entry
/// before that.
pub const RETENTION: Ns = Ns(24 * 3_600_000_000_000);
/// How many bytes of entries a bus keeps at most.
pub const RETENTION_BYTES: u64 = 256 << 20;

/// A node's connection to the bus.
///
/// An entry that was accepted keeps its position for good; every port gets all entries after its
/// first position, in order. After a pause of the connection a port may get an entry twice, and
/// lack entries that the bus no longer has: positions only increase, and have gaps.
pub trait Bus: Send {
    /// Sends an entry for the order; `Sequenced` or `Unsequenced` follows, or nothing if it is not
    /// known whether it has a position. A bus that is not reachable is tried again, with the
    /// same id, until `give_up`.
    fn multicast(&mut self, now: Ns, entry: BusEntry, give_up: Ns);

    /// Sends a reply to a node.
    fn reply(&mut self, to: &str, reply: CommandReply);

    /// Sends bytes to a node, and to no other.
    fn send(&mut self, to: &str, bytes: Vec<u8>);

    /// Publishes bytes to the ports that have subscribed.
    fn publish(&mut self, topic: Topic, bytes: Vec<u8>);

    /// Subscribes to what all nodes publish.
    fn subscribe(&mut self, topic: Topic);

    /// Ends a subscription.
    fn unsubscribe(&mut self, topic: Topic);

    /// Reads what the bus has of this node now; `OwnRecord` follows, unless it is not reachable.
    fn read_own_record(&mut self, now: Ns);

    /// Takes a lease, or renews it; `Lease` follows, unless the bus is not reachable.
    fn request_lease(&mut self, now: Ns, name: &str, duration: Ns);

    /// Releases a lease.
    fn release_lease(&mut self, name: &str);

    /// The next event; if there is none, the waker is called when there is one.
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<BusEvent>;

    /// Number of events that this port did not take in time, and of messages that found no room.
    fn n_lost(&self) -> u64;
}

/// What nodes publish beside the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// Roll-ups: a reading of each node, once a second.
    Sample,
    /// Requests of gateways for roll-ups.
    RollupRequest,
    /// Events of rules.
    Event,
    /// Heartbeats of members.
    Heartbeat,
}

/// A member of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRecord {
    /// The name of the node.
    pub node: String,
    /// Its ledger.
    pub ledger: LedgerId,
    /// Its stay.
    pub incarnation: Incarnation,
    /// Where the stay began.
    pub since: Seq,
    /// Whether it has announced that it leaves.
    pub is_draining: bool,
    /// The formats of messages that it reads.
    pub formats: MessageFormats,
    /// The nodes that may publish its readings with those of others, as a set; none if empty.
    pub aggregators: String,
}

/// What a bus reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusEvent {
    /// The members at a position. The first event of a port; another one follows where the bus
    /// no longer has entries that the port lacks, or has lost some.
    Base {
        /// The position.
        as_of: Seq,
        /// The members.
        members: Vec<MemberRecord>,
        /// What the position is to the entries that came before.
        cause: BaseCause,
    },
    /// The next entry of the order.
    Entry(SequencedEntry),
    /// An entry of this port has a position.
    Sequenced {
        /// The entry.
        id: EntryId,
        /// Its position.
        seq: Seq,
    },
    /// An entry of this port has no position, and never will.
    Unsequenced {
        /// The entry.
        id: EntryId,
        /// Why.
        why: UnsequencedCause,
    },
    /// A reply of a member.
    Reply {
        /// The member, as the bus vouches for it.
        from: String,
        /// The reply.
        reply: CommandReply,
    },
    /// What a node has sent to this one.
    Message {
        /// The node, as the bus vouches for it.
        from: String,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// What a node has published.
    Published {
        /// The node, as the bus vouches for it.
        from: String,
        /// The topic.
        topic: Topic,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The bus has lost the connection of a node; a bus that does not notice that reports none.
    /// For ports that have subscribed to heartbeats.
    Disconnected {
        /// The node.
        node: String,
    },
    /// What the bus has of this node.
    OwnRecord(OwnRecord),
    /// Result of a request for a lease.
    Lease {
        /// The lease.
        name: String,
        /// The lease, if this port has it.
        grant: Option<LeaseGrant>,
    },
}

/// Why a bus reports members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseCause {
    /// The port begins.
    Start,
    /// The bus no longer has the next entries of the port: they have positions, but do not come.
    Gap,
    /// The bus has lost entries that it had accepted: others may have their positions now.
    Lost,
}

/// Why an entry has no position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnsequencedCause {
    /// The name of the node is that of a member with another ledger.
    NameInUse,
    /// The bus refused it; why.
    Refused(String),
}

/// What the bus has of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnRecord {
    /// When the node asked.
    pub asked: Ns,
    /// A time on the stream's clock between `asked` and `stamped`.
    pub stamp: StreamTime,
    /// When the node knew the stamp.
    pub stamped: Ns,
    /// Its membership.
    pub member: Option<MemberRecord>,
    /// The oldest and the last position that the bus has, unless it was asked for them not long
    /// ago.
    pub kept: Option<(Seq, Seq)>,
}

/// A lease that a port has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseGrant {
    /// Increases with each new holder.
    pub token: u64,
    /// When it ends, on the boot clock, unless it is renewed.
    pub until: Ns,
}

/// The next event, if there is one.
pub fn try_event(bus: &mut dyn Bus) -> Option<BusEvent> {
    match bus.poll_event(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(event) => Some(event),
        Poll::Pending => None,
    }
}

/// Waits for the next event.
pub async fn next_event(bus: &mut dyn Bus) -> BusEvent {
    std::future::poll_fn(|context| bus.poll_event(context)).await
}
