//! Tools of this node that follow what nodes send.
//!
//! In: calls `follow`, connections that close, results of commands, messages of nodes, changes
//! among the members. Out: commands and messages; for each tool its reply, and then notices. A tool
//! that reads too slowly loses lines, and gets their number.

use super::gathering::{MAX_LINE, names, with_hint, within};
use super::job::FollowCall;
use crate::outbox::Outbox;
use monitor_cluster::bus::Bus;
use monitor_cluster::bus::entry::{EntryId, Targets};
use monitor_cluster::bus::membership::{Membership, MembershipChange};
use monitor_cluster::command::ledger::FileLedger;
use monitor_cluster::command::{CallOptions, CallResult, CommandNode, CommandOutcome};
use monitor_cluster::follow::caller::{FollowEvent, FollowKey, FollowOutput, FollowState, Follows};
use monitor_cluster::follow::message::{FollowId, FollowMessage, FollowRequest};
use monitor_model::{Ns, Refusal, Status};
use monitor_protocol::Conn;
use monitor_protocol::cluster::{Follow, FollowNotice, Followed, FollowedState};
use monitor_protocol::reply;
use monitor_sys::clock;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Number of sets that one user follows.
const MAX_OF_USER: usize = 32;
/// Number of lines that nodes execute for one set.
const MAX_LINES: usize = 32;
/// How long a node that comes later may take to begin.
const BEGIN_WITHIN: Ns = Ns(5_000_000_000);

/// The node on its bus, for one step.
pub struct BusNode<'a> {
    /// The node.
    pub node: &'a mut CommandNode<FileLedger>,
    /// Its bus.
    pub bus: &'a mut dyn Bus,
}

/// All that is followed, and for which tools.
pub struct Following {
    follows: Follows,
    tools: BTreeMap<FollowKey, FollowTool>,
    /// Commands that begin sessions, until their result.
    commands: HashMap<EntryId, FollowId>,
}

/// A tool that follows a set.
struct FollowTool {
    conn: Conn,
    uid: u32,
    outbox: Arc<Outbox>,
    lines: Vec<String>,
}

impl Following {
    /// Nothing is followed. `start` is a random number of this start.
    pub fn new(start: u64) -> Self {
        let (tools, commands) = (BTreeMap::new(), HashMap::new());
        Self { follows: Follows::new(start), tools, commands }
    }

    /// When the next `tick` is due.
    pub fn due(&self) -> Option<Ns> {
        self.follows.due()
    }

    /// Follows a set for a tool, and replies to it.
    pub fn start(&mut self, call: FollowCall, mut on: BusNode<'_>) {
        let (outbox, tag) = (Arc::clone(&call.outbox), call.tag.clone());
        match self.begin(call, &mut on) {
            Ok(followed) => outbox.reply(reply::result_line(&tag, followed)),
            Err(refusal) => outbox.reply(reply::refusal_line(&tag, &refusal)),
        }
    }

    fn begin(&mut self, call: FollowCall, on: &mut BusNode<'_>) -> Result<Followed, Refusal> {
        let FollowCall { conn, outbox, uid, params: Follow { nodes, lines, within_ns }, .. } = call;
        let within = within(within_ns)?;
        check_lines(&lines)?;
        let members = on.node.members();
        let names = match &nodes {
            Some(text) => names(text, members)?,
            None => members.iter().map(|member| member.node.clone()).collect(),
        };
        if self.tools.values().filter(|tool| tool.uid == uid).count() >= MAX_OF_USER {
            return Err(Refusal::limit(format!("the user follows {MAX_OF_USER} sets of nodes")));
        }
        let now = clock::now();
        let (key, id) = self.follows.add(now.boot, nodes, &names).map_err(Refusal::limit)?;
        let tool = FollowTool { conn, uid, outbox, lines };
        let nodes = names.iter().cloned().collect();
        if let Err(why) = self.command((&tool, id), (Targets::Names(names), within), on) {
            // No command was sent, so no node has anything to cancel.
            drop(self.follows.remove(key));
            return Err(Refusal::new(Status::Unreach, why));
        }
        self.tools.insert(key, tool);
        Ok(Followed { follow: key.0, sent_unix_ns: now.unix.0, nodes })
    }

    /// Sends the command that begins sessions.
    fn command(
        &mut self,
        (tool, id): (&FollowTool, FollowId),
        (targets, within): (Targets, Ns),
        on: &mut BusNode<'_>,
    ) -> Result<(), String> {
        let payload = FollowRequest { id, lines: tool.lines.clone() }.to_payload();
        let (begin_within, reply_within) = (within, within);
        let options = CallOptions { targets, uid: tool.uid, begin_within, reply_within, payload };
        let sent = on.node.call(clock::boot(), on.bus, options)?;
        self.commands.insert(sent, id);
        Ok(())
    }

    /// Ends what a connection follows.
    pub fn close(&mut self, conn: Conn, on: BusNode<'_>) {
        let closed: Vec<_> = self.tools.extract_if(.., |_, tool| tool.conn == conn).collect();
        let outputs = closed.into_iter().flat_map(|(key, _)| self.follows.remove(key)).collect();
        self.carry_out(outputs, on);
    }

    /// Handles the result of a command, if it began sessions; otherwise returns it.
    pub fn concluded(&mut self, result: CallResult, on: BusNode<'_>) -> Option<CallResult> {
        let Some(id) = self.commands.remove(&result.id) else { return Some(result) };
        let names: BTreeSet<&str> = on.node.members().iter().map(|it| it.node.as_str()).collect();
        let mut outputs = Vec::new();
        for (node, outcome) in result.outcomes {
            outputs.extend(match outcome {
                CommandOutcome::Executed(_) => self.follows.begun(id, &node),
                CommandOutcome::Expired => self.follows.not_begun(id, &node, FollowState::Expired),
                CommandOutcome::Missing => self.follows.not_begun(id, &node, FollowState::Missing),
                CommandOutcome::Refused(why) => {
                    let why = with_hint(why, &node, &names);
                    self.follows.not_begun(id, &node, FollowState::Refused(why))
                }
            });
        }
        self.carry_out(outputs, on);
        None
    }

    /// Handles a message of a node that is followed.
    pub fn message(&mut self, from: &str, message: FollowMessage, on: BusNode<'_>) {
        let outputs = self.follows.message(clock::boot(), from, message);
        self.carry_out(outputs, on);
    }

    /// Handles a change among the members.
    pub fn members(&mut self, change: &MembershipChange, on: BusNode<'_>) {
        let outputs = match change {
            MembershipChange::Joined(it) => {
                self.follows.joined(clock::boot(), &it.node, on.node.members())
            }
            MembershipChange::Left(it) => self.follows.gone(&it.node, &FollowState::Left),
            MembershipChange::Removed(it) => self.follows.gone(&it.node, &FollowState::Dead),
            MembershipChange::Unchanged
            | MembershipChange::NameInUse(_)
            | MembershipChange::Draining(_) => return,
        };
        self.carry_out(outputs, on);
    }

    /// Handles the passing of time.
    pub fn tick(&mut self, members: &Membership) -> Vec<FollowOutput> {
        self.follows.tick(clock::boot(), members)
    }

    /// Sends messages, begins sessions, and notifies tools.
    pub fn carry_out(&mut self, outputs: Vec<FollowOutput>, mut on: BusNode<'_>) {
        for output in outputs {
            match output {
                FollowOutput::Send(to, message) => on.bus.send(&to, message.to_bytes()),
                FollowOutput::Begin(key, node, id) => self.begin_on(key, (node, id), &mut on),
                FollowOutput::Event(key, node, event) => self.notify(key, &node, event),
            }
        }
    }

    fn begin_on(&mut self, key: FollowKey, (node, id): (String, FollowId), on: &mut BusNode<'_>) {
        let Some(tool) = self.tools.remove(&key) else { return };
        let targets = Targets::Names([node.clone()].into());
        let sent = self.command((&tool, id), (targets, BEGIN_WITHIN), on);
        self.tools.insert(key, tool);
        if let Err(why) = sent
            && let Some(FollowOutput::Event(key, node, event)) =
                self.follows.not_begun(id, &node, FollowState::Interrupted(why))
        {
            self.notify(key, &node, event);
        }
    }

    fn notify(&mut self, key: FollowKey, node: &str, event: FollowEvent) {
        let Some(tool) = self.tools.get(&key) else { return };
        let notice =
            FollowNotice { follow: key.0, node: node.to_owned(), ..FollowNotice::default() };
        match event {
            FollowEvent::Lines { first, lost, text } => {
                let lost = notify_lines(&tool.outbox, notice, (first, lost, &text));
                self.follows.undelivered(key, node, lost);
            }
            FollowEvent::Lost(lost, why) => {
                let why = (!why.is_empty()).then_some(why);
                tool.outbox.notify(FollowNotice { lost, why, ..notice }.to_line());
            }
            FollowEvent::State(state) => {
                let (state, why) = state_of(state);
                tool.outbox.notify(FollowNotice { state: Some(state), why, ..notice }.to_line());
            }
        }
    }
}

fn check_lines(lines: &[String]) -> Result<(), Refusal> {
    let bytes: usize = lines.iter().map(String::len).sum();
    match lines {
        [] => Err(Refusal::bad("lines: expected a request or a call")),
        _ if lines.len() > MAX_LINES => {
            Err(Refusal::bad(format!("lines: {} of them; at most {MAX_LINES}", lines.len())))
        }
        _ if bytes > MAX_LINE => {
            Err(Refusal::bad(format!("lines: they have {bytes} bytes; at most {MAX_LINE}")))
        }
        _ => Ok(()),
    }
}

/// Notifies a tool of lines; returns the number of those that found no room after the last one
/// that did.
fn notify_lines(
    outbox: &Outbox,
    notice: FollowNotice,
    (first, mut lost, text): (u64, u64, &[u8]),
) -> u64 {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    for (seq, line) in (first..).zip(lines) {
        let line = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line));
        let notice =
            FollowNotice { line: Some(line.into_owned()), seq: Some(seq), lost, ..notice.clone() };
        let has_room = outbox.try_push(notice.to_line());
        lost = if has_room { 0 } else { lost + 1 };
    }
    lost
}

fn state_of(state: FollowState) -> (FollowedState, Option<String>) {
    match state {
        FollowState::Open => (FollowedState::Open, None),
        FollowState::Refused(why) => (FollowedState::Refused, Some(why)),
        FollowState::Expired => (FollowedState::Expired, None),
        FollowState::Missing => (FollowedState::Missing, None),
        FollowState::Silent => (FollowedState::Silent, None),
        FollowState::Interrupted(why) => (FollowedState::Interrupted, Some(why)),
        FollowState::Left => (FollowedState::Left, None),
        FollowState::Dead => (FollowedState::Dead, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(outbox: &Outbox) -> Vec<FollowNotice> {
        let read = |line: bytes::Bytes| {
            let line: serde_json::Value = serde_json::from_slice(&line).expect("a line of JSON");
            serde_json::from_value(line["params"].clone()).expect("a notice")
        };
        outbox.take_all().into_iter().map(read).collect()
    }

    #[test]
    fn a_line_that_finds_no_room_is_counted_in_the_next_notice() {
        let outbox = Outbox::new(250);
        let notice = FollowNotice { follow: 1, node: "n1".into(), ..FollowNotice::default() };
        let lost = notify_lines(&outbox, notice.clone(), (4, 3, b"a\nb\nc\nd\ne\n"));
        let first = taken(&outbox);
        let got: Vec<_> = first.iter().map(|it| (it.seq, it.lost, it.line.as_deref())).collect();
        assert_eq!(got[0], (Some(4), 3, Some("a")));
        assert_eq!(got.len() as u64 + lost, 5, "{got:?}");
        assert!(lost > 0 && got.iter().skip(1).all(|it| it.1 == 0), "{got:?}");
        assert_eq!(notify_lines(&outbox, notice, (9, lost, b"f\n")), 0);
        let next = taken(&outbox);
        assert_eq!((next[0].seq, next[0].lost), (Some(9), lost));
    }

    #[test]
    fn lines_to_follow_are_few_and_short() {
        let line = || "1 [] a()".to_owned();
        assert!(check_lines(&[line()]).is_ok());
        assert!(check_lines(&[]).is_err());
        assert!(check_lines(&vec![line(); MAX_LINES + 1]).is_err());
        assert!(check_lines(&["x".repeat(MAX_LINE + 1)]).is_err());
    }
}
