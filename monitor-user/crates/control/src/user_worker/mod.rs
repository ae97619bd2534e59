//! User workers: helper processes, one per user, that control processes with that user's rights.
//!
//! ```text
//!  WorkerProxy (in the daemon) <-- frames on a socket --> main (process of the user) -> Executor
//! ```
//!
//! In: requests of tools. Out: replies and events. An `Executor` is a `UserWorker` too, for tests
//! and for callers that act with their own rights.

pub mod frame;
pub mod main;
mod pool;
pub(crate) mod process;
mod proxy;
mod role;
mod undo_file;
mod undo_log;
mod user;

pub use super::start::SELF_EXE;
use super::{
    ControlError, Executor, NumberedRequest, ToolId, WorkerEvent, WorkerReply, WorkerRequest,
};
pub use pool::{WorkerPool, undo_left};
pub use proxy::WorkerProxy;
pub use role::WorkerRole;
pub use undo_file::UndoFolder;
pub use user::User;

/// Carries out requests on processes.
pub trait UserWorker {
    /// Carries out a request and waits for the reply.
    fn request(
        &mut self,
        tool: ToolId,
        request: WorkerRequest,
    ) -> Result<WorkerReply, ControlError>;

    /// The events since the last call.
    fn poll_events(&mut self) -> Vec<WorkerEvent>;
}

impl UserWorker for Executor {
    fn request(
        &mut self,
        tool: ToolId,
        request: WorkerRequest,
    ) -> Result<WorkerReply, ControlError> {
        let late = || Err(ControlError::Unsupported("its reply comes later".to_owned()));
        self.execute(&NumberedRequest { number: 0, tool, request }).unwrap_or_else(late)
    }

    fn poll_events(&mut self) -> Vec<WorkerEvent> {
        self.poll();
        self.drain_events()
    }
}
