//! The processes of a node, as they are now.

use monitor_event::outcome::Refusal;
use monitor_model::id::{Identity, Pid};
use monitor_model::sample::Process;

/// Who is there.
pub trait Processes {
    /// These, ascending by pid; who is not there is left out.
    fn read_processes(&mut self, pids: &[Pid]) -> Result<Vec<Process>, Refusal>;

    /// All of them.
    fn all_processes(&mut self) -> Result<Vec<Process>, Refusal>;

    /// Fills in command lines, cgroups and paths.
    fn describe(&mut self, processes: &mut [Process]);

    /// Its arguments, the name first; nothing, if it has ended or has none.
    fn arguments(&mut self, id: Identity) -> Option<Vec<Vec<u8>>>;
}
