//! The source of resource usage for `monitor run`: the daemon, if one answers, else this process.
//!
//! In: the command's process id. Out: totals, in the same form from both sources.

use super::args::SourceArgs;
use super::client::find;
use super::exit::Failure;
use super::output::notice;
use super::recording::RunRecorder;
use super::run_report::WAIT;
use monitor_backend::Backend;
use monitor_client::{Client, Error};
use monitor_loader::select;
use monitor_model::id::Pid;
use monitor_model::read_spec::ReadSpec;
use monitor_model::sample::{BackendKind, Note, ProgramLoss, Sample};
use monitor_protocol::answer::UsageTotals;
use monitor_recording::Existing;
use monitor_sampling::child_usage::CAPABILITIES;
use monitor_sampling::process_tree::ProcessTree;
use monitor_sampling::totals::totals;
use monitor_sys::readable;
use std::path::Path;
use std::time::{Duration, Instant};

/// Timeout for the final records of the descendants, after the command has exited.
const SETTLE: Duration = Duration::from_secs(2);
/// Interval between readings while waiting for them.
const SETTLE_EVERY: Duration = Duration::from_millis(5);

/// Which process counts the usage.
pub enum UsageSource {
    /// The daemon, since before the command started.
    Daemon(Client),
    /// This process.
    Local(Box<LocalUsage>),
}

/// State for counting in this process.
pub struct LocalUsage {
    backend: Box<dyn Backend>,
    notes: Vec<Note>,
    family: ProcessTree,
    recorder: Option<RunRecorder>,
}

impl UsageSource {
    /// Attaches everything that counting needs.
    pub async fn open(source_args: &SourceArgs) -> Result<Self, Failure> {
        if let Some(client) = find(source_args).await? {
            match client.account().await {
                Ok(_) => return Ok(Self::Daemon(client)),
                Err(Error::Refused(refusal)) => {
                    notice(&format!("the daemon does not count: {refusal}; counting without it"));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Self::Local(Box::new(LocalUsage::open(source_args)?)))
    }

    /// Like `open`, and records every reading to a file. The daemon reports only the sums of a
    /// process tree, not its members, so it is not used.
    pub fn recorded(
        source_args: &SourceArgs,
        file: (&Path, Existing, Duration),
    ) -> Result<Self, Failure> {
        let mut local = LocalUsage::open(source_args)?;
        local.recorder = Some(RunRecorder::create(file, local.backend.kind())?);
        Ok(Self::Local(Box::new(local)))
    }

    /// Whether the daemon counts, not this process.
    pub const fn is_daemon(&self) -> bool {
        matches!(self, Self::Daemon(_))
    }

    /// Starts counting the tree below `child`.
    pub fn begin(&mut self, child: Pid) -> Result<(), Failure> {
        if let Self::Local(local) = self {
            // It exists until it is waited for: if it is not found, its pid is the host's.
            let on_host = local.backend.host_pids(&[child])?.first().copied().flatten();
            local.family = ProcessTree::from_root_pid(on_host.unwrap_or(child));
        }
        Ok(())
    }

    /// Reads a long-running command. Short ones leave a kernel record at exit.
    pub fn sample(&mut self) -> Result<(), Failure> {
        match self {
            // It reads by itself.
            Self::Daemon(_) => Ok(()),
            Self::Local(local) => local.read().map(drop),
        }
    }

    /// Waits until records should be fetched. Never returns without a ring buffer.
    pub async fn records_ready(&self) {
        let wake = match self {
            Self::Daemon(_) => None,
            Self::Local(local) => local.backend.wake_fd(),
        };
        match wake.and_then(|fd| readable::readable(fd.try_clone_to_owned().ok()?).ok()) {
            Some(fd) => drop(fd.readable().await),
            None => std::future::pending().await,
        }
    }

    /// Fetches the queued records.
    pub fn drain(&mut self) {
        if let Self::Local(local) = self {
            local.backend.drain();
        }
    }

    /// Returns what the command and its descendants used. Call it after waiting for the command.
    pub async fn totals(self, child: Pid) -> Result<UsageTotals, Failure> {
        match self {
            Self::Local(local) => local.settle(),
            Self::Daemon(client) => Ok(client.sum(child.0).await.unwrap_or_else(|error| {
                // The command has exited: report at least what wait(2) returned.
                let note = format!("{error}: only CPU and memory are known, from wait(2)");
                UsageTotals { backend: WAIT.into(), notes: vec![note], ..UsageTotals::default() }
            })),
        }
    }
}

impl LocalUsage {
    fn open(source_args: &SourceArgs) -> Result<Self, Failure> {
        let (backend, notes) = select::open(source_args.backend, &CAPABILITIES, 0)?;
        Ok(Self { backend, notes, family: ProcessTree::from_root_pid(Pid(0)), recorder: None })
    }

    fn read(&mut self) -> Result<Sample, Failure> {
        let sample = self.backend.read(&ReadSpec { processes: true, ..ReadSpec::default() })?;
        self.family.learn(&sample.processes, &sample.dying);
        if let Some(recorder) = &mut self.recorder {
            recorder.append(&sample, &self.family, &mut *self.backend);
        }
        Ok(sample)
    }

    /// Waits for the final records of exited processes. Running ones are counted as of now.
    fn settle(mut self) -> Result<UsageTotals, Failure> {
        let deadline = Instant::now() + SETTLE;
        let sample = loop {
            let sample = self.read()?;
            // Only kernel records arrive late; /proc has nothing more to give.
            let sampled = self.backend.kind() != BackendKind::Ebpf;
            let settled = sampled || self.family.root_ended() && self.family.awaited() == 0;
            if settled || Instant::now() >= deadline {
                break sample;
            }
            std::thread::sleep(SETTLE_EVERY);
        };
        if let Some(recorder) = self.recorder.take() {
            recorder.finish();
        }
        let source = self.backend.kind();
        // With /proc the notes are about all processes, not about this command.
        let sample_notes = sample.notes.into_iter().filter(|_| source == BackendKind::Ebpf);
        let notes = self.notes.into_iter().chain(sample_notes).map(|note| note.text);
        let dropped = ProgramLoss::since(&sample.lost, &[]);
        Ok(UsageTotals { dropped, ..totals(&self.family, source, notes.collect()) })
    }
}
