//! The cluster of a node in the configuration: how the bus is reached, and what other nodes may.
//!
//! In: values of the file. Out: the settings, or what was expected. Opens no file and reaches no
//! server.

use super::value;
use monitor_cluster::node_set::{expand, has_wildcard};
use std::collections::BTreeSet;
use std::path::PathBuf;
use toml::de::DeValue;

/// The longest name of a node, in bytes (hostname(7)).
const NAME_BYTES: usize = 253;
/// How the address of a server begins.
const SCHEMES: [&str; 2] = ["nats://", "tls://"];

/// The configuration of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// The name of the cluster; empty: that of the servers is not compared.
    pub name: String,
    /// Addresses of the servers of the bus; without one the node is alone.
    pub servers: Vec<String>,
    /// The file with the user of this node at the servers: the seed of an nkey, or a password.
    pub credentials: Option<PathBuf>,
    /// The file with the certificates of those that sign certificates of servers.
    pub ca: Option<PathBuf>,
    /// The name of this node; that of the host if it is empty.
    pub node: String,
    /// The file of the ledger.
    pub ledger: PathBuf,
    /// Whether this node removes members that are dead.
    pub removes_dead: bool,
    /// Whether this node shows the roll-ups of all nodes.
    pub gateway: bool,
    /// The nodes of which one publishes the roll-ups of this node's rack, as a node set; none if it
    /// is empty.
    pub aggregators: String,
    /// The folder of files that other nodes send; beside the ledger if absent.
    pub received: Option<PathBuf>,
    /// Most bytes of the received files of a user.
    pub received_bytes: usize,
    /// The nodes whose users may control processes here, as a node set; none if it is empty.
    pub control_from: String,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            servers: Vec::new(),
            credentials: None,
            ca: None,
            node: String::new(),
            ledger: "/var/lib/monitor/ledger".into(),
            removes_dead: false,
            gateway: false,
            aggregators: String::new(),
            received: None,
            received_bytes: 1 << 30,
            control_from: String::new(),
        }
    }
}

impl ClusterConfig {
    /// The name of this node, on a host of this name.
    pub fn node_name<'a>(&'a self, host: &'a str) -> &'a str {
        if self.node.is_empty() { host } else { &self.node }
    }

    /// The folder of files that other nodes send.
    pub fn received_folder(&self) -> PathBuf {
        let beside = || self.ledger.with_file_name("received");
        self.received.clone().unwrap_or_else(beside)
    }

    /// The folder of processes that migrate, and of what is written down of them.
    pub fn migrations_folder(&self) -> PathBuf {
        self.ledger.with_file_name("migrations")
    }
}

/// Parses addresses of servers.
pub fn servers(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let servers = value::texts(value)?;
    servers.iter().try_for_each(|server| check_server(server))?;
    Ok(servers)
}

fn check_server(server: &str) -> Result<(), String> {
    let address = SCHEMES.iter().find_map(|scheme| server.strip_prefix(scheme));
    let wrong = || format!("{server:?}: expected an address such as \"nats://10.0.0.1:4222\"");
    let address = address.ok_or_else(wrong)?;
    if address.contains('@') {
        return Err("an address has no user: write it to the file cluster.credentials".to_owned());
    }
    let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
    let has_host = !host.is_empty() && !host.contains(['/', ',', ' ']);
    (has_host && port.parse::<u16>().is_ok_and(|port| port > 0)).then_some(()).ok_or_else(wrong)
}

/// Parses the name of a node.
pub fn node(value: &DeValue<'_>) -> Result<String, String> {
    let name = value::text(value)?;
    check_name(name)?;
    Ok(name.to_owned())
}

/// Checks that a name stands for itself in a node set; an empty one is that of the host.
///
/// # Errors
/// What is wrong with it.
pub fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Ok(());
    }
    let names = expand(name, &BTreeSet::new()).map_err(|why| why.to_string())?;
    let is_itself = names.len() == 1 && names.contains(name);
    match is_itself && name.len() <= NAME_BYTES {
        true => Ok(()),
        false => Err(format!("{name:?}: expected the name of one node, such as \"n1\"")),
    }
}

/// Parses the path of the ledger.
pub fn ledger(value: &DeValue<'_>) -> Result<PathBuf, String> {
    let path = value::path(value)?.filter(|path| path.is_absolute());
    path.ok_or_else(|| "expected a path that begins with a slash".to_owned())
}

/// Parses the set of nodes that aggregate: names, because nodes compare them.
pub fn aggregators(value: &DeValue<'_>) -> Result<String, String> {
    let text = node_set(value)?;
    match has_wildcard(&text) || text.contains('@') {
        true => Err(format!("{text:?}: expected names of nodes, such as \"n[1-2]\"")),
        false => Ok(text),
    }
}

/// Parses the set of nodes whose users may control processes.
pub fn node_set(value: &DeValue<'_>) -> Result<String, String> {
    let text = value::text(value)?;
    if !text.is_empty() {
        expand(text, &BTreeSet::new()).map(drop).map_err(|why| why.to_string())?;
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::value::tests::check;
    use super::*;

    #[test]
    fn servers_are_addresses_without_users() {
        let both = ["nats://n1:4222".to_owned(), "tls://[::1]:4223".to_owned()];
        check(servers, r#"["nats://n1:4222", "tls://[::1]:4223"]"#, Ok(both.to_vec()));
        let wrong = "\"n1\": expected an address such as \"nats://10.0.0.1:4222\"";
        check(servers, r#"["n1"]"#, Err(wrong));
        let wrong = "\"nats://n1:0\": expected an address such as \"nats://10.0.0.1:4222\"";
        check(servers, r#"["nats://n1:0"]"#, Err(wrong));
        let wrong = "an address has no user: write it to the file cluster.credentials";
        check(servers, r#"["nats://a:b@n1:4222"]"#, Err(wrong));
    }

    #[test]
    fn a_node_has_one_name_and_a_set_is_checked() {
        check(node, r#""n1.site-a.org""#, Ok("n1.site-a.org".to_owned()));
        let wrong = "\"n[1-2]\": expected the name of one node, such as \"n1\"";
        check(node, r#""n[1-2]""#, Err(wrong));
        check(node_set, r#""n[1-9]!n3""#, Ok("n[1-9]!n3".to_owned()));
        check(node_set, r#""@*""#, Ok("@*".to_owned()));
        check(aggregators, r#""n[1-2]""#, Ok("n[1-2]".to_owned()));
        let wrong = "\"n*\": expected names of nodes, such as \"n[1-2]\"";
        check(aggregators, r#""n*""#, Err(wrong));
        check(node_set, r#""n[1-""#, Err("\"n[1-\": a bracket is not closed, or closes none"));
        check(ledger, r#""ledger""#, Err("expected a path that begins with a slash"));
    }
}
