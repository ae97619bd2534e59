//! Work that blocks, on a thread for it.
//!
//! In: a function. Out: its result, or that the daemon ends.

use monitor_model::{Refusal, Status};
use tokio::task::spawn_blocking;

/// Waits for a function that blocks.
///
/// # Errors
/// Its own, or the daemon ends.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let stopping = |_| Refusal::new(Status::NotAvailable, "the daemon is stopping");
    spawn_blocking(work).await.map_err(stopping)?
}
