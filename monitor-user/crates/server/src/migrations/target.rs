//! A process that comes to this node.
//!
//! ```text
//!  restore --> Restoring --(a thread: unpack, CRIU)--> Restored --commit--> Running
//!                   '------------ abort, failure, a start of the service ---> Dropped
//! ```
//!
//! In: steps from the order, the end of CRIU, starts of the service. Out: what has become of the
//! copy. Each state is on disk before what it permits is done. A step is answered with the state;
//! if it cannot be carried out it is an error, which decides nothing.

use super::images;
use super::record::{EndState, MigrationRecord, RecordStore, remove_file};
use crate::lock::lock;
use monitor_cluster::migration::{TargetEffect, TargetInput, TargetState};
use monitor_control::ControlError;
use monitor_control::checkpoint::migration::{MigrationPlace, restore_frozen};
use monitor_model::{Pid, Refusal, Status};
use monitor_protocol::migration::{CopyState, MigrationStepResult};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// A process that comes to this node.
pub struct TargetMigration {
    store: RecordStore,
    place: MigrationPlace,
    /// The images, as the other node has sent them.
    received: PathBuf,
    record: Mutex<MigrationRecord>,
    /// The copy, for those that wait for a change.
    copy: watch::Sender<CopyState>,
}

impl TargetMigration {
    /// With what is known of it, and where its images come.
    pub fn new(store: RecordStore, record: MigrationRecord, received: PathBuf) -> Self {
        let place = MigrationPlace::new(store.folder_of(&record.id), record.cgroup.clone());
        let (copy, _) = watch::channel(copy_state(state_of(&record)));
        Self { store, place, received, record: Mutex::new(record), copy }
    }

    /// What is written down. Blocks.
    pub fn record(&self) -> MigrationRecord {
        lock(&self.record).clone()
    }

    /// Whether no decision was made yet.
    pub fn is_open(&self) -> bool {
        matches!(*self.copy.borrow(), CopyState::Restoring | CopyState::Restored)
    }

    /// What is said to the other node. Blocks.
    pub fn result(&self) -> MigrationStepResult {
        let record = lock(&self.record);
        MigrationStepResult { copy: copy_state(state_of(&record)), why: record.why.clone() }
    }

    /// Waits until CRIU has ended.
    pub async fn restored(&self) {
        let mut copy = self.copy.subscribe();
        // The sender is in this.
        let _open = copy.wait_for(|it| *it != CopyState::Restoring).await;
    }

    /// Executes the commit. A copy that is no longer there is dropped. Blocks.
    ///
    /// # Errors
    /// A state cannot be written, or what it permits cannot be done.
    pub fn commit(self: &Arc<Self>) -> Result<(), Refusal> {
        let is_lost = self.result().copy == CopyState::Restored && !self.place.cgroup.is_frozen();
        if is_lost {
            lock(&self.record).why = Some("its frozen copy has ended".to_owned());
        }
        self.apply(if is_lost { TargetInput::Abort } else { TargetInput::Commit })
    }

    /// Goes on after a start of the service. Blocks.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub fn resume(self: &Arc<Self>, boot_id: &str) -> Result<(), Refusal> {
        let record = self.record();
        // What was there ended with its boot.
        let is_gone = record.boot_id != boot_id && state_of(&record) != TargetState::Running;
        self.apply(if is_gone { TargetInput::Abort } else { TargetInput::Started })
    }

    /// Writes the next state down, and does what it permits. Blocks.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub fn apply(self: &Arc<Self>, input: TargetInput) -> Result<(), Refusal> {
        let mut record = lock(&self.record);
        let Some((next, effects)) = state_of(&record).next(input) else { return Ok(()) };
        let before = record.end;
        record.end = EndState::Target(next);
        if let Err(why) = self.store.write(&record) {
            record.end = before;
            return Err(why);
        }
        tracing::info!("migration {} from {}: {}", record.id, record.peer, record.listed().state);
        for effect in effects {
            self.perform(*effect, &record).map_err(|why| {
                let why = format!("migration {}: {why}", record.id);
                tracing::error!("{why}");
                Refusal::new(Status::Error, why)
            })?;
        }
        self.copy.send_replace(copy_state(next));
        Ok(())
    }

    fn perform(
        self: &Arc<Self>,
        effect: TargetEffect,
        record: &MigrationRecord,
    ) -> Result<(), ControlError> {
        match effect {
            TargetEffect::Restore => {
                let (this, pid) = (Arc::clone(self), Pid(record.pid));
                let thread = std::thread::Builder::new().name("restore".into());
                let started = thread.spawn(move || this.restore(pid));
                started
                    .map(drop)
                    .map_err(|error| ControlError::from_io("starting a thread", &error))
            }
            TargetEffect::Resume => self.place.cgroup.thaw(),
            TargetEffect::Drop => self.drop_copy(),
            // The state is the reply.
            TargetEffect::Reply(_) => Ok(()),
        }
    }

    /// Restores the process, frozen.
    fn restore(self: &Arc<Self>, pid: Pid) {
        let restored = self.unpack().and_then(|()| restore_frozen(pid, &self.place));
        let input = match restored {
            Ok(id) => {
                lock(&self.record).start_ns = id.start.0;
                TargetInput::Restored
            }
            Err(why) => {
                let mut record = lock(&self.record);
                // An abort has said why already.
                let why = record.why.take().unwrap_or_else(|| why.to_string());
                record.why = Some(why);
                TargetInput::Failed
            }
        };
        // A state that cannot be written is logged by the next step, which finds the old one.
        let applied = self.apply(input);
        let is_dropped = self.result().copy == CopyState::Dropped;
        if applied.is_err() || is_dropped {
            let dropped = self.drop_copy();
            dropped.unwrap_or_else(|why| tracing::error!("a copy stays frozen: {why}"));
        }
    }

    fn unpack(&self) -> Result<(), ControlError> {
        self.place.create()?;
        let unpacked = images::unpack(&self.received, &self.place.images());
        let path = self.received.display();
        unpacked.map_err(|error| ControlError::Failed {
            call: format!("unpacking {path}"),
            why: error.to_string(),
        })?;
        self.remove_received();
        Ok(())
    }

    /// Kills the copy, and removes all that belongs to it.
    fn drop_copy(&self) -> Result<(), ControlError> {
        self.place.cgroup.kill()?;
        self.place.remove_folder();
        self.remove_received();
        Ok(())
    }

    /// Removes the images of a copy that runs: the process does not need them.
    pub fn remove_images(&self) {
        self.place.remove_folder();
        self.remove_received();
    }

    fn remove_received(&self) {
        remove_file(&self.received);
    }
}

/// The state of a record of this end.
pub const fn state_of(record: &MigrationRecord) -> TargetState {
    match record.end {
        EndState::Target(state) => state,
        EndState::Source(_) => TargetState::Unknown,
    }
}

const fn copy_state(state: TargetState) -> CopyState {
    match state {
        TargetState::Unknown => CopyState::Absent,
        TargetState::Restoring => CopyState::Restoring,
        TargetState::Restored => CopyState::Restored,
        TargetState::Running => CopyState::Running,
        TargetState::Dropped => CopyState::Dropped,
    }
}
