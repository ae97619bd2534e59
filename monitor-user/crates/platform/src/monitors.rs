//! The monitors of a node, as tools of the language have them: calls on the monitoring service in
//! the name of a tool, under its limits and through its eyes.
//!
//! There is one engine of monitors on a node, which is above all services. Whoever makes a ground
//! gives it a way there; what is made here knows only that way.

use super::PlatformEvent;
use monitor_event::outcome::ProcessResults;
use monitor_event::outcome::Refusal;
use monitor_event::right::{SessionId, Tool};
use monitor_event::thread::Ticket;
use monitor_model::id::Ns;
use monitor_omis::Status;
use monitor_protocol::call::Call;
use std::os::fd::BorrowedFd;

/// Who has monitors.
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

    /// Becomes readable when there is something to tell.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// When there will be something to tell, if nothing wakes before.
    fn next_poll(&self) -> Option<Ns> {
        None
    }

    /// What there is to tell.
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
        Err(Refusal::new(Status::UNSUPPORTED, "nobody serves monitors here: see monitor serve"))
    }

    fn session_ended(&mut self, _: SessionId) {}

    fn poll_events(&mut self, _: Ns) -> Vec<PlatformEvent> {
        Vec::new()
    }
}
