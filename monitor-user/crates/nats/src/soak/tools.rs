//! The tools: random commands to random nodes, many at a time, until enough were sent and the
//! faults are over.

use super::soak_cluster::SoakCluster;
use crate::suite::{AgentCall, Random};
use monitor_cluster::bus::entry::Targets;
use monitor_cluster::command::{CallOptions, CallResult};
use monitor_model::Ns;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// Commands of a tool that are under way at a time.
const AT_A_TIME: u64 = 8;
/// The longest pause between two commands, ms.
const PAUSE_MS: u64 = 40;
/// A tool that is no member tries again after this.
const RETRY: Duration = Duration::from_millis(20);

/// A command and its result.
pub struct Issued {
    pub payload: Vec<u8>,
    pub targets: Targets,
    pub result: CallResult,
}

/// The tools at work.
pub struct Tools {
    tasks: JoinSet<Vec<Issued>>,
    faults_are_over: Arc<AtomicBool>,
}

impl Tools {
    /// Lets all tools begin.
    pub fn start(cluster: &SoakCluster, seed: u64, n_commands: u64) -> Self {
        let mut tasks = JoinSet::new();
        let faults_are_over = Arc::new(AtomicBool::new(false));
        let next = Arc::new(AtomicU64::new(0));
        let names: Arc<Vec<String>> = Arc::new(cluster.all().map(|it| it.name.clone()).collect());
        for (tool, number) in cluster.tools.iter().zip(1..) {
            for lane in 0..AT_A_TIME {
                let random = Random(seed ^ (number * AT_A_TIME + lane));
                let calls = tool.calls().expect("tools are not killed");
                let lane = Lane { name: tool.name.clone(), calls, names: names.clone(), random };
                let (next, is_over) = (next.clone(), faults_are_over.clone());
                tasks.spawn(lane.run(next, n_commands, is_over));
            }
        }
        Self { tasks, faults_are_over }
    }

    /// Waits until they have sent enough; all commands with their results.
    pub async fn finish(self) -> Vec<Issued> {
        self.faults_are_over.store(true, Ordering::Relaxed);
        self.tasks.join_all().await.into_iter().flatten().collect()
    }
}

/// What sends one command after the other.
struct Lane {
    name: String,
    calls: mpsc::Sender<AgentCall>,
    names: Arc<Vec<String>>,
    random: Random,
}

impl Lane {
    async fn run(
        mut self,
        next: Arc<AtomicU64>,
        n_commands: u64,
        is_over: Arc<AtomicBool>,
    ) -> Vec<Issued> {
        let mut issued = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= n_commands && is_over.load(Ordering::Relaxed) {
                return issued;
            }
            let payload = format!("{} {number}", self.name).into_bytes();
            let options = self.options(payload.clone());
            let targets = options.targets.clone();
            let result = self.call(options).await;
            issued.push(Issued { payload, targets, result });
            let pause = self.random.below(PAUSE_MS);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    fn options(&mut self, payload: Vec<u8>) -> CallOptions {
        let targets = match self.random.once_in(3) {
            true => Targets::All,
            false => {
                let n_names = 1 + self.random.below(8);
                let n_all = self.names.len() as u64;
                let mut name = || self.names[self.random.below(n_all) as usize].clone();
                Targets::Names((0..n_names).map(|_| name()).collect::<BTreeSet<_>>())
            }
        };
        let within_ms = match self.random.once_in(8) {
            // Some expire.
            true => 1 + self.random.below(50),
            false => 1_000 + self.random.below(3_000),
        };
        let begin_within = Ns(within_ms * 1_000_000);
        let reply_within = Ns(begin_within.0 + 500_000_000);
        CallOptions { targets, uid: 0, begin_within, reply_within, payload }
    }

    /// Calls until the tool is a member: before that, nothing was sent.
    async fn call(&self, options: CallOptions) -> CallResult {
        loop {
            let (result, received) = oneshot::channel();
            let call = AgentCall { options: options.clone(), result };
            self.calls.send(call).await.expect("tools are not killed");
            match received.await {
                Ok(result) => return result,
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }
}
