//! Calls of clients: a method and its parameters.
//!
//! In: one line. Out: a call and its tag, or a fault with its JSON-RPC 2.0 error code. The listener
//! limits the length of a line, the JSON parser its nesting.

use super::cluster::{Follow, Gather};
use super::line::to_line;
use super::migration::{MigrateProcess, MigrationStep};
use super::params::{Cancel, FileWatch, Flight, Heartbeat, MonitorName, Register, Sum};
use super::rollup::RollupQuery;
use super::transfer::{ReceiveFile, SendFile};
use monitor_model::{MonitorRequest, Refusal, Status};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// JSON-RPC 2.0, section 5.1: invalid JSON.
pub const PARSE_ERROR: i32 = -32700;
/// JSON-RPC 2.0: not a request object.
pub const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC 2.0: unknown method.
pub const METHOD_NOT_FOUND: i32 = -32601;

/// Longest tag: it is kept until the reply.
const TAG_BYTES: usize = 1024;

/// The tag of a call: a number or a text, which the reply repeats.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged, expecting = "id: a number or a text")]
pub enum Tag {
    /// A number.
    Number(i64),
    /// A text.
    Text(String),
}

/// A call of a client.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "method", content = "params", rename_all = "snake_case")]
pub enum Call {
    /// Identifies the service and the caller.
    Hello,
    /// Samples statistics, once or periodically.
    Monitor(Box<MonitorRequest>),
    /// Cancels monitors.
    Cancel(Cancel),
    /// Lists the caller's monitors.
    List,
    /// Lists the stored requests.
    Rules,
    /// Attaches a leased monitor, with its kept events.
    Attach(MonitorName),
    /// Restarts a lease.
    Renew(MonitorName),
    /// Watches the heartbeats of a process.
    Heartbeat(Heartbeat),
    /// Sends a heartbeat of the caller.
    #[serde(rename = "beat")]
    SendHeartbeat,
    /// Watches that a file changes.
    File(FileWatch),
    /// Registers a process as a rank of a parallel job.
    Register(Register),
    /// Starts counting the usage of the caller's child processes.
    Account,
    /// Returns the usage of a child and all its descendants.
    Sum(Sum),
    /// Returns the state of each probe.
    Probes,
    /// Returns the service's own statistics.
    Status,
    /// Returns a part of the flight recorder's data.
    Flight(Flight),
    /// Returns what this node says of itself.
    NodeStatus,
    /// Returns the nodes of the cluster.
    Members,
    /// Lets many nodes execute a line, and returns their replies.
    Gather(Gather),
    /// Lets many nodes execute lines, and sends what they go on to send.
    Follow(Follow),
    /// Returns the roll-ups of all nodes, on a gateway.
    Rollup(RollupQuery),
    /// Makes the requests of this connection those of the whole cluster.
    ClusterSession,
    /// Sends a file of this node to others.
    SendFile(SendFile),
    /// Takes a file of another node.
    ReceiveFile(ReceiveFile),
    /// Moves a process of this node to another one.
    MigrateProcess(MigrateProcess),
    /// Takes a step of a migration, on the node that a process comes to.
    MigrationStep(MigrationStep),
    /// Lists the migrations that this node knows.
    Migrations,
}

/// Why a line is not a valid call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The tag, if it was parsed.
    pub tag: Option<Tag>,
    /// The error code.
    pub code: i32,
    /// The message.
    pub message: String,
}

impl Fault {
    /// A refusal without a tag.
    pub fn refused(refusal: &Refusal) -> Self {
        Self { tag: None, code: refusal.status.number(), message: refusal.message.clone() }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with method and params")]
struct Envelope<'a> {
    #[serde(default)]
    jsonrpc: Option<String>,
    #[serde(default)]
    id: Option<Tag>,
    method: String,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

/// Names of the methods, in the order of the manual.
pub const METHODS: [&str; 27] = [
    "hello",
    "monitor",
    "cancel",
    "list",
    "rules",
    "attach",
    "renew",
    "heartbeat",
    "beat",
    "file",
    "register",
    "account",
    "sum",
    "probes",
    "status",
    "flight",
    "node_status",
    "members",
    "gather",
    "follow",
    "rollup",
    "cluster_session",
    "send_file",
    "receive_file",
    "migrate_process",
    "migration_step",
    "migrations",
];

impl Call {
    /// Parses a line. A call without a tag gets no reply.
    ///
    /// # Errors
    ///
    /// A fault with the error code for the client.
    pub fn from_line(line: &[u8]) -> Result<(Option<Tag>, Self), Fault> {
        let envelope: Envelope<'_> = serde_json::from_slice(line).map_err(|error| {
            let malformed = error.is_syntax() || error.is_eof();
            let code = if malformed { PARSE_ERROR } else { INVALID_REQUEST };
            Fault { tag: None, code, message: error.to_string() }
        })?;
        let tag = envelope.id;
        let fault = |code, message| Fault { tag: tag.clone(), code, message };
        if matches!(&tag, Some(Tag::Text(text)) if text.len() > TAG_BYTES) {
            let message = format!("id: longer than {TAG_BYTES} bytes");
            return Err(Fault { tag: None, code: INVALID_REQUEST, message });
        }
        if envelope.jsonrpc.as_deref().is_some_and(|version| version != "2.0") {
            return Err(fault(INVALID_REQUEST, "jsonrpc: only \"2.0\" is supported".into()));
        }
        let params = envelope.params.map_or("{}", RawValue::get);
        let method = envelope.method.as_str();
        monitor_model::name::position("method", METHODS.into_iter(), method)
            .map_err(|unknown| fault(METHOD_NOT_FOUND, unknown.to_string()))?;
        let call = Self::from_method(method, params)
            .map_err(|why| fault(Status::BadParam.number(), format!("{method}: {why}")))?;
        Ok((tag, call))
    }

    /// The call of one of `METHODS`, or what is wrong with its parameters.
    fn from_method(method: &str, params: &str) -> Result<Self, String> {
        Ok(match method {
            "hello" => Self::Hello,
            "monitor" => Self::Monitor(read(params)?),
            "cancel" => Self::Cancel(read(params)?),
            "list" => Self::List,
            "rules" => Self::Rules,
            "attach" => Self::Attach(read(params)?),
            "renew" => Self::Renew(read(params)?),
            "heartbeat" => Self::Heartbeat(read(params)?),
            "beat" => Self::SendHeartbeat,
            "file" => Self::File(read(params)?),
            "register" => Self::Register(read(params)?),
            "account" => Self::Account,
            "sum" => Self::Sum(read(params)?),
            "probes" => Self::Probes,
            "status" => Self::Status,
            "flight" => Self::Flight(read(params)?),
            "node_status" => Self::NodeStatus,
            "members" => Self::Members,
            "gather" => Self::Gather(read(params)?),
            "follow" => Self::Follow(read(params)?),
            "rollup" => Self::Rollup(read(params)?),
            "cluster_session" => Self::ClusterSession,
            "send_file" => Self::SendFile(read(params)?),
            "receive_file" => Self::ReceiveFile(read(params)?),
            "migrate_process" => Self::MigrateProcess(read(params)?),
            "migration_step" => Self::MigrationStep(read(params)?),
            _ => Self::Migrations,
        })
    }

    /// Returns the name of the method.
    pub const fn method(&self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::Monitor(_) => "monitor",
            Self::Cancel(_) => "cancel",
            Self::List => "list",
            Self::Rules => "rules",
            Self::Attach(_) => "attach",
            Self::Renew(_) => "renew",
            Self::Heartbeat(_) => "heartbeat",
            Self::SendHeartbeat => "beat",
            Self::File(_) => "file",
            Self::Register(_) => "register",
            Self::Account => "account",
            Self::Sum(_) => "sum",
            Self::Probes => "probes",
            Self::Status => "status",
            Self::Flight(_) => "flight",
            Self::NodeStatus => "node_status",
            Self::Members => "members",
            Self::Gather(_) => "gather",
            Self::Follow(_) => "follow",
            Self::Rollup(_) => "rollup",
            Self::ClusterSession => "cluster_session",
            Self::SendFile(_) => "send_file",
            Self::ReceiveFile(_) => "receive_file",
            Self::MigrateProcess(_) => "migrate_process",
            Self::MigrationStep(_) => "migration_step",
            Self::Migrations => "migrations",
        }
    }

    /// The line of this call.
    pub fn to_line(&self, id: Option<&Tag>) -> Vec<u8> {
        to_line(&CallLine { jsonrpc: "2.0", id, call: self })
    }

    /// The line of this call for other nodes: with a tag, because it has a reply, and without its
    /// end.
    pub fn to_text(&self) -> String {
        let line = self.to_line(Some(&Tag::Number(1)));
        String::from_utf8_lossy(line.trim_ascii_end()).into_owned()
    }
}

/// Parses parameters. Positional ones would change their meaning when a key is added.
fn read<'a, T: Deserialize<'a>>(params: &'a str) -> Result<T, String> {
    if !params.starts_with('{') {
        return Err("params: expected an object".to_owned());
    }
    // A raw value is a single value: no data can follow it.
    let mut json = serde_json::Deserializer::from_str(params);
    serde_path_to_error::deserialize(&mut json).map_err(|error| error.to_string())
}

#[derive(Serialize)]
struct CallLine<'a> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Tag>,
    #[serde(flatten)]
    call: &'a Call,
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::request::{NodeName, Target};

    #[track_caller]
    fn faulty(line: &str, code: i32, message: &str) {
        let fault = Call::from_line(line.as_bytes()).expect_err("an invalid call");
        assert_eq!((fault.code, fault.message.as_str()), (code, message));
    }

    #[test]
    fn every_call_survives_serialization() {
        let digest = "0f".repeat(32);
        let received = format!(r#"{{"name":"a","bytes":1,"sha256":"{digest}"}}"#);
        for method in METHODS {
            let params = match method {
                "attach" | "renew" => r#"{"id":"a"}"#,
                "heartbeat" => r#"{"every_ns":1}"#,
                "file" => r#"{"path":"/a","every_ns":1}"#,
                "register" => r#"{"namespace":"job","rank":0}"#,
                "sum" => r#"{"pid":3}"#,
                "gather" => r#"{"line":"1 [] a()"}"#,
                "follow" => r#"{"lines":["1 [] a()"]}"#,
                "send_file" => r#"{"path":"/a","nodes":"n1"}"#,
                "receive_file" => &received,
                "migrate_process" => r#"{"pid":3,"to":"n2"}"#,
                "migration_step" => r#"{"id":"a","step":"commit","pid":3,"name":"a","from":"n1"}"#,
                _ => "{}",
            };
            let line =
                format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#);
            let (tag, call) = Call::from_line(line.as_bytes()).expect("a valid call");
            let again = Call::from_line(&call.to_line(tag.as_ref())).expect("a valid call");
            assert_eq!((Some(Tag::Number(7)), &call), (again.0, &again.1));
            assert_eq!(call.method(), method);
        }
    }

    #[test]
    fn an_invalid_call_has_its_error_code() {
        faulty("}{", PARSE_ERROR, "expected value at line 1 column 1");
        faulty(
            "[1]",
            INVALID_REQUEST,
            "invalid type: integer `1`, expected a string at line 1 column 2",
        );
        faulty(
            r#"{"method":"moniter"}"#,
            METHOD_NOT_FOUND,
            r#"unknown method "moniter"; did you mean "monitor"?"#,
        );
        faulty(
            r#"{"method":"renew"}"#,
            Status::BadParam.number(),
            "renew: missing field `id` at line 1 column 2",
        );
    }

    #[test]
    fn deep_nesting_is_refused_early() {
        let deep = "[".repeat(1_000_000);
        let line = format!(r#"{{"method":"monitor","params":{deep}"#);
        assert!(Call::from_line(line.as_bytes()).is_err());
    }

    #[track_caller]
    fn request(text: &str) -> Result<MonitorRequest, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_request_is_parsed_from_its_keys() {
        let got = request(
            r#"{"part":"proc","fields":["cpu_ns"],"targets":[{"pid":7},
            {"namespace":"job","rank":1},{"node":3},{"pid":-1,"node":"n2"}]}"#,
        );
        let request = got.expect("a valid request");
        assert_eq!(request.targets.len(), 4);
        assert_eq!(request.targets[2], Target::Node { node: NodeName::Number(3) });
        assert_eq!(request.every_ns, None);
    }

    #[test]
    fn an_unknown_key_is_refused() {
        assert!(request(r#"{"fieldz":[]}"#).is_err_and(|error| error.contains("fieldz")));
        assert!(request(r#"{"targets":[{"pidd":1}]}"#).is_err());
    }

    #[test]
    fn a_negative_or_fractional_interval_is_refused() {
        assert!(request(r#"{"every_ns":-1}"#).is_err());
        assert!(request(r#"{"every_ns":"1s"}"#).is_err());
        assert!(request(r#"{"every_ns":0.5}"#).is_err());
    }
}
