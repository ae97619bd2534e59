//! Processes that migrate between nodes which share no folder.
//!
//! ```text
//!  migrate_process --> SourceMigration: dump, frozen --images, beside the bus--> received
//!                        |-- migration_step: restore, commit, abort (order) --> TargetMigration
//!                        '<------------------- restored, running, dropped ----------'
//! ```
//!
//! In: calls of root, steps of other nodes, starts of the service. Out: where a process runs. What
//! each node may do is decided in `cluster::migration`; here it is written down, and done: by CRIU
//! and a cgroup (`control::checkpoint::migration`). Only root migrates processes, because CRIU
//! opens the files of a process with the rights of root.

mod images;
mod peer;
mod record;
mod source;
mod target;

use crate::blocking::blocking;
use crate::cluster::ClusterJobs;
use crate::files::{FileSender, free_bytes};
use crate::lock::lock;
use monitor_cluster::migration::{SourceState, TargetInput, TargetState};
use monitor_control::ControlError;
use monitor_control::checkpoint::migration::{
    MigrationCgroup, check_criu, check_migratable, check_pid_is_free,
};
use monitor_control::process_ref::ProcessRef;
use monitor_model::{Ns, Pid, Refusal, Status};
use monitor_protocol::migration::{
    CopyState, ListedMigrations, MigrateProcess, MigratedProcess, MigrationOutcome, MigrationStep,
    MigrationStepKind, MigrationStepResult,
};
use monitor_sys::{clock, fsuid};
use peer::{MigrationPeer, StepOutcome};
use record::{EndState, MigrationRecord, RecordStore, is_id};
use source::{Beginning, SourceMigration, SourceView, refusal};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use target::{TargetMigration, state_of};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// How the names of cgroups begin: of a process that leaves, and of one that has come.
const LEAVES: &str = "monitor.leaves-";
const CAME: &str = "monitor.came-";
/// How long a copy may take to be ready if the caller does not say.
const WITHIN: Duration = Duration::from_secs(120);
/// How long the outcome is awaited after that.
const OUTCOME_WITHIN: Duration = Duration::from_secs(30);
/// How long a step waits for a copy that is not restored yet; the other node asks again.
const RESTORE_WITHIN: Duration = Duration::from_secs(4);
/// How long a record is kept of a copy that was dropped: a late command finds it.
const DROPPED_KEPT: Ns = Ns(24 * 3_600 * 1_000_000_000);
/// Most migrations of each end at a time.
const MOST: usize = 32;
/// How long the end of the service waits for dumps.
const STOP_WITHIN: Duration = Duration::from_secs(40);

/// The migrations of this node.
pub struct Migrations {
    /// The name of this node.
    node: String,
    boot_id: String,
    store: RecordStore,
    jobs: ClusterJobs,
    /// The folder of the files that root receives.
    received: PathBuf,
    state: Mutex<MigrationTable>,
    stop: watch::Sender<bool>,
}

#[derive(Default)]
struct MigrationTable {
    sources: BTreeMap<String, watch::Receiver<SourceView>>,
    targets: BTreeMap<String, Arc<TargetMigration>>,
    tasks: JoinSet<()>,
}

impl Migrations {
    /// Those of the records in a folder go on.
    pub fn open(
        (node, boot_id): (&str, String),
        (folder, received): (PathBuf, PathBuf),
        jobs: ClusterJobs,
    ) -> Arc<Self> {
        let (store, stop) = (RecordStore::new(folder), watch::channel(false).0);
        let (node, state) = (node.to_owned(), Mutex::default());
        let it = Arc::new(Self { node, boot_id, store, jobs, received, state, stop });
        MigrationCgroup::remove_empty(CAME);
        for record in it.store.read_all() {
            it.resume(record);
        }
        it
    }

    fn resume(self: &Arc<Self>, record: MigrationRecord) {
        let (id, listed) = (record.id.clone(), record.listed());
        match record.end {
            EndState::Source(_) => {
                tracing::warn!("migration {id} to {}, {}, goes on", listed.peer, listed.state);
                let peer = self.peer(&record);
                if let Err(why) = self.spawn_source(peer, record, None) {
                    // It was refused before it had begun, and the service was killed then.
                    tracing::warn!("migration {id}: {}", why.message);
                    self.store.remove(&id);
                }
            }
            EndState::Target(TargetState::Dropped) if self.is_old(&record) => {
                self.store.remove(&id)
            }
            EndState::Target(_) => {
                let target = self.target_of(record);
                lock(&self.state).targets.insert(id.clone(), Arc::clone(&target));
                let boot_id = self.boot_id.clone();
                // What fails is logged, and tried again when the other node asks.
                lock(&self.state).tasks.spawn_blocking(move || drop(target.resume(&boot_id)));
            }
        }
    }

    fn is_old(&self, record: &MigrationRecord) -> bool {
        clock::now().unix.since(Ns(record.begun_unix_ns)) > DROPPED_KEPT
    }

    fn target_of(&self, record: MigrationRecord) -> Arc<TargetMigration> {
        let received = self.received.join(images::archive_name(&record.id));
        Arc::new(TargetMigration::new(self.store.clone(), record, received))
    }

    fn peer(&self, record: &MigrationRecord) -> MigrationPeer {
        let step = MigrationStep {
            id: record.id.clone(),
            step: MigrationStepKind::Check,
            pid: record.pid,
            name: record.name.clone(),
            from: self.node.clone(),
        };
        MigrationPeer { jobs: self.jobs.clone(), node: record.peer.clone(), step }
    }

    fn spawn_source(
        &self,
        peer: MigrationPeer,
        record: MigrationRecord,
        beginning: Option<Beginning>,
    ) -> Result<watch::Receiver<SourceView>, Refusal> {
        let mut table = lock(&self.state);
        // Those that have ended are forgotten.
        while table.tasks.try_join_next().is_some() {}
        table.sources.retain(|_, view| view.has_changed().is_ok());
        let pid = record.pid;
        if table.sources.values().any(|view| view.borrow().record.pid == pid) {
            let why = format!("process {pid} migrates already: see monitor migrate --list");
            return Err(Refusal::new(Status::Exists, why));
        }
        let (id, stop) = (record.id.clone(), self.stop.subscribe());
        let state = (record, beginning);
        let (source, view) = SourceMigration::new((self.store.clone(), peer), state, stop);
        table.tasks.spawn(source.run());
        table.sources.insert(id, view.clone());
        Ok(view)
    }

    /// Migrates a process; returns when it is known where it runs, or that this is not known.
    ///
    /// # Errors
    /// It cannot migrate, or the other node cannot take it. Nothing was done then.
    pub async fn migrate(
        &self,
        params: MigrateProcess,
        sender: FileSender,
    ) -> Result<MigratedProcess, Refusal> {
        check_root()?;
        let within = params.within_ns.map_or(WITHIN, Duration::from_nanos);
        let until = Instant::now() + within;
        let record = self.begin(&params).await?;
        let peer = self.peer(&record);
        if let StepOutcome::NotExecuted(why) | StepOutcome::Unknown(why) =
            peer.take(MigrationStepKind::Check).await
        {
            return Err(Refusal::new(Status::Error, why));
        }
        let (store, first) = (self.store.clone(), record.clone());
        blocking(move || store.write(&first)).await?;
        let beginning = Beginning { sender, until };
        let id = record.id.clone();
        let view = self.spawn_source(peer, record, Some(beginning));
        let mut view = view.inspect_err(|_| self.store.remove(&id))?;
        let is_known = |view: &SourceView| {
            use SourceState as State;
            matches!(view.state(), State::Committed | State::Aborted | State::Aborting)
                && view.frozen.is_some()
        };
        let known = timeout(within + OUTCOME_WITHIN, view.wait_for(is_known)).await;
        let is_known = known.is_ok_and(|it| it.is_ok());
        let shown = view.borrow().clone();
        Ok(migrated(shown, is_known))
    }

    /// Checks a process, and returns the record of its migration.
    async fn begin(&self, params: &MigrateProcess) -> Result<MigrationRecord, Refusal> {
        let (pid, to) = (Pid(params.pid), params.to.clone());
        if to == self.node {
            return Err(Refusal::bad(format!("to: process {} is on {to} already", pid.0)));
        }
        if lock(&self.state).tasks.len() >= MOST {
            return Err(Refusal::limit(format!("{MOST} processes leave this node already")));
        }
        let now = clock::now().unix.0;
        let id = format!("{}-{}-{}", self.node, pid.0, now / 1_000_000);
        if !is_id(&id) {
            return Err(Refusal::bad(format!("{id:?} is no id: see cluster.node")));
        }
        let (boot_id, folder) = (self.boot_id.clone(), self.store.folder_of(&id));
        blocking(move || {
            check_criu().map_err(refusal)?;
            let process = ProcessRef::open_current(pid).map_err(|why| match why {
                ControlError::Gone => Refusal::absent(format!("no process {}", pid.0)),
                other => refusal(other),
            })?;
            check_migratable(&process).map_err(refusal)?;
            check_room(&process, &folder)?;
            let cgroup = MigrationCgroup::of_process(&process, &format!("{LEAVES}{id}"));
            let name = process.stat().map_err(refusal)?.comm;
            Ok(MigrationRecord {
                id,
                boot_id,
                pid: pid.0,
                start_ns: process.id.start.0,
                name,
                peer: to,
                cgroup: cgroup.map_err(refusal)?,
                begun_unix_ns: now,
                why: None,
                end: EndState::Source(SourceState::Dumping),
            })
        })
        .await
    }

    /// Takes a step for another node.
    ///
    /// # Errors
    /// The step is none, or cannot be carried out.
    pub async fn step(
        self: &Arc<Self>,
        step: MigrationStep,
    ) -> Result<MigrationStepResult, Refusal> {
        check_root()?;
        if !is_id(&step.id) {
            return Err(Refusal::bad(format!("id: {:?} is no id of a migration", step.id)));
        }
        if step.step == MigrationStepKind::Check {
            let pid = Pid(step.pid);
            blocking(move || check_target(pid)).await?;
            return Ok(MigrationStepResult { copy: CopyState::Absent, why: None });
        }
        let this = Arc::clone(self);
        let target = blocking(move || this.take_step(&step)).await?;
        let _late = timeout(RESTORE_WITHIN, target.restored()).await;
        blocking(move || Ok(target.result())).await
    }

    fn take_step(&self, step: &MigrationStep) -> Result<Arc<TargetMigration>, Refusal> {
        let target = self.target(step)?;
        match step.step {
            MigrationStepKind::Check => {}
            MigrationStepKind::Restore => target.apply(TargetInput::Received)?,
            MigrationStepKind::Commit => target.commit()?,
            MigrationStepKind::Abort => target.apply(TargetInput::Abort)?,
            MigrationStepKind::Forget => self.forget(&target),
        }
        Ok(target)
    }

    /// The migration of a step; a new one if it is not known.
    fn target(&self, step: &MigrationStep) -> Result<Arc<TargetMigration>, Refusal> {
        let mut table = lock(&self.state);
        if let Some(target) = table.targets.get(&step.id) {
            return Ok(Arc::clone(target));
        }
        let is_open = |it: &&Arc<TargetMigration>| it.is_open();
        if table.targets.values().filter(is_open).count() >= MOST {
            return Err(Refusal::limit(format!("{MOST} processes come to this node already")));
        }
        let name = format!("{CAME}{}", step.id);
        let record = MigrationRecord {
            id: step.id.clone(),
            boot_id: self.boot_id.clone(),
            pid: step.pid,
            start_ns: 0,
            name: step.name.clone(),
            peer: step.from.clone(),
            cgroup: MigrationCgroup::at_root(&name).map_err(refusal)?,
            begun_unix_ns: clock::now().unix.0,
            why: None,
            end: EndState::Target(TargetState::Unknown),
        };
        let target = self.target_of(record);
        table.targets.insert(step.id.clone(), Arc::clone(&target));
        Ok(target)
    }

    /// Forgets a migration whose copy runs, as the other node knows.
    fn forget(&self, target: &TargetMigration) {
        let record = target.record();
        if state_of(&record) == TargetState::Running {
            target.remove_images();
            self.store.remove(&record.id);
            lock(&self.state).targets.remove(&record.id);
        }
    }

    /// All that this node knows.
    ///
    /// # Errors
    /// The daemon ends.
    pub async fn list(self: &Arc<Self>) -> Result<ListedMigrations, Refusal> {
        let this = Arc::clone(self);
        blocking(move || {
            let (sources, targets): (Vec<_>, Vec<_>) = {
                let table = lock(&this.state);
                // One that has ended is shown no longer.
                let sources = table.sources.values().filter(|view| view.has_changed().is_ok());
                let sources = sources.map(|view| view.borrow().record.clone());
                (sources.collect(), table.targets.values().cloned().collect())
            };
            let targets = targets.into_iter().map(|it| it.record());
            let mut migrations: Vec<_> =
                sources.into_iter().chain(targets).map(|it| it.listed()).collect();
            migrations.sort_by_key(|it| it.begun_unix_ns);
            Ok(ListedMigrations { migrations })
        })
        .await
    }

    /// Ends: processes that are dumped run on, and copies that may not run yet are dropped. What
    /// waits for a decision stays frozen, and goes on at the next start.
    pub async fn stop(&self) {
        self.stop.send_replace(true);
        let (mut tasks, targets) = {
            let mut table = lock(&self.state);
            let targets: Vec<_> = table.targets.values().cloned().collect();
            (std::mem::take(&mut table.tasks), targets)
        };
        if timeout(STOP_WITHIN, async { while tasks.join_next().await.is_some() {} }).await.is_err()
        {
            tracing::error!("a process is still dumped; the next start resumes it");
        }
        let dropped = blocking(move || {
            let open = targets.iter().filter(|it| it.is_open());
            // What fails is logged, and tried again at the next start.
            open.for_each(|it| drop(it.apply(TargetInput::Abort)));
            Ok(())
        });
        let _ended = dropped.await;
    }
}

/// Where a process runs, as its migration shows it.
fn migrated(view: SourceView, is_known: bool) -> MigratedProcess {
    let outcome = match (is_known, view.state()) {
        (true, SourceState::Committed) => MigrationOutcome::Migrated,
        (true, _) => MigrationOutcome::Stayed,
        (false, _) => MigrationOutcome::Unknown,
    };
    let why = view.record.why.filter(|_| outcome != MigrationOutcome::Migrated);
    let (id, frozen_ns) = (view.record.id, view.frozen.map(|it| it.0));
    MigratedProcess { id, outcome, why, frozen_ns, bytes: view.bytes }
}

/// Checks that this service may run CRIU.
fn check_root() -> Result<(), Refusal> {
    match fsuid::effective_uid() {
        0 => Ok(()),
        uid => {
            let why = format!(
                "this service runs as user {uid}, and CRIU needs root: see CLUSTER.md, processes \
                 that migrate"
            );
            Err(Refusal::new(Status::NotSupported, why))
        }
    }
}

/// Checks that the disk has room for the images of a process, and for their archive.
fn check_room(process: &ProcessRef, folder: &Path) -> Result<(), Refusal> {
    let status = process.procfs().map_err(refusal)?.status();
    let status = status.map_err(|_| Refusal::absent("the process has ended"))?;
    let kib = status.vmrss.unwrap_or(0) + status.vmswap.unwrap_or(0);
    let needed = kib.saturating_mul(2 * 1024);
    let there = folder.ancestors().find(|it| it.is_dir()).unwrap_or(Path::new("/"));
    let free = free_bytes(there).map_err(|why| {
        Refusal::new(Status::Error, format!("the disk of {}: {why}", there.display()))
    })?;
    if needed <= free {
        return Ok(());
    }
    let why = format!(
        "its images and their archive take up to {needed} bytes, and {free} are free at {}, of \
         which a tenth stays free",
        there.display()
    );
    Err(Refusal::limit(why))
}

/// Checks that a process of another node could be restored here.
fn check_target(pid: Pid) -> Result<(), Refusal> {
    check_criu().map_err(refusal)?;
    MigrationCgroup::at_root("monitor").map_err(refusal)?;
    check_pid_is_free(pid).map_err(refusal)?;
    // Room for its cgroup: those of processes that have ended since are not needed.
    MigrationCgroup::remove_empty(CAME);
    Ok(())
}
