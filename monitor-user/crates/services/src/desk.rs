//! What services need of the engine: the requests that a session has stored, and its own events.
//!
//! The engine implements it, since it runs what is stored; services name things by their numbers.

use super::counter::Shelf;
use super::diag::Book;
use super::guest::Brought;
use monitor_event::Run;
use monitor_event::outcome::{Done, Refusal};
use monitor_event::right::SessionId;
use monitor_event::thread::Ticket;
use monitor_omis::{RequestId, Value};

/// The stored requests and the events of one session on one node.
pub trait Desk {
    /// Lets a stored request run when its event occurs.
    fn enable(&mut self, id: RequestId) -> Result<(), Refusal>;
    /// Lets it run no more; what runs, ends.
    fn disable(&mut self, id: RequestId) -> Result<(), Refusal>;
    /// Forgets it.
    fn delete(&mut self, id: RequestId) -> Result<(), Refusal>;
    /// Where each of its actions is run, as they stand.
    fn places(&self, id: RequestId) -> Result<Vec<Run>, Refusal>;
    /// Makes an event of the user's own.
    fn define_event(&mut self, number: i64) -> Result<(), Refusal>;
    /// Forgets it, and every request that waits for it.
    fn destroy_event(&mut self, number: i64) -> Result<(), Refusal>;
    /// Whether there is that event.
    fn has_event(&self, number: i64) -> bool;
    /// Raises it; what waits for it runs after the list that raised it.
    fn raise(&mut self, number: i64, params: &[Value]) -> Result<(), Refusal>;
    /// Makes a service of the tool's own, of its name, the names of its parameters and its body.
    fn define_service(&mut self, values: &[Value]) -> Result<(), Refusal>;
    /// The prefixes of the extensions that are there.
    fn prefixes(&self) -> Vec<String>;
    /// Takes in services that a tool of a user brings.
    fn bring(
        &mut self,
        owner: (SessionId, u32),
        prefix: String,
        services: Vec<Brought>,
    ) -> Result<(), Refusal>;
    /// Those that are brought for this user.
    fn brought(&self, uid: u32) -> Vec<Brought>;
    /// Answers a call of a service that this tool brings.
    fn answer(&mut self, call: Ticket, done: Done) -> Result<(), Refusal>;
    /// The instruments of the node.
    fn shelf(&self) -> &Shelf;
    /// The same, to be changed.
    fn shelf_mut(&mut self) -> &mut Shelf;
    /// The unusual events of the node.
    fn diagnoses(&mut self) -> &mut Book;
}
