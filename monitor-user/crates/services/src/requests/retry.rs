//! Requests that wait until files are read, and the lines of their sessions behind them.
//!
//! In: a request whose service does not know yet whether it is possible. Out: the same again, once
//! files were read; other sessions go on meanwhile. The lines of a session stay in order.

use super::packet::ResultTarget;
use super::parked::ParkedRequest;
use super::{RequestEngine, Turn};
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

    /// Handles the lines whose session does not wait.
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
