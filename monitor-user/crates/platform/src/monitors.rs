//! The monitors of a node, as tools of the language use them: calls on the monitoring service in
//! the name of a tool, under its limits and with its credentials.
//!
//! One engine of monitors runs on a node, above all services. The owner of a platform passes this
//! interface to it; nothing here depends on that engine.

use super::PlatformEvent;
use monitor_event::outcome::{ProcessResults, Refusal};
use monitor_event::right::{SessionId, Tool};
use monitor_event::thread::Ticket;
use monitor_model::Ns;
use monitor_omis::Status;
use monitor_protocol::call::Call;
use std::os::fd::BorrowedFd;

/// Calls on the engine of monitors.
pub trait MonitorCalls: Send {
    /// Calls in the name of a tool. What becomes of it is said at once, or later with the ticket.
    fn call(
        &mut self,
        at: (Ticket, Ns),
        tool: &Tool,
        call: Call,
    ) -> Result<Option<ProcessResults>, Refusal>;

    /// A tool has gone, and its monitors with it.
    fn session_ended(&mut self, session: SessionId);

    /// Becomes readable when there are events.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The time of the next event, if nothing wakes before.
    fn next_poll(&self) -> Option<Ns> {
        None
    }

    /// The events since the last call.
    fn poll_events(&mut self, now: Ns) -> Vec<PlatformEvent>;
}

/// A node that has monitors.
pub trait HasMonitors {
    /// The way to them.
    fn monitors(&mut self) -> &mut dyn MonitorCalls;
}

/// A way that leads nowhere.
pub struct NoMonitors;

impl MonitorCalls for NoMonitors {
    fn call(
        &mut self,
        _: (Ticket, Ns),
        _: &Tool,
        _: Call,
    ) -> Result<Option<ProcessResults>, Refusal> {
        Err(Refusal::new(Status::UNSUPPORTED, "no monitors run here: see monitor serve"))
    }

    fn session_ended(&mut self, _: SessionId) {}

    fn poll_events(&mut self, _: Ns) -> Vec<PlatformEvent> {
        Vec::new()
    }
}
