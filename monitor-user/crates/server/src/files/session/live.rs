//! A session with its pipes, and the way to its launcher.

use super::super::event_feed::EventFeed;
use super::super::mon_settings::MonSettings;
use super::input::InputPipe;
use super::slot::SessionSlot;
use crate::lock::lock;
use monitor_control::session::{
    LaunchCommand, Refusal, Remaining, SessionCgroups, SessionError, SessionRecord, StoredFiles,
    Stream, launcher_gone,
};
use monitor_model::Pid;
use std::sync::{Arc, Mutex};
use tokio::sync::{OnceCell, mpsc, oneshot};
use tokio::task::{AbortHandle, spawn_blocking};

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
    /// Counts it.
    pub _slot: SessionSlot,
}

impl LiveSession {
    /// Carries out a line of `ctl`.
    ///
    /// # Errors
    ///
    /// As the record or the launcher refuses it.
    pub async fn control(self: Arc<Self>, line: Vec<u8>) -> Result<(), SessionError> {
        match self.record.control(&line)? {
            Remaining::Nothing => Ok(()),
            Remaining::Ask(command) => self.ask(command).await,
            Remaining::Close(stream) => {
                self.close(stream);
                Ok(())
            }
            // The kernel frees memory until it is below a limit, which takes its time.
            Remaining::Limit(limit) => spawn_blocking(move || lock(&self.cgroups).limit(limit))
                .await
                .unwrap_or_else(|_| Err(launcher_gone())),
            Remaining::Wipe => {
                self.record.end();
                self.record.gone().await;
                Ok(())
            }
        }
    }

    /// Asks the launcher. The answer counts for the record also if the asking ends before.
    async fn ask(&self, command: LaunchCommand) -> Result<(), SessionError> {
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
    fn close(&self, stream: Stream) {
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
