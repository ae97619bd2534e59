//! Subjects: the server decides by them which node may publish an entry.
//!
//! ```text
//!  mon.cmd.NODE.UID      commands of a user of the node        the node
//!  mon.cmd.NODE.member   the node comes, remains or goes       the node
//!  mon.cmd.NODE.removed  the node is removed                   service nodes
//!  mon.r.NODE.CALLER     replies and messages of the node      the node
//!  mon.s.NODE, mon.ev.NODE   readings, events of rules         the node
//!  mon.hb.NODE           the node is alive                     the node
//!  mon.sys.disconnect    a connection has ended                the servers
//!  mon.want.NODE         the node wants roll-ups of all        gateways, service nodes
//! ```
//!
//! The last column may publish. A reader takes the origin from the subject, never from the bytes.

use monitor_cluster::bus::Topic;
use monitor_cluster::bus::entry::{BusEntry, EntryBody};

/// The first byte of a message to a node. A reply, which has the same subject, begins with `{`.
pub const MESSAGE_MARK: u8 = b'+';

/// All entries of the order.
pub const ORDER: &str = "mon.cmd.>";
/// The last of each is the last about a node by itself.
pub const MEMBERS: &str = "mon.cmd.*.member";
/// The last of each is the last about a node by others.
pub const REMOVALS: &str = "mon.cmd.*.removed";

/// A name as one token of a subject, and of a key: other bytes than letters, digits, `-` and `_`
/// are `=` and two hexadecimal digits.
pub fn token(name: &str) -> String {
    let mut token = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => token.push(char::from(byte)),
            other => token.push_str(&format!("={other:02X}")),
        }
    }
    token
}

/// The name of a token.
pub fn name_of_token(token: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(token.len());
    let mut rest = token.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        rest = others;
        if *first == b'=' {
            let (digits, others) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = others;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

/// The subject of the entries of a node about itself.
pub fn member(node: &str) -> String {
    format!("mon.cmd.{}.member", token(node))
}

/// The subject of removals of a node.
pub fn removed(node: &str) -> String {
    format!("mon.cmd.{}.removed", token(node))
}

/// The subject of an entry.
pub fn entry(entry: &BusEntry) -> String {
    match &entry.body {
        EntryBody::Command(command) => format!("mon.cmd.{}.{}", token(&entry.origin), command.uid),
        EntryBody::Joined { .. } | EntryBody::Draining { .. } | EntryBody::Left { .. } => {
            member(&entry.origin)
        }
        EntryBody::Removed { node, .. } => removed(node),
    }
}

/// The entry of bytes that came on a subject; `None` if they are none, or not for this subject.
pub fn read_entry(subject: &str, bytes: &[u8]) -> Option<BusEntry> {
    let read = BusEntry::from_bytes(bytes);
    let found = read.inspect_err(|error| tracing::warn!("entry on {subject}: {error}")).ok()?;
    let is_permitted = entry(&found) == subject;
    if !is_permitted {
        tracing::warn!("entry on {subject} belongs on {}: dropped", entry(&found));
    }
    is_permitted.then_some(found)
}

/// The subject of replies to a node.
pub fn reply(from: &str, to: &str) -> String {
    format!("mon.r.{}.{}", token(from), token(to))
}

/// The replies of all nodes to one.
pub fn replies_to(node: &str) -> String {
    format!("mon.r.*.{}", token(node))
}

/// The subject of what a node publishes.
pub fn topic(topic: Topic, node: &str) -> String {
    format!("{}.{}", topic_prefix(topic), token(node))
}

/// What all nodes publish.
pub fn topic_of_all(topic: Topic) -> String {
    format!("{}.*", topic_prefix(topic))
}

const fn topic_prefix(topic: Topic) -> &'static str {
    match topic {
        Topic::Sample => "mon.s",
        Topic::RollupRequest => "mon.want",
        Topic::Event => "mon.ev",
        Topic::Heartbeat => "mon.hb",
    }
}

/// The node that published on a subject of replies or topics.
pub fn publisher(subject: &str) -> Option<String> {
    name_of_token(subject.split('.').nth(2)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_cluster::bus::entry::{EntryId, Incarnation};

    #[test]
    fn a_name_is_one_token() {
        for name in ["n1", "n1.site.org", "a b*>=é", ""] {
            let token = token(name);
            assert_eq!(name_of_token(&token).as_deref(), Some(name));
            assert!(!token.contains(['.', '*', '>', ' ']), "{token}");
        }
        assert_eq!(name_of_token("a=4"), None);
        assert_eq!(publisher(&reply("n1.x", "n2")).as_deref(), Some("n1.x"));
        assert_eq!(publisher(&topic(Topic::Event, "n 1")).as_deref(), Some("n 1"));
    }

    #[test]
    fn an_entry_of_another_node_is_dropped() {
        let body = EntryBody::Left { incarnation: Incarnation(1) };
        let left = BusEntry { origin: "n2".into(), id: EntryId::default(), body };
        assert_eq!(read_entry("mon.cmd.n2.member", &left.to_bytes()), Some(left.clone()));
        assert_eq!(read_entry("mon.cmd.n1.member", &left.to_bytes()), None);
        assert_eq!(read_entry("mon.cmd.n2.0", &left.to_bytes()), None);
        let (node, incarnation) = ("n3".into(), Incarnation(1));
        let body = EntryBody::Removed { node, incarnation };
        let removal = BusEntry { body, ..left };
        assert_eq!(read_entry("mon.cmd.n2.member", &removal.to_bytes()), None);
        assert_eq!(read_entry("mon.cmd.n3.removed", &removal.to_bytes()), Some(removal));
    }
}
