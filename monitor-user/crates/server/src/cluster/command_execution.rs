//! A command of another node: a line, executed with the rights of its user here.
//!
//! In: a command of the bus. Out: its reply, or why it was not executed. The connection inside the
//! daemon is that of any client of this user, except that users of other nodes only observe, unless
//! the configuration names their node. A request and a call end with their reply: what they would
//! store ends with the connection. A command that is followed opens a session instead, which ends
//! when it is not followed any longer.

use super::gathering::{ExecutionReply, MAX_RESULT};
use super::source_sessions::OpenedSession;
use super::users::CommandUsers;
use crate::http::message::lines;
use crate::http::{
    DaemonRequest, LineRefusal, LoopbackClient, LoopbackLine, LoopbackRights, NoLines,
};
use crate::line::is_request;
use monitor_cluster::command::{Execution, ExecutionResult, MAX_WITHIN};
use monitor_cluster::follow::message::FollowRequest;
use monitor_cluster::follow::source::SourceKey;
use monitor_cluster::node_set::expand;
use monitor_model::Ns;
use monitor_model::request::MonitorRequest;
use monitor_protocol::call::{Call, Tag};
use monitor_sys::clock;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::mpsc::Sender;
use tokio::time::timeout;

/// What has become of a command.
pub enum ExecutedCommand {
    /// It has ended.
    Ended(ExecutionResult),
    /// It has opened a session; the result, if that can begin.
    Opened(OpenedSession, ExecutionResult),
}

impl From<ExecutionResult> for ExecutedCommand {
    fn from(result: ExecutionResult) -> Self {
        Self::Ended(result)
    }
}

/// What executes commands.
#[derive(Clone)]
pub struct CommandRunner {
    /// Where connections inside the daemon are opened.
    pub requests: Sender<DaemonRequest>,
    /// Their users.
    pub users: CommandUsers,
    /// The nodes whose users may control processes, as a node set.
    pub control_from: String,
}

impl CommandRunner {
    /// Executes a command, unless its time is over.
    pub async fn execute(self, command: Execution) -> ExecutedCommand {
        let rights = match self.may_control(&command.origin) {
            true => LoopbackRights::Control,
            false => LoopbackRights::OtherNode,
        };
        match FollowRequest::from_payload(&command.payload) {
            None => self.reply(command, rights).await.into(),
            Some(Ok(request)) => self.open(command, request, rights).await,
            Some(Err(why)) => ExecutionResult::Refused(why).into(),
        }
    }

    /// Connects as the user of a command.
    async fn connect(
        &self,
        (uid, until): (u32, Ns),
        rights: LoopbackRights,
    ) -> Result<LoopbackClient, ExecutionResult> {
        let peer = self.users.find(uid).await.map_err(ExecutionResult::Refused)?;
        let client = LoopbackClient::connect_with_rights(&self.requests, peer, rights).await;
        let client = client.map_err(ExecutionResult::Refused)?;
        if clock::boot() >= until { Err(ExecutionResult::Expired) } else { Ok(client) }
    }

    /// Opens a session for lines that are followed.
    async fn open(
        &self,
        command: Execution,
        request: FollowRequest,
        rights: LoopbackRights,
    ) -> ExecutedCommand {
        let Execution { origin, uid, until, .. } = command;
        let FollowRequest { id, lines } = request;
        for line in &lines {
            if let Err(why) = check_line(line.as_bytes(), (rights, LineUse::Session)) {
                return ExecutionResult::Refused(why).into();
            }
        }
        match self.connect((uid, until), rights).await {
            Ok(client) => {
                let key = SourceKey { origin, id };
                let result = ExecutionResult::Executed(reply_bytes(Ok(String::new())));
                ExecutedCommand::Opened(OpenedSession { key, client, lines }, result)
            }
            Err(result) => result.into(),
        }
    }

    /// Executes a line, and returns its reply.
    async fn reply(&self, command: Execution, rights: LoopbackRights) -> ExecutionResult {
        let Execution { uid, payload, until, .. } = command;
        let line = match check_line(&payload, (rights, LineUse::Reply)) {
            Ok(line) => line,
            Err(why) => return ExecutionResult::Refused(why),
        };
        let peer = match self.users.find(uid).await {
            Ok(peer) => peer,
            Err(why) => return ExecutionResult::Refused(why),
        };
        let CheckedLine { text, tag } = line;
        let sent = (text.into(), until);
        let mut client = LoopbackLine::send(&self.requests, (peer, rights), sent).await;
        let limit = Duration::from_nanos(MAX_WITHIN.0);
        let why = match timeout(limit, reply_of(&mut client, tag.as_ref())).await {
            Ok(Ok(reply)) => return ExecutionResult::Executed(reply_bytes(Ok(reply))),
            Ok(Err(NoLines::NotHandled(LineRefusal::Late))) => return ExecutionResult::Expired,
            Ok(Err(NoLines::NotHandled(LineRefusal::Refused(why)))) => {
                return ExecutionResult::Refused(why);
            }
            Ok(Err(NoLines::Ended)) => "the daemon is stopping",
            // The caller does not wait for longer.
            Err(_) => "there was no reply in time",
        };
        ExecutionResult::Executed(reply_bytes(Err(why.to_owned())))
    }

    /// Whether users of a node may control processes here.
    pub fn may_control(&self, origin: &str) -> bool {
        let node = BTreeSet::from([origin.to_owned()]);
        expand(&self.control_from, &node).is_ok_and(|nodes| nodes.contains(origin))
    }
}

/// A line that was checked.
struct CheckedLine {
    text: String,
    /// The tag of a call; `None` for a request.
    tag: Option<Tag>,
}

/// What a line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineUse {
    /// Its reply.
    Reply,
    /// A session, whose lines are followed.
    Session,
}

fn check_line(
    payload: &[u8],
    (rights, line_use): (LoopbackRights, LineUse),
) -> Result<CheckedLine, String> {
    let text = std::str::from_utf8(payload).map_err(|_| "the line is no text".to_owned())?;
    if text.contains('\n') {
        return Err("a command is one line".to_owned());
    }
    if is_request(payload) {
        return Ok(CheckedLine { text: text.to_owned(), tag: None });
    }
    let (tag, call) = Call::from_line(payload).map_err(|fault| fault.message)?;
    let method = call.method();
    match call {
        Call::Gather(_)
        | Call::Follow(_)
        | Call::ClusterSession
        | Call::SendFile(_)
        | Call::MigrateProcess(_) => {
            return Err("a command sends no further ones".to_owned());
        }
        Call::Monitor(request) => check_monitor(&request, (rights, line_use))?,
        call if rights == LoopbackRights::OtherNode && !only_observes(&call) => {
            let why = "users of other nodes may only observe: see cluster.control_from";
            return Err(format!("{method}: {why}"));
        }
        _ => {}
    }
    let tag = tag.ok_or_else(|| format!("{method}: without an id there is no reply"))?;
    Ok(CheckedLine { text: text.to_owned(), tag: Some(tag) })
}

/// A series is followed, or is left there on a lease, with the first sample as the reply.
fn check_monitor(
    request: &MonitorRequest,
    (rights, line_use): (LoopbackRights, LineUse),
) -> Result<(), String> {
    let why = match (line_use, request.every_ns.is_some(), request.lease_ns.is_some()) {
        (LineUse::Reply, true, true) if rights == LoopbackRights::OtherNode => {
            "a series that is left there changes the node: see cluster.control_from"
        }
        (LineUse::Reply, true, false) => "a series of samples is no reply: omit every_ns",
        _ if request.replace && rights == LoopbackRights::OtherNode => {
            "a series that replaces another one changes the node: see cluster.control_from"
        }
        // It would go on when it is not followed any longer.
        (LineUse::Session, _, true) => "a series that is followed has no lease: omit lease_ns",
        _ => return Ok(()),
    };
    Err(format!("monitor: {why}"))
}

/// Whether a call changes nothing, whatever its parameters are.
const fn only_observes(call: &Call) -> bool {
    matches!(
        call,
        Call::Hello
            | Call::Monitor(_)
            | Call::List
            | Call::Rules
            | Call::Probes
            | Call::Status
            | Call::NodeStatus
            | Call::Members
            | Call::Migrations
    )
}

/// The tag of a line of the daemon.
#[derive(Deserialize)]
struct TaggedLine {
    #[serde(default)]
    id: Option<Tag>,
}

/// The reply to the line of a connection; `tag` is that of a call.
async fn reply_of(client: &mut LoopbackLine, tag: Option<&Tag>) -> Result<String, NoLines> {
    loop {
        let chunk = client.next_lines().await?;
        for found in lines(&chunk) {
            let is_reply = match tag {
                // A request stores nothing that could send a line before its reply.
                None => true,
                Some(tag) => serde_json::from_slice::<TaggedLine>(found)
                    .is_ok_and(|it| it.id.as_ref() == Some(tag)),
            };
            if is_reply {
                return Ok(String::from_utf8_lossy(found).into_owned());
            }
        }
    }
}

fn reply_bytes(reply: Result<String, String>) -> Vec<u8> {
    let bytes = ExecutionReply::from(reply).to_bytes();
    if bytes.len() <= MAX_RESULT {
        return bytes;
    }
    let why = format!("the reply has {} bytes; at most {MAX_RESULT} are sent", bytes.len());
    ExecutionReply::Error(why).to_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, rights: LoopbackRights, want: Result<(), &str>) {
        let got = check_line(line.as_bytes(), (rights, LineUse::Reply)).map(drop);
        assert_eq!(got, want.map_err(str::to_owned), "{line}");
    }

    #[test]
    fn a_user_of_another_node_observes_and_a_named_one_may_do_more() {
        use LoopbackRights::{Control, OtherNode};
        check("1 [] stop([2])", OtherNode, Ok(()));
        check(r#"{"id":1,"method":"node_status"}"#, OtherNode, Ok(()));
        let why = "cancel: users of other nodes may only observe: see cluster.control_from";
        check(r#"{"id":1,"method":"cancel"}"#, OtherNode, Err(why));
        check(r#"{"id":1,"method":"cancel"}"#, Control, Ok(()));
        let nested = r#"{"id":1,"method":"gather","params":{"line":"x"}}"#;
        check(nested, Control, Err("a command sends no further ones"));
        let series = r#"{"id":1,"method":"monitor","params":{"every_ns":1}}"#;
        let why = "monitor: a series of samples is no reply: omit every_ns";
        check(series, Control, Err(why));
        let session = (OtherNode, LineUse::Session);
        assert!(check_line(series.as_bytes(), session).is_ok());
        let replacing = r#"{"id":1,"method":"monitor","params":{"every_ns":1,"replace":true}}"#;
        assert!(check_line(replacing.as_bytes(), session).is_err());
        assert!(check_line(replacing.as_bytes(), (Control, LineUse::Session)).is_ok());
        let leased = r#"{"id":1,"method":"monitor","params":{"every_ns":1,"lease_ns":1}}"#;
        assert!(check_line(leased.as_bytes(), session).is_err());
        let why = "monitor: a series that is left there changes the node: see cluster.control_from";
        check(leased, OtherNode, Err(why));
        check(leased, Control, Ok(()));
        let attach = br#"{"id":1,"method":"attach","params":{"id":"a"}}"#;
        assert!(check_line(attach, session).is_err());
        assert!(check_line(attach, (Control, LineUse::Session)).is_ok());
        assert!(check_line(nested.as_bytes(), session).is_err());
        assert!(check_line(br#"{"id":1,"method":"cancel"}"#, session).is_err());
        check(r#"{"method":"hello"}"#, OtherNode, Err("hello: without an id there is no reply"));
        check("1 [] a()\n2 [] b()", Control, Err("a command is one line"));
    }

    #[test]
    fn control_is_for_users_of_the_nodes_that_are_named() {
        let runner = |set: &str| CommandRunner {
            requests: tokio::sync::mpsc::channel(1).0,
            users: CommandUsers::default(),
            control_from: set.to_owned(),
        };
        assert!(!runner("").may_control("n1"));
        assert!(runner("n[1-3]").may_control("n2"));
        assert!(!runner("n[1-3]!n2").may_control("n2"));
        assert!(runner("@*!n2").may_control("n1"));
        assert!(!runner("@*!n2").may_control("n2"));
    }
}
