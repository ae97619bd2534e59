//! A process that leaves this node.
//!
//! ```text
//!  Dumping --> Sent --> Deciding --> Committed: the process of this node is killed
//!     '---------'---> Aborting --> Aborted: it runs on
//! ```
//!
//! In: a process, or a record at the start of the service. Out: where the process runs. Each state
//! is on disk before what it permits is done. After a step without a reply the other node is asked
//! again, until it has said what it decided.

use super::images;
use super::peer::{MigrationPeer, StepOutcome};
use super::record::{EndState, MigrationRecord, RecordStore};
use crate::blocking::blocking;
use crate::files::FileSender;
use monitor_cluster::migration::{SourceEffect, SourceInput, SourceState, TargetReply};
use monitor_control::ControlError;
use monitor_control::checkpoint::migration::{Guard, MigrationPlace, dump_frozen};
use monitor_control::process_ref::ProcessRef;
use monitor_model::{Credentials, Ns, Refusal, Status};
use monitor_protocol::cluster::NodeOutcome;
use monitor_protocol::migration::{CopyState, MigrationStepKind};
use monitor_protocol::transfer::SendFile;
use monitor_sys::clock;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

/// The first pause before the other node is asked again, and the longest: while no copy runs, and
/// while the process runs here.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_ABORTING: Duration = Duration::from_secs(60);
/// The user of the images.
const ROOT: Credentials = Credentials { uid: 0, gid: 0 };

/// What those that wait for a migration see of it.
#[derive(Clone, Debug)]
pub struct SourceView {
    /// What is written down.
    pub record: MigrationRecord,
    /// How long the process was frozen, once it is not; 0 if it never was.
    pub frozen: Option<Ns>,
    /// Bytes of its images.
    pub bytes: Option<u64>,
}

impl SourceView {
    /// The state.
    pub const fn state(&self) -> SourceState {
        match self.record.end {
            EndState::Source(state) => state,
            EndState::Target(_) => SourceState::Aborted,
        }
    }
}

/// What only a migration has that begins now; `Dumping` is written down already.
pub struct Beginning {
    /// Sends its images.
    pub sender: FileSender,
    /// When its copy must be there.
    pub until: Instant,
}

/// A process that leaves this node.
pub struct SourceMigration {
    store: RecordStore,
    peer: MigrationPeer,
    /// Absent after a start of the service.
    beginning: Option<Beginning>,
    place: Arc<MigrationPlace>,
    view: watch::Sender<SourceView>,
    /// True when the service ends.
    stop: watch::Receiver<bool>,
    guard: Option<Guard>,
    frozen_since: Option<Ns>,
    pause: Duration,
}

impl SourceMigration {
    /// With what is known of it, and what goes on to show it.
    pub fn new(
        (store, peer): (RecordStore, MigrationPeer),
        (record, beginning): (MigrationRecord, Option<Beginning>),
        stop: watch::Receiver<bool>,
    ) -> (Self, watch::Receiver<SourceView>) {
        let folder = store.folder_of(&record.id);
        let place = Arc::new(MigrationPlace::new(folder, record.cgroup.clone()));
        let (view, shown) = watch::channel(SourceView { record, frozen: None, bytes: None });
        let (guard, frozen_since, pause) = (None, None, FIRST_PAUSE);
        let it = Self { store, peer, beginning, place, view, stop, guard, frozen_since, pause };
        (it, shown)
    }

    /// Takes all steps. Returns when both nodes know the outcome, or the service ends.
    pub async fn run(mut self) {
        let mut input = match self.beginning {
            Some(_) => self.dump().await,
            None => SourceInput::Started,
        };
        loop {
            let mut answer = None;
            if let Some((state, effects)) = self.state().next(input) {
                if !self.enter(state).await {
                    return;
                }
                for effect in effects {
                    answer = self.perform(*effect).await;
                }
            }
            if matches!(self.state(), SourceState::Committed | SourceState::Aborted) {
                return self.finish().await;
            }
            if *self.stop.borrow() && self.state() != SourceState::Sent {
                // The next start of the service goes on.
                return;
            }
            input = match answer {
                Some(input) => input,
                None => self.pause().await,
            };
        }
    }

    fn state(&self) -> SourceState {
        self.view.borrow().state()
    }

    /// Writes a state down; tries again until that succeeds. False if the service ends.
    async fn enter(&self, state: SourceState) -> bool {
        loop {
            match self.write(state).await {
                Ok(()) => return true,
                Err(why) => tracing::error!("{}", why.message),
            }
            if *self.stop.borrow() {
                return false;
            }
            sleep(LONGEST_PAUSE).await;
        }
    }

    async fn write(&self, state: SourceState) -> Result<(), Refusal> {
        let record = self.view.borrow().record.clone();
        let record = MigrationRecord { end: EndState::Source(state), ..record };
        let (store, written) = (self.store.clone(), record.clone());
        blocking(move || store.write(&written)).await?;
        tracing::info!("migration {} to {}: {}", record.id, record.peer, record.listed().state);
        self.view.send_modify(|view| view.record = record);
        Ok(())
    }

    /// Notes why it does not go on; the first reason is kept.
    fn failed(&self, why: String) -> SourceInput {
        self.view.send_modify(|view| _ = view.record.why.get_or_insert(why));
        SourceInput::Failed
    }

    /// Dumps the process, and leaves it frozen.
    async fn dump(&mut self) -> SourceInput {
        match self.dump_guarded().await {
            Ok(()) => SourceInput::Dumped,
            Err(why) => self.failed(why.message),
        }
    }

    async fn dump_guarded(&mut self) -> Result<(), Refusal> {
        let place = Arc::clone(&self.place);
        let guard = blocking(move || {
            place.create().and_then(|()| place.cgroup.create()).map_err(refusal)?;
            Guard::start(&place).map_err(refusal)
        });
        self.guard = Some(guard.await?);
        self.frozen_since = Some(clock::boot());
        let (place, id) = (Arc::clone(&self.place), self.view.borrow().record.process());
        let dumped = blocking(move || {
            let process = ProcessRef::open(id).map_err(refusal)?;
            dump_frozen(&process, &place).map_err(refusal)
        });
        dumped.await
    }

    /// Does what a state permits, and returns what has come of it.
    async fn perform(&mut self, effect: SourceEffect) -> Option<SourceInput> {
        match effect {
            SourceEffect::SendImages => Some(self.send_images().await),
            SourceEffect::SendCommit => {
                self.release_guard().await;
                self.ask(MigrationStepKind::Commit).await
            }
            SourceEffect::SendAbort => self.ask(MigrationStepKind::Abort).await,
            SourceEffect::Resume => {
                self.until_done("resumed", |place| {
                    place.wait_for_criu()?;
                    place.cgroup.dissolve()
                })
                .await;
                None
            }
            SourceEffect::Kill => {
                self.until_done("killed", |place| place.cgroup.kill()).await;
                None
            }
        }
    }

    /// Resumes or kills the process; tries again until that succeeds.
    async fn until_done(
        &mut self,
        what: &str,
        work: impl Fn(&MigrationPlace) -> Result<(), ControlError> + Copy + Send + 'static,
    ) {
        loop {
            let place = Arc::clone(&self.place);
            match blocking(move || work(&place).map_err(refusal)).await {
                Ok(()) => break,
                Err(why) => tracing::error!("the process cannot be {what}: {}", why.message),
            }
            if *self.stop.borrow() {
                return;
            }
            sleep(LONGEST_PAUSE).await;
        }
        self.release_guard().await;
        let frozen = self.frozen_since.take().map_or(Ns(0), |since| clock::boot().since(since));
        self.view.send_modify(|view| _ = view.frozen.get_or_insert(frozen));
    }

    async fn release_guard(&mut self) {
        if let Some(guard) = self.guard.take() {
            // It may have been killed.
            let _ended = blocking(move || {
                guard.release();
                Ok(())
            })
            .await;
        }
    }

    /// Sends the images, and waits until the other node has restored the process.
    async fn send_images(&mut self) -> SourceInput {
        let mut stop = self.stop.clone();
        let sent = tokio::select! {
            sent = self.send_and_restore() => sent,
            _ = stop.wait_for(|it| *it) => Err("this service ends".to_owned()),
        };
        match sent {
            Ok(input) => input,
            Err(why) => self.failed(why),
        }
    }

    async fn send_and_restore(&self) -> Result<SourceInput, String> {
        let Some(Beginning { sender, until }) = &self.beginning else {
            return Err("the service was started again meanwhile".to_owned());
        };
        let (place, id) = (Arc::clone(&self.place), self.view.borrow().record.id.clone());
        let archive = self.store.folder_of(&id).join(images::archive_name(&id));
        let path = archive.display().to_string();
        let packed = blocking(move || {
            images::pack(&place.images(), &archive)
                .map_err(|why| Refusal::new(Status::Error, format!("{}: {why}", archive.display())))
        });
        let bytes = packed.await.map_err(|why| why.message)?;
        self.view.send_modify(|view| view.bytes = Some(bytes));
        let params = SendFile { path, nodes: self.peer.node.clone(), name: None, within_ns: None };
        let late = |_| "its copy was not ready in time: see --within".to_owned();
        let sent = timeout_at(*until, sender.send(ROOT, params)).await.map_err(late)?;
        let sent = sent.map_err(|why| why.message)?.nodes.into_iter().next();
        let sent = sent.ok_or_else(|| format!("{} is no member", self.peer.node))?;
        if sent.outcome != NodeOutcome::Executed {
            let why = sent.why.unwrap_or_else(|| sent.outcome.name().to_owned());
            return Err(format!("{}: {why}", self.peer.node));
        }
        loop {
            let step = self.peer.take(MigrationStepKind::Restore);
            match timeout_at(*until, step).await.map_err(late)? {
                StepOutcome::Replied(result) => match result.copy {
                    CopyState::Restoring => {}
                    CopyState::Restored => return Ok(SourceInput::Replied(TargetReply::Restored)),
                    CopyState::Absent | CopyState::Running | CopyState::Dropped => {
                        let why = result.why.unwrap_or_else(|| "it has no copy".to_owned());
                        return Err(format!("{}: {why}", self.peer.node));
                    }
                },
                StepOutcome::NotExecuted(why) | StepOutcome::Unknown(why) => return Err(why),
            }
        }
    }

    /// Asks the other node to let its copy run, or to drop it. `None` if it has not replied.
    async fn ask(&mut self, kind: MigrationStepKind) -> Option<SourceInput> {
        let mut stop = self.stop.clone();
        let outcome = tokio::select! {
            outcome = self.peer.take(kind) => outcome,
            _ = stop.wait_for(|it| *it) => return None,
        };
        match outcome {
            StepOutcome::Replied(result) => match result.copy {
                CopyState::Running => Some(SourceInput::Replied(TargetReply::Running)),
                CopyState::Dropped => {
                    let why = result.why.unwrap_or_else(|| "it has dropped the copy".to_owned());
                    let _input = self.failed(format!("{}: {why}", self.peer.node));
                    Some(SourceInput::Replied(TargetReply::Dropped))
                }
                CopyState::Absent | CopyState::Restoring | CopyState::Restored => None,
            },
            StepOutcome::NotExecuted(why) if kind == MigrationStepKind::Commit => {
                let _input = self.failed(why);
                Some(SourceInput::NotExecuted)
            }
            StepOutcome::NotExecuted(why) | StepOutcome::Unknown(why) => {
                tracing::warn!("migration to {}: {why}", self.peer.node);
                let _input = self.failed(why);
                None
            }
        }
    }

    /// Waits, longer each time, until the other node is asked again.
    async fn pause(&mut self) -> SourceInput {
        let mut stop = self.stop.clone();
        tokio::select! {
            () = sleep(self.pause) => {}
            _ = stop.wait_for(|it| *it) => {}
        }
        let longest = match self.state() {
            SourceState::Aborting => LONGEST_ABORTING,
            _ => LONGEST_PAUSE,
        };
        self.pause = longest.min(self.pause * 2);
        SourceInput::Retry
    }

    /// Removes what is not needed any longer. A record that the other node may ask for stays.
    async fn finish(mut self) {
        self.release_guard().await;
        let place = Arc::clone(&self.place);
        let _removed = blocking(move || {
            place.cgroup.remove_when_empty();
            place.remove_folder();
            Ok(())
        })
        .await;
        let is_known = match self.state() {
            SourceState::Committed => {
                let forgotten = self.peer.take(MigrationStepKind::Forget).await;
                matches!(forgotten, StepOutcome::Replied(_))
            }
            _ => true,
        };
        if is_known {
            self.store.remove(&self.view.borrow().record.id);
        }
    }
}

/// The refusal of a step that this node cannot take.
pub fn refusal(why: ControlError) -> Refusal {
    let status = match &why {
        ControlError::Gone => Status::NotFound,
        ControlError::Denied { .. } => Status::NoPermissions,
        ControlError::Unsupported(_) => Status::NotSupported,
        _ => Status::Error,
    };
    Refusal::new(status, why.to_string())
}
