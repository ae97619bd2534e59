//! The flight recorder of a node: what happened in the last minutes, as a file.

use monitor_event::outcome::ProcessResults;
use monitor_event::outcome::Refusal;
use monitor_event::right::Tool;
use monitor_event::thread::Ticket;
use monitor_model::id::Ns;
use std::path::Path;

/// Who has the last minutes.
pub trait Recorder {
    /// Begins to write the last so much time into a file, with the rights of the tool's user; all
    /// that was kept, if nothing is said. What becomes of it is said at once, or later with the
    /// ticket: the name of the file, since a folder gets a new one each time.
    fn save_recording(
        &mut self,
        ticket: Ticket,
        tool: &Tool,
        wanted: (&Path, Option<Ns>),
    ) -> Result<Option<ProcessResults>, Refusal>;
}
