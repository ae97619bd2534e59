//! The calls of MPI of the ranks of a job, counted and timed for a while.
//!
//! ```text
//!  ranks -> questions (files, stacks) -> functions -> probes -> sums in the kernel -> profile
//! ```
//!
//! In: ranks with their processes, what opens the profiler, and what answers questions about their
//! files and their memory. Out: their profile, and what it lacks. The probes are in these processes
//! alone, and gone when the session is dropped, also by the death of the program.

mod functions;
mod measured;
mod notes;
mod options;
mod overhead;
mod profile;
mod session;
pub mod values;

pub use measured::MeasuredCalls;
use monitor_event::outcome::{ProcessResults, Refusal};
use monitor_event::right::Tool;
use monitor_event::thread::Ticket;
pub use options::{CallError, CallOptions, CallSpec};
pub use session::CallSession;

/// Measures calls of MPI for tools.
pub trait CallMeasurer {
    /// Begins to measure; the values ([`values::values`]) come at once, or later with the ticket.
    ///
    /// # Errors
    /// If it cannot be begun, or too many measurements are running.
    fn measure_calls(
        &mut self,
        ticket: Ticket,
        tool: &Tool,
        spec: CallSpec,
    ) -> Result<Option<ProcessResults>, Refusal>;
}
