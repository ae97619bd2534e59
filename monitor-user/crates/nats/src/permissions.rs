//! What a user of the servers may publish and subscribe to: the subjects of its role.
//!
//! In: a role and the name of a node. Out: lists of subjects, for the configuration of a server.
//! What is not listed is denied. Consumers have random names that only their owner knows: a node
//! may make one on the order, and may not list, read, pull from or delete those of others.

use super::disconnects::{REPORTS, REPORTS_OF_RACKS, reports_of_rack};
use super::streams::{LEASE_KEYS, MEMBER_KEYS, STREAM};
use super::subject::token;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What a user of the servers is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A node: publishes under its own name, and reads the order.
    Node,
    /// A node that also reads what all nodes publish, for its page and its metrics.
    Gateway,
    /// A node that also makes the streams, holds leases and removes dead members.
    Service,
    /// An administrator of streams and consumers; no daemon.
    Admin,
}

/// Subjects that a user may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// It may publish on these.
    pub publish: Vec<String>,
    /// It may subscribe to these.
    pub subscribe: Vec<String>,
}

/// The prefix of the inboxes of a node: no other node may subscribe to them.
pub fn inbox_prefix(node: &str) -> String {
    format!("_INBOX.{}", token(node))
}

/// The permissions of a user. Its name is that of its node.
pub fn permissions(role: Role, name: &str) -> Permissions {
    let inbox = format!("{}.>", inbox_prefix(name));
    if role == Role::Admin {
        return Permissions { publish: vec!["$JS.API.>".to_owned()], subscribe: vec![inbox] };
    }
    let token = token(name);
    let mut publish = vec![
        format!("mon.cmd.{token}.*"),
        format!("mon.r.{token}.*"),
        format!("mon.s.{token}"),
        format!("mon.ev.{token}"),
        format!("mon.hb.{token}"),
        format!("$KV.{MEMBER_KEYS}.{token}"),
        "$JS.API.INFO".to_owned(),
        format!("$JS.API.CONSUMER.CREATE.{STREAM}.*.mon.cmd.>"),
        // The client of the library answers flow control of its own consumers.
        format!("$JS.FC.{STREAM}.>"),
    ];
    publish.extend(reads(STREAM));
    publish.extend(reads(&format!("KV_{MEMBER_KEYS}")));
    let mut subscribe = vec![inbox, format!("mon.r.*.{token}"), "mon.want.*".to_owned()];
    if role == Role::Gateway || role == Role::Service {
        publish.push(format!("mon.want.{token}"));
        subscribe.extend(["mon.s.*", "mon.ev.*", "mon.hb.*"].map(str::to_owned));
    }
    if role == Role::Service {
        subscribe.extend([REPORTS, REPORTS_OF_RACKS].map(str::to_owned));
        publish.extend(["mon.cmd.*.removed".to_owned(), format!("$KV.{LEASE_KEYS}.>")]);
        publish.extend(reads(&format!("KV_{LEASE_KEYS}")));
        let streams = [STREAM.to_owned(), format!("KV_{MEMBER_KEYS}"), format!("KV_{LEASE_KEYS}")];
        publish.extend(streams.map(|stream| format!("$JS.API.STREAM.CREATE.{stream}")));
    }
    Permissions { publish, subscribe }
}

/// The permissions of the server of a rack: what its nodes may, reports about their connections,
/// and one reply to each of the other nodes. A server passes the subscription of a node to replies
/// of all, `mon.r.*.NODE`, only to racks that may publish on one subject of it; it still drops
/// those that a rack may not publish.
pub fn rack_permissions<'a>(
    host: &str,
    nodes: impl Iterator<Item = (Role, &'a str)>,
    others: impl Iterator<Item = &'a str>,
) -> Permissions {
    let (mut publish, mut subscribe) = (BTreeSet::new(), BTreeSet::new());
    let mut first = None;
    for (role, node) in nodes {
        first.get_or_insert_with(|| token(node));
        let its = permissions(role, node);
        publish.extend(its.publish);
        subscribe.extend(its.subscribe);
    }
    publish.insert(reports_of_rack(host));
    for other in others {
        publish.extend(first.iter().map(|first| format!("mon.r.{first}.{}", token(other))));
    }
    let list = |subjects: BTreeSet<String>| subjects.into_iter().collect();
    Permissions { publish: list(publish), subscribe: list(subscribe) }
}

/// The questions that only read a stream.
fn reads(stream: &str) -> [String; 2] {
    ["INFO", "MSG.GET"].map(|question| format!("$JS.API.STREAM.{question}.{stream}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(role: Role, subject: &str, may_publish: bool) {
        let found = permissions(role, "n1.site").publish.iter().any(|it| matches(it, subject));
        assert_eq!(found, may_publish, "{role:?} {subject}");
    }

    /// Whether a pattern of NATS has a subject.
    fn matches(pattern: &str, subject: &str) -> bool {
        let (mut pattern, mut subject) = (pattern.split('.'), subject.split('.'));
        loop {
            match (pattern.next(), subject.next()) {
                (Some(">"), Some(_)) | (None, None) => return true,
                (Some("*"), Some(_)) => {}
                (Some(want), Some(token)) if want == token => {}
                _ => return false,
            }
        }
    }

    #[test]
    fn a_node_speaks_under_its_own_name_alone() {
        check(Role::Node, "mon.cmd.n1=2Esite.1000", true);
        check(Role::Node, "mon.cmd.n2.1000", false);
        check(Role::Node, "mon.r.n1=2Esite.n2", true);
        check(Role::Node, "mon.r.n2.n1", false);
        check(Role::Node, "$KV.mon_members.n2", false);
        check(Role::Node, "$KV.mon_lease.removals", false);
        check(Role::Node, "mon.cmd.n2.removed", false);
        check(Role::Service, "mon.cmd.n2.removed", true);
        check(Role::Service, "mon.cmd.n2.1000", false);
        let own = permissions(Role::Node, "n1.site").subscribe;
        assert_eq!(own, ["_INBOX.n1=2Esite.>", "mon.r.*.n1=2Esite", "mon.want.*"]);
        check(Role::Node, "mon.want.n1=2Esite", false);
        check(Role::Gateway, "mon.want.n1=2Esite", true);
        check(Role::Gateway, "mon.want.n2", false);
    }

    #[test]
    fn the_configuration_of_streams_is_for_those_that_serve_the_cluster() {
        for question in ["PURGE", "DELETE", "UPDATE", "MSG.DELETE", "SNAPSHOT", "RESTORE"] {
            let subject = format!("$JS.API.STREAM.{question}.MONCMD");
            check(Role::Node, &subject, false);
            check(Role::Gateway, &subject, false);
            check(Role::Service, &subject, false);
            check(Role::Admin, &subject, true);
        }
        check(Role::Node, "$JS.API.STREAM.CREATE.MONCMD", false);
        check(Role::Service, "$JS.API.STREAM.CREATE.MONCMD", true);
    }
}
