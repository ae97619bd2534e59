//! Requests that wait until files are read, and the lines of sessions behind what is pending.
//!
//! In: a request whose service does not know yet whether it is possible. Out: the same again, once
//! files were read; other sessions go on meanwhile. The lines of a session stay in order: behind
//! such a request, and in a strict session behind any that this node has not answered yet.

use super::execution::Execution;
use super::packet::ResultTarget;
use super::parked::ParkedRequest;
use super::{RequestEngine, Turn};
use monitor_event::SessionId;
use monitor_omis::Dialect;
use monitor_protocol::Conn;

/// Most bytes of lines that wait; beyond it, lines are handled before the request ahead of them.
const MAX_LINE_BYTES: usize = 4 << 20;

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
        self.parked.requests.iter().any(|it| it.session == id) || self.is_strictly_behind(id)
    }

    /// Whether the session is strict, and a line of it waits for this node alone: such lines are
    /// processed first in, first out (OMIS 1.0, section 5.5).
    fn is_strictly_behind(&self, id: SessionId) -> bool {
        let is_strict =
            self.sessions.get(&id).is_some_and(|it| it.session.dialect == Dialect::Strict);
        let is_local = |it: &Execution| {
            let mut nodes = it.waiting.keys().map(|(_, node)| *node);
            !it.waiting.is_empty() && nodes.all(|node| node == self.shared.node)
        };
        let mut own = self.executions.values().filter(|it| it.session == id && !it.is_event);
        is_strict && own.any(is_local)
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

    /// Handles the lines whose session does not wait; returns their number.
    pub(super) fn handle_parked_lines(&mut self, turn: &mut Turn<'_>) -> usize {
        let over: Vec<ParkedRequest> = std::mem::take(&mut self.parked.requests);
        self.parked.requests = over.into_iter().filter(|it| self.is_awaited(it)).collect();
        let is_next = |engine: &Self| {
            engine.parked.lines.iter().position(|(conn, _)| !engine.is_parked(*conn))
        };
        let mut n_lines = 0;
        while let Some(place) = is_next(self) {
            let Some((conn, line)) = self.parked.lines.remove(place) else { return n_lines };
            self.handle_line(conn, &line, turn);
            n_lines += 1;
        }
        n_lines
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
