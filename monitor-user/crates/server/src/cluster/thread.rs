//! The thread of a node on the bus, and its ledger.
//!
//! In: settings. Out: a running thread that takes jobs. That the ledger can be used is known before
//! it runs; whether there is a server is not.

use super::event_loop::run;
use super::job::{ClusterJob, ClusterSettings, GatherCall, answered};
use super::timer_slots::TimerSlots;
use monitor_cluster::command::ledger::FileLedger;
use monitor_model::Refusal;
use monitor_protocol::cluster::Gathered;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::thread::JoinHandle;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// Threads that look up users; a name service that hangs blocks one.
const USER_LOOKUPS: usize = 4;

/// The thread.
pub struct ClusterThread {
    jobs: UnboundedSender<ClusterJob>,
    thread: Option<JoinHandle<()>>,
}

/// Queues jobs for the thread.
#[derive(Clone)]
pub struct ClusterJobs(UnboundedSender<ClusterJob>);

impl ClusterThread {
    /// Starts it; it connects by itself, as soon as there is a server.
    ///
    /// # Errors
    /// The ledger cannot be opened, or another daemon uses it; no thread can be started.
    pub fn start(settings: ClusterSettings) -> io::Result<Self> {
        let ledger = open_ledger(&settings.config.ledger)?;
        let slots = TimerSlots::begin();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().max_blocking_threads(USER_LOOKUPS).build()?;
        let (jobs, queue) = unbounded_channel();
        let thread = std::thread::Builder::new().name("cluster".into());
        let thread = thread.spawn(move || {
            // As a task: what wakes the future of `block_on` goes through the kernel.
            let running = runtime.spawn(run(settings, (ledger, slots), queue));
            if let Err(error) = runtime.block_on(running) {
                tracing::error!("cluster: {error}");
            }
            // A name service that hangs does not hold up the end of the daemon.
            runtime.shutdown_background();
        })?;
        Ok(Self { jobs, thread: Some(thread) })
    }

    /// Queues a job. Its answer is dropped if the thread has ended.
    pub fn send(&self, job: ClusterJob) {
        // Fails only if the thread has panicked: then the answer, which is dropped, says so.
        let _ = self.jobs.send(job);
    }

    /// What queues jobs for it.
    pub fn jobs(&self) -> ClusterJobs {
        ClusterJobs(self.jobs.clone())
    }

    /// Leaves the cluster and ends the thread; without a server, after a moment.
    pub fn stop(&mut self) {
        self.send(ClusterJob::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been logged.
            let _ = thread.join();
        }
    }
}

impl ClusterJobs {
    /// Lets nodes execute a line, and waits for their replies.
    ///
    /// # Errors
    /// The call is refused, or the thread has ended.
    pub async fn gather(&self, call: GatherCall) -> Result<Gathered, Refusal> {
        let (answer, gathered) = oneshot::channel();
        // If it fails, the answer is dropped.
        let _ = self.0.send(ClusterJob::Gather(call, answer));
        answered(gathered).await?
    }
}

impl Drop for ClusterThread {
    fn drop(&mut self) {
        self.stop();
    }
}

fn open_ledger(path: &Path) -> io::Result<FileLedger> {
    let failed = |why: &io::Error| {
        let path = path.display();
        let text = match why.kind() {
            io::ErrorKind::WouldBlock => format!("another daemon uses the ledger {path}"),
            _ => format!("cannot open the ledger {path}: {why}: see cluster.ledger"),
        };
        io::Error::new(why.kind(), text)
    };
    if let Some(folder) = path.parent() {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o755).create(folder);
        made.map_err(|why| failed(&why))?;
    }
    FileLedger::open(path, boot_id()?).map_err(|why| failed(&why))
}

/// The random id of this boot (random(4)).
fn boot_id() -> io::Result<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits = text.trim().replace('-', "");
    let number = u128::from_str_radix(&digits, 16);
    let malformed = |why| io::Error::new(io::ErrorKind::InvalidData, format!("boot_id: {why}"));
    number.map(u128::to_le_bytes).map_err(malformed)
}
