//! The rack of an aggregator: the records of its nodes become one message a second.
//!
//! ```text
//!  node: record --message--> aggregator: Rack --once a second--> gateways: records_of
//! ```
//!
//! In: records that nodes send, the members. Out: messages that gateways read, and on a gateway the
//! records in them. A message is JSON in a frame of zstd: the records of a rack resemble each
//! other, and what the servers need grows with the bytes. Each node says when it joins which nodes
//! may publish its records; of those, the first one that is a member does. So an aggregator that is
//! lost has a successor as soon as its end is in the order, and no node speaks for one that did not
//! name it.

use monitor_cluster::bus::MemberRecord;
use monitor_cluster::bus::membership::Membership;
use monitor_cluster::node_set::expand;
use monitor_model::Ns;
use monitor_protocol::rollup::{MAX_RACK, MAX_RECORD, RackNode, RackRollup, VERSION};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Time between two messages.
const PERIOD: Ns = Ns(1_000_000_000);
/// How long the first message waits for the records that nodes send at once.
const FIRST: Ns = Ns(250_000_000);
/// From this age of its last record on a node is named as late.
pub const LATE: Ns = Ns(3_000_000_000);
/// Most records of a node between two messages: it sends one a second.
const MAX_WAITING: usize = 4;
/// What a node adds to a message beside its record: keys, its age, and a name with escapes.
const NODE_BYTES: usize = 2048;
/// How a frame of zstd begins (RFC 8878, 3.1.1): 0xFD2FB528, little-endian.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The fastest level of zstd: a higher one saves little.
const LEVEL: i32 = 1;

/// The nodes of a rack.
pub struct Rack {
    next: Ns,
    nodes: BTreeMap<String, RackRecords>,
}

/// What came from a node.
struct RackRecords {
    last: Ns,
    /// Those that were not published yet, with their times.
    waiting: Vec<(Ns, Box<RawValue>)>,
}

impl Rack {
    /// Without records; the first message is due soon.
    pub const fn new(now: Ns) -> Self {
        Self { next: Ns(now.0 + FIRST.0), nodes: BTreeMap::new() }
    }

    /// When the next message is due.
    pub const fn due(&self) -> Ns {
        self.next
    }

    /// Takes a record of a node; one that is too long is dropped, as gateways do.
    pub fn add(&mut self, now: Ns, node: &str, record: Box<RawValue>) {
        if record.get().len() > MAX_RECORD {
            return tracing::debug!("record of {node}: {} bytes", record.get().len());
        }
        let new = || RackRecords { last: now, waiting: Vec::new() };
        let records = self.nodes.entry(node.to_owned()).or_insert_with(new);
        records.last = now;
        if records.waiting.len() == MAX_WAITING {
            // Its number is missing then, by which gateways count it as lost.
            records.waiting.remove(0);
        }
        records.waiting.push((now, record));
    }

    /// The messages that are due now, with all records since the last ones, and the nodes that are
    /// late or missing. `None` if no node has sent a record for a while.
    pub fn take(&mut self, now: Ns, own: &str, members: &Membership) -> Option<Vec<Vec<u8>>> {
        self.next = Ns(now.0 + PERIOD.0);
        let names: BTreeSet<&str> = rack_of(own, members).map(|it| it.node.as_str()).collect();
        self.nodes.retain(|node, _| names.contains(node.as_str()));
        if self.nodes.values().all(|it| now.since(it.last) >= LATE) {
            return None;
        }
        let mut parts = RackParts::default();
        for node in names {
            let age = |at: Ns| Some(now.since(at).0);
            let entry = |age_ns, record| RackNode { node: Cow::Borrowed(node), age_ns, record };
            match self.nodes.get(node) {
                None => parts.add(entry(None, None)),
                Some(records) if now.since(records.last) >= LATE => {
                    parts.add(entry(age(records.last), None));
                }
                Some(records) => {
                    for (at, record) in &records.waiting {
                        parts.add(entry(age(*at), Some(record)));
                    }
                }
            }
        }
        let messages = parts.finish();
        self.nodes.values_mut().for_each(|it| it.waiting.clear());
        Some(messages)
    }
}

/// Messages that are short enough.
#[derive(Default)]
struct RackParts<'a> {
    done: Vec<Vec<u8>>,
    nodes: Vec<RackNode<'a>>,
    n_bytes: usize,
}

impl<'a> RackParts<'a> {
    fn add(&mut self, node: RackNode<'a>) {
        let n_bytes = NODE_BYTES + node.record.map_or(0, |it| it.get().len());
        if self.n_bytes + n_bytes > MAX_RACK {
            self.cut();
        }
        self.n_bytes += n_bytes;
        self.nodes.push(node);
    }

    fn cut(&mut self) {
        let rack = std::mem::take(&mut self.nodes);
        self.n_bytes = 0;
        // Names and records are JSON already, or can always be written as such.
        let message = serde_json::to_vec(&RackRollup { version: VERSION, rack });
        self.done.push(packed(&message.unwrap_or_default()));
    }

    fn finish(mut self) -> Vec<Vec<u8>> {
        if !self.nodes.is_empty() {
            self.cut();
        }
        self.done
    }
}

/// The node that publishes the records of a node: the first of these that is a member and stays.
pub fn aggregator<'a>(aggregators: &'a BTreeSet<String>, members: &Membership) -> Option<&'a str> {
    let is_there = |name: &&String| members.get(name).is_some_and(|it| !it.is_draining);
    aggregators.iter().find(is_there).map(String::as_str)
}

/// The members that have named this one.
fn rack_of<'a>(own: &'a str, members: &'a Membership) -> impl Iterator<Item = &'a MemberRecord> {
    let mut speakers = Speakers::default();
    members.iter().filter(move |member| speakers.may_speak(own, member))
}

/// Whether a node may publish the records of another one.
pub fn may_speak(node: &str, member: &MemberRecord) -> bool {
    Speakers::default().may_speak(node, member)
}

/// Sets that were compared with a name: the nodes of a rack have the same one.
#[derive(Default)]
struct Speakers<'a>(Option<(&'a str, bool)>);

impl<'a> Speakers<'a> {
    fn may_speak(&mut self, node: &str, member: &'a MemberRecord) -> bool {
        let text = member.aggregators.as_str();
        if text.is_empty() {
            return false;
        }
        let known = self.0.filter(|(last, _)| *last == text).map(|(_, may)| may);
        let compare = || expand(text, &BTreeSet::new()).is_ok_and(|set| set.contains(node));
        let may = known.unwrap_or_else(compare);
        self.0 = Some((text, may));
        may
    }
}

/// Compresses a message.
fn packed(json: &[u8]) -> Vec<u8> {
    // Memory for what it can be at most is there.
    zstd::bulk::compress(json, LEVEL).unwrap_or_default()
}

/// The JSON of a message of an aggregator; `None` if it is none, or is too long.
pub fn unpacked(message: &[u8]) -> Option<Vec<u8>> {
    message.starts_with(&MAGIC).then(|| zstd::bulk::decompress(message, MAX_RACK).ok()).flatten()
}

/// What the message of an aggregator has of nodes that have named it; `None` if it is no such
/// message.
pub fn records_of<'a>(
    from: &str,
    json: &'a [u8],
    members: &Membership,
) -> Option<Vec<RackNode<'a>>> {
    let message: RackRollup<'_> = serde_json::from_slice(json).ok()?;
    if message.version != VERSION {
        return None;
    }
    let mut speakers = Speakers::default();
    let mut nodes = message.rack;
    let n_nodes = nodes.len();
    nodes.retain(|it| members.get(&it.node).is_some_and(|it| speakers.may_speak(from, it)));
    if nodes.len() < n_nodes {
        let n_dropped = n_nodes - nodes.len();
        tracing::debug!(from, n_dropped, "records of nodes that have not named this aggregator");
    }
    Some(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_cluster::bus::entry::{FORMATS, Incarnation, LedgerId, Seq};

    const SECOND: u64 = 1_000_000_000;

    fn members(all: &[(&str, &str)]) -> Membership {
        let member = |(node, aggregators): &(&str, &str)| MemberRecord {
            node: (*node).to_owned(),
            ledger: LedgerId(1),
            incarnation: Incarnation(1),
            since: Seq(1),
            is_draining: false,
            formats: FORMATS,
            aggregators: (*aggregators).to_owned(),
        };
        Membership::new(Seq(9), all.iter().map(member).collect())
    }

    fn record(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).expect("JSON")
    }

    fn shown(nodes: &[RackNode<'_>]) -> Vec<(String, Option<u64>, Option<String>)> {
        let shown = |it: &RackNode<'_>| {
            (it.node.to_string(), it.age_ns, it.record.map(ToString::to_string))
        };
        nodes.iter().map(shown).collect()
    }

    #[test]
    fn a_message_has_each_record_once_and_names_what_is_late_or_missing() {
        let all = members(&[("m1", "m[1-2]"), ("m2", "m[1-2]"), ("m3", "m[1-2]"), ("n1", "")]);
        let mut rack = Rack::new(Ns(0));
        rack.add(Ns(SECOND), "m1", record("{\"a\":1}"));
        rack.add(Ns(2 * SECOND), "m1", record("{\"a\":2}"));
        rack.add(Ns(SECOND), "m2", record("{}"));
        rack.add(Ns(SECOND), "n1", record("{}"));
        let first = rack.take(Ns(2 * SECOND), "m1", &all).expect("records");
        let [first] = &first[..] else { panic!("{} messages", first.len()) };
        let first = unpacked(first).expect("a frame");
        let nodes = records_of("m1", &first, &all).expect("a message");
        let text = |text: &str| Some(text.to_owned());
        let want = [
            ("m1".to_owned(), Some(SECOND), text("{\"a\":1}")),
            ("m1".to_owned(), Some(0), text("{\"a\":2}")),
            ("m2".to_owned(), Some(SECOND), text("{}")),
            ("m3".to_owned(), None, None),
        ];
        assert_eq!(shown(&nodes), want);
        rack.add(Ns(3 * SECOND), "m1", record("{\"a\":3}"));
        let second = rack.take(Ns(4 * SECOND), "m1", &all).expect("records");
        let second = unpacked(&second[0]).expect("a frame");
        let nodes = records_of("m1", &second, &all).expect("a message");
        let want = [
            ("m1".to_owned(), Some(SECOND), text("{\"a\":3}")),
            ("m2".to_owned(), Some(3 * SECOND), None),
            ("m3".to_owned(), None, None),
        ];
        assert_eq!(shown(&nodes), want);
        assert_eq!(rack.take(Ns(6 * SECOND), "m1", &all), None, "no node sends records");
    }

    #[test]
    fn a_message_that_would_be_too_long_has_several_parts() {
        let names: Vec<String> = (10..60).map(|at| format!("m{at}")).collect();
        let all: Vec<_> = names.iter().map(|name| (name.as_str(), "m10")).collect();
        let all = members(&all);
        let mut rack = Rack::new(Ns(0));
        let long = format!("\"{}\"", "x".repeat(MAX_RECORD - 2));
        names.iter().for_each(|name| rack.add(Ns(1), name, record(&long)));
        let messages = rack.take(Ns(1), "m10", &all).expect("records");
        assert!(messages.len() > 1);
        let messages: Vec<_> = messages.iter().map(|it| unpacked(it).expect("a frame")).collect();
        let nodes = messages.iter().flat_map(|it| records_of("m10", it, &all).expect("a message"));
        let nodes: Vec<String> = nodes.map(|it| it.node.to_string()).collect();
        assert_eq!(nodes, names);
    }

    #[test]
    fn a_node_speaks_for_those_alone_that_have_named_it() {
        let all = members(&[("m1", "m[1-2]"), ("m3", "m[1-2]"), ("r1", "r1"), ("n1", "")]);
        let mut rack = Rack::new(Ns(0));
        ["m1", "m3"].iter().for_each(|node| rack.add(Ns(1), node, record("{}")));
        let message = rack.take(Ns(1), "m1", &all).expect("records").remove(0);
        let message = unpacked(&message).expect("a frame");
        let n_of = |from: &str, bytes: &[u8]| records_of(from, bytes, &all).map(|it| it.len());
        assert_eq!([n_of("m1", &message), n_of("m2", &message)], [Some(2); 2]);
        assert_eq!([n_of("r1", &message), n_of("n1", &message)], [Some(0); 2]);
        let later = format!("{{\"version\":{},\"rack\":[]}}", VERSION + 1);
        assert_eq!([n_of("m1", later.as_bytes()), n_of("m1", b"{\"version\":1}")], [None; 2]);
    }

    #[test]
    fn a_message_that_is_broken_or_becomes_too_long_is_none() {
        let json = b"{\"version\":1,\"rack\":[]}";
        assert_eq!(unpacked(&packed(json)).as_deref(), Some(&json[..]));
        let bomb = packed(&vec![b' '; MAX_RACK + 1]);
        assert!(bomb.len() < MAX_RECORD, "{} bytes", bomb.len());
        let cut = &packed(json)[..8];
        for none in [&bomb[..], cut, &MAGIC, b"{}", b""] {
            assert_eq!(unpacked(none), None);
        }
    }

    #[test]
    fn the_first_member_that_stays_is_the_aggregator() {
        let names: BTreeSet<String> = ["m1", "m2"].map(str::to_owned).into();
        let mut both = members(&[("m1", ""), ("m2", "")]);
        assert_eq!(aggregator(&names, &both), Some("m1"));
        assert_eq!(aggregator(&names, &members(&[("m2", "")])), Some("m2"));
        assert_eq!(aggregator(&names, &members(&[("m3", "")])), None);
        let mut all: Vec<MemberRecord> = both.iter().cloned().collect();
        all[0].is_draining = true;
        both = Membership::new(Seq(9), all);
        assert_eq!(aggregator(&names, &both), Some("m2"));
    }
}
