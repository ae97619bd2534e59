//! Carries out a line of `ctl`, from its text to its end.

use super::copy::distribution;
use super::live::LiveSession;
use crate::lock::lock;
use monitor_control::session::{Remaining, SessionError, launcher_gone};
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// Carries out a line of `ctl`; dropped before its end, it is abandoned.
///
/// # Errors
///
/// As the record or the launcher refuses it, or copies fail.
pub async fn carry_out(session: Arc<LiveSession>, line: Vec<u8>) -> Result<(), SessionError> {
    match session.record.control(&line)? {
        Remaining::Nothing => Ok(()),
        Remaining::Ask(command) => session.ask(command).await,
        Remaining::Close(stream) => {
            session.close(stream);
            Ok(())
        }
        // The kernel frees memory until it is below a limit, which takes its time.
        Remaining::Limit(limit) => spawn_blocking(move || lock(&session.cgroups).limit(limit))
            .await
            .unwrap_or_else(|_| Err(launcher_gone())),
        Remaining::Copy(width, targets) => distribution::clone(session, width, targets).await,
        Remaining::Wipe => {
            session.record.end();
            session.record.gone().await;
            Ok(())
        }
    }
}
