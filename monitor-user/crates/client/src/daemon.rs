//! The connection to the daemon, which is opened again after a restart of the daemon.
//!
//! In: the paths of its socket. Out: a connection to a daemon of this protocol version, and the
//! parser of samples.

use super::{Error, connection::Connection};
use monitor_model::Status;
use monitor_protocol::answer::{Hello, PROTOCOL};
use monitor_protocol::{call::Call, event::Event};
use serde::Deserialize;
use std::{io, path::PathBuf, time::Duration};
use tokio::{sync::Mutex, time::timeout};

/// Timeout of `hello`.
const HELLO_TIMEOUT: Duration = Duration::from_secs(2);

/// The daemon: the paths of its socket, and the connection to it.
pub struct Daemon {
    paths: Vec<PathBuf>,
    connection: Mutex<(Connection, Hello)>,
}

impl Daemon {
    /// Connects to the first path where a daemon answers.
    ///
    /// # Errors
    /// If no path has a daemon that answers, in this version of the protocol.
    pub async fn connect(paths: Vec<PathBuf>) -> Result<Self, Error> {
        let connection = Mutex::new(connect_any(&paths).await?);
        Ok(Self { paths, connection })
    }

    /// The service and the caller's identity.
    pub async fn hello(&self) -> Hello {
        self.connection.lock().await.1.clone()
    }

    /// The connection; a new one if the daemon has closed it.
    ///
    /// # Errors
    /// If no path has a daemon that answers, in this version of the protocol.
    pub async fn connection(&self) -> Result<Connection, Error> {
        let mut held = self.connection.lock().await;
        if held.0.is_closed() {
            *held = connect_any(&self.paths).await?;
        }
        Ok(held.0.clone())
    }

    /// The error when the daemon did not come back.
    pub fn unreachable(&self) -> Error {
        let why = "the daemon has gone away and did not come back";
        let source = io::Error::new(io::ErrorKind::TimedOut, why);
        Error::Unreachable { tried: self.paths.clone(), source }
    }
}

/// The first reply of a monitor: a sample, or one of each node that has targets.
#[derive(Debug)]
pub struct SampleReply {
    /// The event with the sample; of several nodes, that of the first one that has one.
    pub event: Event,
    /// The events of the other nodes that have one.
    pub others: Vec<Event>,
    /// The nodes that have none.
    pub missing: Vec<MissingNode>,
    /// Whether requested data is missing; its notes describe it.
    pub partial: bool,
}

/// A node without a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingNode {
    /// Its name.
    pub node: String,
    /// The name of the status, such as `TIMEOUT`. A node that is late sends later samples.
    pub status: String,
    /// Why.
    pub message: String,
}

/// Connects to the first path where a daemon answers.
async fn connect_any(paths: &[PathBuf]) -> Result<(Connection, Hello), Error> {
    let mut source = io::Error::from(io::ErrorKind::NotFound);
    for path in paths {
        match Connection::open(path).await {
            Ok(connection) => match timeout(HELLO_TIMEOUT, connection.call(&Call::Hello)).await {
                Ok(hello) => return Ok((connection, check_hello(&hello?)?)),
                Err(_) => source = io::Error::new(io::ErrorKind::TimedOut, "no reply to hello"),
            },
            Err(error) => source = error,
        }
    }
    Err(Error::Unreachable { tried: paths.to_vec(), source })
}

fn check_hello(text: &str) -> Result<Hello, Error> {
    let hello: Hello = serde_json::from_str(text).map_err(Error::protocol)?;
    if hello.protocol != PROTOCOL {
        return Err(Error::protocol(format!("protocol {}, not {PROTOCOL}", hello.protocol)));
    }
    Ok(hello)
}

impl SampleReply {
    /// Parses the result of `monitor`: an event and whether it is partial, or those of several
    /// nodes.
    ///
    /// # Errors
    /// If the text is not such a result.
    pub fn from_result(text: &str) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Outline {
            status: String,
            nodes: Option<Vec<NodePart>>,
        }
        // Parsed twice, because a raw sample cannot be combined with flattened fields.
        let reply: Outline = serde_json::from_str(text).map_err(Error::protocol)?;
        let partial = reply.status == Status::PartialSuccess.name();
        let Some(nodes) = reply.nodes else {
            let event = serde_json::from_str(text).map_err(Error::protocol)?;
            return Ok(Self { event, others: Vec::new(), missing: Vec::new(), partial });
        };
        let (mut events, mut missing) = (Vec::new(), Vec::new());
        for NodePart { node, status, message, event } in nodes {
            match event {
                Some(event) => events.push(event),
                None => {
                    let message = message.unwrap_or_default();
                    missing.push(MissingNode { node, status, message });
                }
            }
        }
        let mut events = events.into_iter();
        let event = events.next().ok_or_else(|| Error::protocol("no node has a sample"))?;
        Ok(Self { event, others: events.collect(), missing, partial })
    }
}

/// The part of one node.
#[derive(Deserialize)]
struct NodePart {
    node: String,
    status: String,
    message: Option<String>,
    event: Option<Event>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_of_several_nodes_has_an_event_of_each_that_has_a_sample() {
        let event = |node: &str| {
            format!(
                r#"{{"id":"m","seq":0,"missed":0,"node":"{node}","time_unix_ns":1,"sample":[]}}"#
            )
        };
        let text = format!(
            r#"{{"status":"PARTIAL_SUCCESS","id":"m","nodes":[
                {{"node":"a","status":"TIMEOUT","message":"late"}},
                {{"node":"b","status":"SUCCESS","event":{}}},
                {{"node":"c","status":"SUCCESS","event":{}}}]}}"#,
            event("b"),
            event("c")
        );
        let reply = SampleReply::from_result(&text).unwrap();
        assert!(reply.partial);
        assert_eq!((&*reply.event.node, &*reply.others[0].node), ("b", "c"));
        assert_eq!(reply.missing[0].status, "TIMEOUT");
        let alone =
            SampleReply::from_result(&event("b").replacen('{', r#"{"status":"SUCCESS","#, 1));
        assert!(!alone.unwrap().partial);
        let none = r#"{"status":"PARTIAL_SUCCESS","id":"m","nodes":[]}"#;
        assert!(SampleReply::from_result(none).is_err());
    }
}
