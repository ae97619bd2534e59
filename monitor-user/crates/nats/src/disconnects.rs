//! Which daemon is dead, by the end of its connection: the server reports it at once.
//!
//! ```text
//!  sign of life of a node, with a header: server and number of its connection --> table
//!  report of a server: this connection has ended, why --------> table --> nodes that have named it
//! ```
//!
//! In: signs of life and reports. Out: nodes. What names a connection is what the node itself says,
//! under a subject on which no other node may publish: a node that names the connection of another
//! one is reported with it, and can only harm itself. A second connection with the same key, such
//! as that of `cluster doctor`, is named by none, and its end reports none.

use super::subject::token;
use async_nats::{HeaderMap, Message, ServerInfo};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The header of a sign of life that names the connection.
const HEADER: &str = "Monitor-Connection";
/// Where the system account reports the end of connections of the account of nodes; it exports
/// that, and the account imports it.
pub const REPORTS: &str = "mon.sys.disconnect";
/// Where the servers of racks report that of their own. A report is passed on to other servers only
/// under the subject that it has in the system account: so each rack has an account of its own.
pub const REPORTS_OF_RACKS: &str = "$SYS.ACCOUNT.*.DISCONNECT";
/// How the account of a rack begins.
const RACK: &str = "RACK-";
/// Why a connection ends when its process does, as servers call it: the end of the stream, or a
/// reset of it. After anything else the process may run.
const DEATHS: [&str; 3] = ["Client Closed", "Read Error", "Write Error"];
/// Number of nodes whose connection is known; each is a member that gives signs of life.
const MAX_NODES: usize = 65_536;

/// The account of the nodes of a rack, on its server.
pub fn account_of_rack(host: &str) -> String {
    format!("{RACK}{}", token(host))
}

/// Where the server of a rack reports.
pub fn reports_of_rack(host: &str) -> String {
    reports_of_account(&account_of_rack(host))
}

/// Where a server reports that a connection of an account has ended, in its system account.
pub fn reports_of_account(account: &str) -> String {
    format!("$SYS.ACCOUNT.{account}.DISCONNECT")
}

/// The server that has published on a subject of reports, as a token; `None` for those of the
/// cluster.
fn reporter(subject: &str) -> Result<Option<&str>, ()> {
    if subject == REPORTS {
        return Ok(None);
    }
    let account = subject.strip_prefix("$SYS.ACCOUNT.").ok_or(())?;
    let account = account.strip_suffix(".DISCONNECT").ok_or(())?;
    account.strip_prefix(RACK).map(Some).ok_or(())
}

/// A connection, as its server names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionId {
    server: String,
    number: u64,
    /// The name of the server, as one token.
    server_name: String,
}

impl ConnectionId {
    /// The connection of a client.
    pub fn of_client(info: ServerInfo) -> Self {
        let server_name = token(&info.server_name);
        Self { server: info.server_id, number: info.client_id, server_name }
    }

    /// The header that names it.
    pub fn header(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, self.to_text());
        headers
    }

    fn to_text(&self) -> String {
        format!("{} {} {}", self.server, self.number, self.server_name)
    }

    fn of_message(message: &Message) -> Option<Self> {
        let text = message.headers.as_ref()?.get(HEADER)?.as_str();
        let mut words = text.split(' ').map(str::to_owned);
        let (server, number) = (words.next()?, words.next()?.parse().ok()?);
        Some(Self { server, number, server_name: words.next()? })
    }
}

/// What a server says of the end of a connection; it says more.
#[derive(Deserialize)]
struct DisconnectReport {
    server: ReportedServer,
    client: ReportedClient,
    reason: String,
}

#[derive(Deserialize)]
struct ReportedServer {
    id: String,
}

#[derive(Deserialize)]
struct ReportedClient {
    id: u64,
}

/// The connections of the nodes that give signs of life.
#[derive(Default)]
pub struct Connections {
    of_nodes: Mutex<HashMap<String, NodeConnection>>,
}

/// The last connection of a node.
struct NodeConnection {
    id: ConnectionId,
    has_ended: bool,
}

impl Connections {
    /// Notes over which connection a sign of life of a node came. Returns whether the node may
    /// live: a sign that was sent before its connection ended may come after the report of that.
    pub fn note(&self, node: &str, message: &Message) -> bool {
        let Some(id) = ConnectionId::of_message(message) else { return true };
        let mut of_nodes = self.of_nodes.lock().unwrap_or_else(PoisonError::into_inner);
        match of_nodes.get(node) {
            Some(known) if known.id == id => return !known.has_ended,
            None if of_nodes.len() >= MAX_NODES => of_nodes.retain(|_, it| !it.has_ended),
            _ => {}
        }
        if of_nodes.len() < MAX_NODES || of_nodes.contains_key(node) {
            of_nodes.insert(node.to_owned(), NodeConnection { id, has_ended: false });
        }
        true
    }

    /// The nodes whose process has ended, by a report. The server of a rack reports its own
    /// connections only. What a consumer of another node delivers to the subject of reports comes
    /// with the subject under which it was published.
    pub fn ended(&self, report: &Message) -> Vec<String> {
        let Ok(rack) = reporter(&report.subject) else {
            tracing::warn!("report on {}: dropped", report.subject);
            return Vec::new();
        };
        let report: DisconnectReport = match serde_json::from_slice(&report.payload) {
            Ok(report) => report,
            Err(why) => {
                tracing::warn!("report of a connection that has ended: {why}");
                return Vec::new();
            }
        };
        if !DEATHS.contains(&report.reason.as_str()) {
            return Vec::new();
        }
        let is_meant = |it: &ConnectionId| {
            (&it.server, it.number) == (&report.server.id, report.client.id)
                && rack.is_none_or(|rack| it.server_name == rack)
        };
        let mut of_nodes = self.of_nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = of_nodes.iter_mut().filter(|(_, it)| !it.has_ended && is_meant(&it.id));
        let ended = ended.map(|(node, it)| {
            it.has_ended = true;
            node.clone()
        });
        ended.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(subject: &'static str, payload: Vec<u8>, headers: Option<HeaderMap>) -> Message {
        let (reply, status, description, length) = (None, None, None, payload.len());
        let (subject, payload) = (subject.into(), payload.into());
        Message { subject, reply, payload, headers, status, description, length }
    }

    fn sign(server: &str, number: u64) -> Message {
        let server_name = format!("host{server}");
        let headers = ConnectionId { server: server.to_owned(), number, server_name }.header();
        message("mon.hb.n", Vec::new(), Some(headers))
    }

    fn report(server: &str, number: u64, reason: &str) -> Message {
        let text = serde_json::json!({
            "type": "io.nats.server.advisory.v1.client_disconnect",
            "server": { "id": server, "name": "s1" },
            "client": { "id": number, "name": "monitor n2" },
            "reason": reason,
        });
        message(REPORTS, text.to_string().into_bytes(), None)
    }

    #[test]
    fn only_the_node_that_named_the_connection_is_reported() {
        let connections = Connections::default();
        assert!(connections.note("n1", &sign("A", 7)));
        assert!(connections.note("n2", &sign("B", 7)));
        assert_eq!(connections.ended(&report("A", 8, "Client Closed")), [""; 0]);
        assert_eq!(connections.ended(&report("A", 7, "Slow Consumer (Pending Bytes)")), [""; 0]);
        assert_eq!(connections.ended(&report("A", 7, "Client Closed")), ["n1"]);
        assert_eq!(connections.ended(&report("A", 7, "Client Closed")), [""; 0], "once");
        // It was sent before the end of its connection.
        assert!(!connections.note("n1", &sign("A", 7)));
        assert_eq!(connections.ended(&report("A", 7, "Client Closed")), [""; 0], "once");
        assert!(connections.note("n1", &sign("A", 8)));
        assert!(connections.note("n1", &message("mon.hb.n1", Vec::new(), None)));
        assert_eq!(connections.ended(&report("A", 8, "Read Error")), ["n1"]);
        // It is connected again, and the end of its earlier connection is reported late.
        assert!(connections.note("n2", &sign("A", 9)));
        assert_eq!(connections.ended(&report("B", 7, "Read Error")), [""; 0]);
        assert_eq!(connections.ended(&report("A", 9, "Read Error")), ["n2"]);
        assert_eq!(connections.ended(&message(REPORTS, b"{}".to_vec(), None)), [""; 0]);
        // An entry of another node, whose consumer delivers it here.
        assert!(connections.note("n2", &sign("A", 10)));
        let forged = report("A", 10, "Client Closed");
        let forged = Message { subject: "mon.cmd.n4.0".into(), ..forged };
        assert_eq!(connections.ended(&forged), [""; 0]);
        // The server of another rack, and that of its own.
        for (rack, want) in [("hostB", &[][..]), ("hostA", &["n2".to_owned()])] {
            let subject = reports_of_rack(rack).into();
            let of_rack = Message { subject, ..report("A", 10, "Client Closed") };
            assert_eq!(connections.ended(&of_rack), want, "{rack}");
        }
    }
}
