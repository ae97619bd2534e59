//! A session with its pipes, and the way to its launcher.

use super::super::event_feed::EventFeed;
use super::super::mon_settings::MonSettings;
use super::copy::{CopyContext, IncomingCopy};
use super::input::InputPipe;
use super::slot::SessionSlot;
use crate::lock::lock;
use crate::user_shares::UserShare;
use monitor_control::session::{
    LaunchCommand, Refusal, SessionCgroups, SessionError, SessionRecord, StoredFiles, Stream,
    launcher_gone,
};
use monitor_model::Pid;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::{OnceCell, Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;

/// A command for a launcher, and where the answer goes.
pub type Ask = (LaunchCommand, oneshot::Sender<Result<(), SessionError>>);

/// A session.
pub struct LiveSession {
    /// The process of its launcher.
    pub launcher: Pid,
    /// What is known of it.
    pub record: Arc<SessionRecord>,
    /// The files in its directory.
    pub stored: StoredFiles,
    /// What its program reads.
    pub input: InputPipe,
    /// The tasks that read what it writes: output and errors.
    pub readers: Mutex<[Option<AbortHandle>; 2]>,
    /// Commands for its launcher.
    pub commands: mpsc::Sender<Ask>,
    /// The cgroups of its processes, until they are ended.
    pub cgroups: Mutex<SessionCgroups>,
    /// The events of its processes: followed from the first open of a file that needs them.
    pub feed: OnceCell<EventFeed>,
    /// What is set for samples of its processes.
    pub monitor: MonSettings,
    /// The copy that comes in to it.
    pub incoming: Mutex<IncomingCopy>,
    /// A permit for the one `clone` of it at a time.
    pub copies: Semaphore,
    /// What copies need of the service.
    pub context: Arc<CopyContext>,
    /// The share of its user.
    pub share: Arc<UserShare>,
    /// Counts it.
    pub _slot: SessionSlot,
}

impl LiveSession {
    /// A new key, which permits a copy of another session to this one.
    ///
    /// # Errors
    ///
    /// When the kernel has no random bytes.
    pub fn issue_key(&self) -> Result<String, SessionError> {
        lock(&self.incoming).key.issue(Instant::now())
    }

    /// Asks the launcher. The answer counts for the record also if the asking ends before.
    pub async fn ask(&self, command: LaunchCommand) -> Result<(), SessionError> {
        let is_exec = matches!(command, LaunchCommand::Exec(_));
        let (to, answer) = oneshot::channel();
        if let Err(full) = self.commands.try_send((command, to)) {
            let error = match full {
                mpsc::error::TrySendError::Closed(_) => launcher_gone(),
                mpsc::error::TrySendError::Full(_) => {
                    SessionError::new(Refusal::TryAgain, "too many commands of the session wait")
                }
            };
            if is_exec {
                self.record.not_started(&error);
            }
            return Err(error);
        }
        answer.await.unwrap_or_else(|_| Err(launcher_gone()))
    }

    /// Closes this end of a stream.
    pub fn close(&self, stream: Stream) {
        let (at, log) = match stream {
            Stream::Input => return self.input.close(),
            Stream::Output => (0, &self.record.output),
            Stream::Error => (1, &self.record.errors),
        };
        if let Some(reader) = lock(&self.readers)[at].take() {
            reader.abort();
        }
        log.close();
    }
}
