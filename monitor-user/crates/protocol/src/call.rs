//! What a client can call: a method and its parameters.
//!
//! In: one line. Out: a call and the tag that its reply carries, or a fault with the number that
//! JSON-RPC 2.0 gives it. Lengths are bounded before this sees a line; nesting is bounded by the
//! parser.

use super::params::{Cancel, FileWatch, Flight, Heartbeat, Named, Register, Sum};
use monitor_model::request::Request;
use monitor_model::status::{Refusal, Status};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Not JSON (JSON-RPC 2.0, section 5.1).
pub const PARSE_ERROR: i32 = -32700;
/// Not a request object.
pub const INVALID_REQUEST: i32 = -32600;
/// No such method.
pub const METHOD_NOT_FOUND: i32 = -32601;

/// The tag of a call: a number or a text, given back as it came.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged, expecting = "id: a number or a text")]
pub enum Tag {
    /// A number.
    Number(i64),
    /// A text.
    Text(String),
}

/// A call.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// Who serves here.
    Hello,
    /// Statistics, once or again and again.
    Monitor(Box<Request>),
    /// No more of a monitor.
    Cancel(Cancel),
    /// The caller's monitors.
    List,
    /// Requests that wait for their events.
    Rules,
    /// Takes over a monitor that runs on a lease, with what it has to tell.
    Attach(Named),
    /// Lets a lease begin anew.
    Renew(Named),
    /// Watch that somebody beats.
    Heartbeat(Heartbeat),
    /// The caller lives.
    Beat,
    /// Watch that a file changes.
    File(FileWatch),
    /// A process is a rank of a parallel job.
    Register(Register),
    /// What the caller's future children use: begin to count.
    Account,
    /// And the sum of one of them, with all its descendants.
    Sum(Sum),
    /// How each capability is served.
    Probes,
    /// What the service itself uses and holds.
    Status,
    /// A part of what the flight recorder kept.
    Flight(Flight),
}

/// Why a line is not a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The tag, if it could be read.
    pub tag: Option<Tag>,
    /// The number.
    pub code: i32,
    /// The sentence.
    pub message: String,
}

impl Fault {
    /// A refusal of something that had no tag.
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

/// Names of the methods, in the order in which the manual tells them.
pub const METHODS: [&str; 16] = [
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
];

impl Call {
    /// Reads a line. A call without a tag gets no reply.
    pub fn from_line(line: &[u8]) -> Result<(Option<Tag>, Self), Fault> {
        let envelope: Envelope<'_> = serde_json::from_slice(line).map_err(|error| {
            let malformed = error.is_syntax() || error.is_eof();
            let code = if malformed { PARSE_ERROR } else { INVALID_REQUEST };
            Fault { tag: None, code, message: error.to_string() }
        })?;
        let tag = envelope.id;
        let fault = |code, message| Fault { tag: tag.clone(), code, message };
        if envelope.jsonrpc.as_deref().is_some_and(|it| it != "2.0") {
            return Err(fault(INVALID_REQUEST, "jsonrpc: only \"2.0\" is spoken".into()));
        }
        let params = envelope.params.map_or("{}", RawValue::get);
        let call = Self::of(&envelope.method, params).map_err(|why| match why {
            Unread::Method(message) => fault(METHOD_NOT_FOUND, message),
            Unread::Params(error) => {
                fault(Status::BadParam.number(), format!("{}: {error}", envelope.method))
            }
            Unread::Form => {
                let message = format!("{}: params: an object is wanted", envelope.method);
                fault(Status::BadParam.number(), message)
            }
        })?;
        Ok((tag, call))
    }

    fn of(method: &str, params: &str) -> Result<Self, Unread> {
        Ok(match method {
            "hello" => Self::Hello,
            "monitor" => Self::Monitor(read(params)?),
            "cancel" => Self::Cancel(read(params)?),
            "list" => Self::List,
            "rules" => Self::Rules,
            "attach" => Self::Attach(read(params)?),
            "renew" => Self::Renew(read(params)?),
            "heartbeat" => Self::Heartbeat(read(params)?),
            "beat" => Self::Beat,
            "file" => Self::File(read(params)?),
            "register" => Self::Register(read(params)?),
            "account" => Self::Account,
            "sum" => Self::Sum(read(params)?),
            "probes" => Self::Probes,
            "status" => Self::Status,
            "flight" => Self::Flight(read(params)?),
            other => {
                let unknown = monitor_model::name::position("method", METHODS.into_iter(), other);
                let message = unknown.err().map(|it| it.to_string()).unwrap_or_default();
                return Err(Unread::Method(message));
            }
        })
    }

    /// The name of its method.
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
            Self::Beat => "beat",
            Self::File(_) => "file",
            Self::Register(_) => "register",
            Self::Account => "account",
            Self::Sum(_) => "sum",
            Self::Probes => "probes",
            Self::Status => "status",
            Self::Flight(_) => "flight",
        }
    }

    /// The line that makes this call.
    pub fn to_line(&self, tag: Option<&Tag>) -> Vec<u8> {
        let mut line = match self {
            Self::Monitor(params) => line(tag, self.method(), Some(params)),
            Self::Cancel(params) => line(tag, self.method(), Some(params)),
            Self::Attach(params) | Self::Renew(params) => line(tag, self.method(), Some(params)),
            Self::Heartbeat(params) => line(tag, self.method(), Some(params)),
            Self::File(params) => line(tag, self.method(), Some(params)),
            Self::Register(params) => line(tag, self.method(), Some(params)),
            Self::Sum(params) => line(tag, self.method(), Some(params)),
            Self::Flight(params) => line(tag, self.method(), Some(params)),
            Self::Hello
            | Self::List
            | Self::Rules
            | Self::Beat
            | Self::Account
            | Self::Probes
            | Self::Status => line::<()>(tag, self.method(), None),
        };
        line.push(b'\n');
        line
    }
}

enum Unread {
    Method(String),
    /// Parameters by position would change their meaning with every key that is added.
    Form,
    Params(serde_path_to_error::Error<serde_json::Error>),
}

fn read<'a, T: Deserialize<'a>>(params: &'a str) -> Result<T, Unread> {
    if !params.starts_with('{') {
        return Err(Unread::Form);
    }
    let mut json = serde_json::Deserializer::from_str(params);
    let value = serde_path_to_error::deserialize(&mut json).map_err(Unread::Params)?;
    // A raw value is one value: nothing can follow it.
    Ok(value)
}

#[derive(Serialize)]
struct Outgoing<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Tag>,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<P>,
}

fn line<P: Serialize>(id: Option<&Tag>, method: &str, params: Option<P>) -> Vec<u8> {
    serde_json::to_vec(&Outgoing { jsonrpc: "2.0", id, method, params })
        .expect("keys are strings and a vector takes every byte")
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::request::{NodeName, Target};

    #[track_caller]
    fn faulty(line: &str, code: i32, message: &str) {
        let fault = Call::from_line(line.as_bytes()).expect_err("it is no call");
        assert_eq!((fault.code, fault.message.as_str()), (code, message));
    }

    #[test]
    fn every_method_comes_back_from_its_line() {
        for method in METHODS {
            let params = match method {
                "attach" | "renew" => r#"{"id":"a"}"#,
                "heartbeat" => r#"{"every_ns":1}"#,
                "file" => r#"{"path":"/a","every_ns":1}"#,
                "register" => r#"{"namespace":"job","rank":0}"#,
                "sum" => r#"{"pid":3}"#,
                _ => "{}",
            };
            let line =
                format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#);
            let (tag, call) = Call::from_line(line.as_bytes()).expect("a call");
            let again = Call::from_line(&call.to_line(tag.as_ref())).expect("a call");
            assert_eq!((Some(Tag::Number(7)), &call), (again.0, &again.1));
            assert_eq!(call.method(), method);
        }
    }

    #[test]
    fn what_is_no_call_has_the_number_of_its_fault() {
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
    fn deep_nesting_is_refused_before_it_costs_anything() {
        let deep = "[".repeat(1_000_000);
        let line = format!(r#"{{"method":"monitor","params":{deep}"#);
        assert!(Call::from_line(line.as_bytes()).is_err());
    }

    #[track_caller]
    fn request(text: &str) -> Result<Request, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_request_is_read_from_its_keys() {
        let got = request(
            r#"{"part":"proc","fields":["cpu_ns"],"targets":[{"pid":7},
            {"namespace":"job","rank":1},{"node":3},{"pid":-1,"node":"n2"}]}"#,
        );
        let request = got.expect("it makes sense");
        assert_eq!(request.targets.len(), 4);
        assert_eq!(request.targets[2], Target::Node { node: NodeName::Number(3) });
        assert_eq!(request.every_ns, None);
    }

    #[test]
    fn an_unknown_key_is_refused() {
        assert!(request(r#"{"fieldz":[]}"#).is_err_and(|why| why.contains("fieldz")));
        assert!(request(r#"{"targets":[{"pidd":1}]}"#).is_err());
    }

    #[test]
    fn a_rate_that_is_negative_or_no_number_is_refused() {
        assert!(request(r#"{"every_ns":-1}"#).is_err());
        assert!(request(r#"{"every_ns":"1s"}"#).is_err());
        assert!(request(r#"{"every_ns":0.5}"#).is_err());
    }
}
