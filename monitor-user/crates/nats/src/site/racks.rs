//! Racks: a server in front of some nodes, as a leaf node of the servers of the cluster.
//!
//! In: `SERVERS=NODES`, such as `r1=n[001-064]`, or several servers among which the nodes are
//! divided. Out: one rack for each server. A rack only ever gets more nodes.

use super::address::{PORT, ServerAddress};
use monitor_cluster::node_set::expand;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A server and the nodes that connect to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rack {
    /// The server.
    pub server: ServerAddress,
    /// Its nodes.
    pub nodes: BTreeSet<String>,
    /// Those of them of which one publishes the roll-ups of all; none in a folder of an earlier
    /// version.
    #[serde(default)]
    pub aggregators: BTreeSet<String>,
}

/// Number of aggregators of a rack: one, and one that goes on if that is lost.
const AGGREGATORS: usize = 2;

impl Rack {
    /// Parses `SERVERS=NODES`: sets of hosts and of nodes. The nodes are divided in the order of
    /// their names and numbers. A port after the hosts is that of each of them.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(text: &str) -> Result<Vec<Self>, String> {
        let wrong = || format!("{text:?}: expected SERVERS=NODES, such as r1=n[001-064]");
        let (hosts, nodes) = text.split_once('=').ok_or_else(wrong)?;
        let (hosts, port) = match hosts.rsplit_once(':') {
            Some((hosts, port)) => (hosts, port.parse().map_err(|_| wrong())?),
            None => (hosts, PORT),
        };
        let set = |part: &str| match expand(part, &BTreeSet::new()) {
            Ok(names) => Ok(in_order(names)),
            Err(why) => Err(format!("{text:?}: {why}")),
        };
        let (hosts, nodes) = (set(hosts)?, set(nodes)?);
        if hosts.is_empty() || nodes.len() < hosts.len() {
            return Err(format!("{text:?}: expected at least one node for each server"));
        }
        // The first ones have one node more if they cannot be divided equally.
        let (n_least, n_more) = (nodes.len() / hosts.len(), nodes.len() % hosts.len());
        let mut nodes = nodes.into_iter();
        let racks = hosts.into_iter().enumerate().map(|(number, host)| {
            let n_nodes = n_least + usize::from(number < n_more);
            let server = ServerAddress::parse(&format!("{host}:{port}"))?;
            let nodes: Vec<String> = nodes.by_ref().take(n_nodes).collect();
            let aggregators = nodes.iter().take(AGGREGATORS).cloned().collect();
            Ok(Self { server, nodes: nodes.into_iter().collect(), aggregators })
        });
        racks.collect()
    }
}

/// Names in the order of their texts and numbers: r2 before r10.
fn in_order(names: BTreeSet<String>) -> Vec<String> {
    let mut names: Vec<String> = names.into_iter().collect();
    names.sort_by_cached_key(|name| {
        let parts = name.split_inclusive(|it: char| !it.is_ascii_digit());
        let key = |part: &str| {
            let digits = part.trim_end_matches(|it: char| !it.is_ascii_digit());
            let text = part[digits.len()..].to_owned();
            // A longer number is greater if neither begins with zeros.
            let digits = digits.trim_start_matches('0');
            (digits.len(), digits.to_owned(), text)
        };
        (parts.map(key).collect::<Vec<_>>(), name.clone())
    });
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn racks(text: &str) -> Result<Vec<(String, String)>, String> {
        let shown = |it: Rack| {
            let list = |set: BTreeSet<String>| Vec::from_iter(set).join(",");
            let all = format!("{} by {}", list(it.nodes), list(it.aggregators));
            (it.server.to_string(), all)
        };
        Ok(Rack::parse(text)?.into_iter().map(shown).collect())
    }

    #[test]
    fn nodes_are_divided_among_the_servers_in_the_order_of_numbers() {
        let pair = |server: &str, nodes: &str| (server.to_owned(), nodes.to_owned());
        assert_eq!(racks("r1=n[01-02]"), Ok(vec![pair("r1:4222", "n01,n02 by n01,n02")]));
        let both = vec![pair("r9:42", "n10,n8,n9 by n8,n9"), pair("r10:42", "n11,n12 by n11,n12")];
        assert_eq!(racks("r[9-10]:42=n[8-12]"), Ok(both));
        let why = "\"r[1-3]=n[1-2]\": expected at least one node for each server";
        assert_eq!(racks("r[1-3]=n[1-2]"), Err(why.to_owned()));
        for wrong in ["r1", "=n1", "r1=", "r1:x=n1", "r1=n[1-", "a b=n1"] {
            assert!(racks(wrong).is_err(), "{wrong}");
        }
    }
}
