//! Requests that wait until files are read, and the lines of their sessions behind them.
//!
//! In: a request whose service cannot tell yet whether it is possible. Out: the same again, once
//! files were read; other sessions go on meanwhile. The lines of a session stay in order.

use super::packet::{PacketBody, ResultTarget};
use super::{RequestEngine, Turn};
use monitor_event::SessionId;
use monitor_protocol::Conn;
use std::collections::VecDeque;

/// Most bytes of lines that wait; beyond it, lines are handled before the request ahead of them.
const MAX_LINE_BYTES: usize = 4 << 20;

/// What waits.
#[derive(Default)]
pub struct Parked {
    /// The requests.
    pub requests: Vec<ParkedRequest>,
    /// Lines of their sessions.
    pub lines: VecDeque<(Conn, Vec<u8>)>,
}

/// A request that waits.
pub struct ParkedRequest {
    /// Its session.
    pub session: SessionId,
    /// What is executed.
    pub body: PacketBody,
    /// Where its result goes.
    pub target: ResultTarget,
    /// Its nesting in events that raise each other.
    pub depth: u32,
}

impl RequestEngine {
    /// Whether a line waits for an earlier one of its session.
    pub(super) fn park_line(&mut self, conn: Conn, line: &[u8]) -> bool {
        let is_behind = self.is_parked(conn)
            && self.parked.lines.iter().map(|(_, line)| line.len()).sum::<usize>() < MAX_LINE_BYTES;
        if is_behind {
            self.parked.lines.push_back((conn, line.to_vec()));
        }
        is_behind
    }

    fn is_parked(&self, conn: Conn) -> bool {
        let id = self.session_id(conn);
        self.parked.requests.iter().any(|it| it.session == id)
    }

    /// Executes what waits again: files were read.
    pub(super) fn retry_parked(&mut self, turn: &mut Turn<'_>) {
        for it in std::mem::take(&mut self.parked.requests) {
            if !self.is_awaited(&it) {
                continue;
            }
            if let Some(done) = self.execute(it.session, it.body, (it.target, it.depth), turn) {
                self.deliver(it.target, done, turn);
            }
        }
    }

    /// Handles the lines whose session waits no more.
    pub(super) fn handle_parked_lines(&mut self, turn: &mut Turn<'_>) {
        let over: Vec<ParkedRequest> = std::mem::take(&mut self.parked.requests);
        self.parked.requests = over.into_iter().filter(|it| self.is_awaited(it)).collect();
        let is_next = |engine: &Self| {
            engine.parked.lines.iter().position(|(conn, _)| !engine.is_parked(*conn))
        };
        while let Some(place) = is_next(self) {
            let Some((conn, line)) = self.parked.lines.remove(place) else { return };
            self.handle_line(conn, &line, turn);
        }
    }

    /// Whether the result of a request is still awaited: it may have timed out.
    fn is_awaited(&self, it: &ParkedRequest) -> bool {
        let is_waiting = match it.target {
            ResultTarget::Local(part) => {
                let execution = self.executions.get(&part.execution);
                execution.is_some_and(|execution| {
                    execution.waiting.contains_key(&(part.member, self.shared.node))
                })
            }
            ResultTarget::Remote(..) => true,
        };
        is_waiting && self.sessions.contains_key(&it.session)
    }
}
