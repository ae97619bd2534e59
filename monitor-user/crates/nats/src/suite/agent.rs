//! A light agent: the code of a node over NATS, without a daemon.
//!
//! In: how it connects, calls. Out: results of calls, and a log. A kill ends its task and closes
//! its connection; its ledger remains, as the file of a daemon that was killed does.

use super::recorded_bus::{AgentLog, RecordedBus, SharedLog, locked};
use super::rows::{AgentRows, RowSources};
use crate::{NatsBus, NatsOptions};
use monitor_cluster::bus::entry::{EntryId, Seq};
use monitor_cluster::bus::membership::MembershipChange;
use monitor_cluster::bus::{Bus as _, BusEvent, Topic};
use monitor_cluster::command::ledger::{FileLedger, Ledger as _};
use monitor_cluster::command::{
    CallOptions, CallResult, CommandNode, Execution, ExecutionResult, NodeIdentity, NodeOutput,
};
use monitor_cluster::message::PeerMessage;
use monitor_cluster::node_set::expand;
use monitor_model::Ns;
use monitor_sys::{clock, random};
use serde_json::value::RawValue;
use std::collections::{BTreeSet, HashMap};
use std::future::{Future as _, poll_fn};
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};
use std::task::Poll;
use std::time::Duration;
use tokio::pin;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

/// Time between two attempts to connect.
const RETRY: Duration = Duration::from_millis(200);
/// The boot of all ledgers: agents are killed, and their host is not.
const BOOT: [u8; 16] = [7; 16];
/// Calls that wait for an agent.
const MAX_CALLS: usize = 4096;
/// Readings that wait to be published.
const MAX_READINGS: usize = 4;

/// How an agent is started.
pub struct AgentOptions {
    /// What it connects with.
    pub bus: NatsOptions,
    /// The file of its ledger.
    pub ledger: PathBuf,
    /// Its realtime clock less the boot clock: agents with the same one tick at the same time.
    pub clock_offset: Ns,
    /// Whether it removes dead members.
    pub removes_dead: bool,
    /// The nodes that may publish its readings, as it says of itself.
    pub aggregators: String,
    /// What it executes is replied with this, or with the payload.
    pub reply: Option<Vec<u8>>,
    /// What it sends to those that follow it; without it, such a command is like any other.
    pub rows: Option<AgentRows>,
}

impl AgentOptions {
    /// An agent that replies with the payload, and removes no members.
    pub fn new(bus: NatsOptions, ledger: PathBuf) -> Self {
        Self {
            bus,
            ledger,
            clock_offset: clock::realtime_offset(),
            removes_dead: false,
            aggregators: String::new(),
            reply: None,
            rows: None,
        }
    }
}

/// A call, and where its result goes.
pub struct AgentCall {
    /// The call.
    pub options: CallOptions,
    /// The result; dropped if the agent is killed, or is no member.
    pub result: oneshot::Sender<CallResult>,
}

/// What others see of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentView {
    /// Whether it is a member.
    pub is_member: bool,
    /// Number of members that it sees.
    pub n_members: usize,
    /// The nodes whose removal it saw, as they came.
    pub removed: Vec<String>,
}

/// An agent, which can be killed, paused and started again.
pub struct Agent {
    /// The name of the node.
    pub name: String,
    options: Arc<AgentOptions>,
    log: SharedLog,
    view: watch::Sender<AgentView>,
    paused: watch::Sender<bool>,
    life: Option<Life>,
}

struct Life {
    task: JoinHandle<()>,
    calls: mpsc::Sender<AgentCall>,
    readings: mpsc::Sender<Vec<u8>>,
}

impl Agent {
    /// Starts an agent.
    pub fn start(name: &str, options: AgentOptions) -> Self {
        let mut agent = Self {
            name: name.to_owned(),
            options: Arc::new(options),
            log: SharedLog::default(),
            view: watch::Sender::new(AgentView::default()),
            paused: watch::Sender::new(false),
            life: None,
        };
        agent.start_again();
        agent
    }

    /// Starts it again after a kill.
    pub fn start_again(&mut self) {
        let (calls, queue) = mpsc::channel(MAX_CALLS);
        let (readings, reading_queue) = mpsc::channel(MAX_READINGS);
        let running = run(
            (self.name.clone(), self.options.clone()),
            (self.log.clone(), self.view.clone()),
            (queue, reading_queue, self.paused.subscribe()),
        );
        self.life = Some(Life { task: tokio::spawn(running), calls, readings });
    }

    /// Kills it: its connection ends, and what it was doing is not finished.
    pub async fn kill(&mut self) {
        let Some(Life { task, .. }) = self.life.take() else { return };
        task.abort();
        // It was aborted.
        let _ = task.await;
        self.view.send_replace(AgentView::default());
    }

    /// Lets it do nothing from now on, or go on; its connection remains.
    pub fn pause(&self, is_paused: bool) {
        self.paused.send_replace(is_paused);
    }

    /// Calls other agents; `None` if this one was killed or is no member.
    pub async fn call(&self, options: CallOptions) -> Option<CallResult> {
        let calls = self.life.as_ref()?.calls.clone();
        let (result, received) = oneshot::channel();
        calls.send(AgentCall { options, result }).await.ok()?;
        received.await.ok()
    }

    /// Publishes a reading of its node, as a roll-up is; whether it was taken.
    pub fn publish_reading(&self, bytes: Vec<u8>) -> bool {
        self.life.as_ref().is_some_and(|life| life.readings.try_send(bytes).is_ok())
    }

    /// Where calls are sent; `None` if it was killed.
    pub fn calls(&self) -> Option<mpsc::Sender<AgentCall>> {
        self.life.as_ref().map(|life| life.calls.clone())
    }

    /// Waits until what it sees is as wanted.
    pub async fn until(&self, is_wanted: impl FnMut(&AgentView) -> bool) {
        // The agent has a sender.
        let _ = self.view.subscribe().wait_for(is_wanted).await;
    }

    /// What it saw and did.
    pub fn log(&self) -> MutexGuard<'_, AgentLog> {
        locked(&self.log)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(life) = &self.life {
            life.task.abort();
        }
    }
}

/// Calls, readings to publish, and whether it is paused.
type AgentInputs = (mpsc::Receiver<AgentCall>, mpsc::Receiver<Vec<u8>>, watch::Receiver<bool>);

/// One life of an agent.
async fn run(
    (name, options): (String, Arc<AgentOptions>),
    (log, view): (SharedLog, watch::Sender<AgentView>),
    (mut calls, mut readings, mut paused): AgentInputs,
) {
    let ledger = FileLedger::open(&options.ledger, BOOT).expect("the folder can be written");
    let from = ledger.last().map(|last| Seq(last.0 + 1));
    let bus = loop {
        match NatsBus::connect(options.bus.clone(), from).await {
            Ok(bus) => break Box::new(bus),
            Err(why) => tracing::debug!("{name}: {why}"),
        }
        tokio::time::sleep(RETRY).await;
    };
    let mut bus = RecordedBus { bus, log: log.clone() };
    let start = u64::from_le_bytes(random::bytes().expect("the kernel has random numbers"));
    let identity = NodeIdentity {
        name: &name,
        start,
        aggregators: &options.aggregators,
        clock_offset: options.clock_offset,
    };
    let node = CommandNode::join(identity, ledger, clock::boot(), &mut bus);
    let mut node = node.expect("the ledger can be written");
    if options.removes_dead {
        node.watch_members(&mut bus);
    }
    let rows = options.rows.clone().map(|rows| RowSources::new(&name, rows));
    let mut life = AgentLife { node, bus, log, view, options, rows, pending: HashMap::new() };
    loop {
        // Fails only if the agent is gone, and then this task is.
        let _ = paused.wait_for(|is_paused| !is_paused).await;
        tokio::select! {
            outputs = step(&mut life.node, &mut life.bus) => life.take(outputs),
            Some(call) = calls.recv() => life.call(call),
            Some(bytes) = readings.recv() => life.publish(bytes),
            () = rows_due(life.rows.as_ref()) => life.send_rows(),
            _ = paused.changed() => {}
        }
    }
}

struct AgentLife {
    node: CommandNode<FileLedger>,
    bus: RecordedBus,
    log: SharedLog,
    view: watch::Sender<AgentView>,
    options: Arc<AgentOptions>,
    /// Those that follow it.
    rows: Option<RowSources>,
    pending: HashMap<EntryId, oneshot::Sender<CallResult>>,
}

impl AgentLife {
    fn call(&mut self, AgentCall { options, result }: AgentCall) {
        // Without a member there is no call: the sender of the result is dropped.
        if let Ok(id) = self.node.call(clock::boot(), &mut self.bus, options) {
            self.pending.insert(id, result);
        }
    }

    fn execute(&mut self, execution: Execution) {
        let opened = self.rows.as_mut().and_then(|rows| rows.open(&execution));
        let result = opened.unwrap_or_else(|| {
            let reply = self.options.reply.clone();
            let result = reply.unwrap_or_else(|| execution.payload.clone());
            locked(&self.log).executed.push((execution.seq, execution.payload));
            ExecutionResult::Executed(result)
        });
        self.node.finish(clock::boot(), &mut self.bus, (execution.seq, result));
    }

    /// Publishes a reading, or sends it to the first of its aggregators, which is to run.
    fn publish(&mut self, bytes: Vec<u8>) {
        let aggregators = expand(&self.options.aggregators, &BTreeSet::new()).unwrap_or_default();
        let record = String::from_utf8(bytes).expect("JSON");
        match aggregators.first() {
            None => self.bus.publish(Topic::Sample, record.into_bytes()),
            Some(aggregator) => {
                let record = RawValue::from_string(record).expect("JSON");
                self.bus.send(aggregator, PeerMessage::Rollup(record).to_bytes());
            }
        }
    }

    fn send_rows(&mut self) {
        if let Some(rows) = &mut self.rows {
            rows.send(self.node.members(), &mut self.bus);
        }
    }

    fn take(&mut self, outputs: Vec<NodeOutput>) {
        let (mut removed, mut has_changed) = (Vec::new(), false);
        for output in outputs {
            has_changed |= matches!(output, NodeOutput::Members(_));
            match output {
                NodeOutput::Execute(execution) => self.execute(execution),
                NodeOutput::Concluded(result) => {
                    if let Some(sender) = self.pending.remove(&result.id) {
                        // Fails only if the caller does not wait any longer.
                        let _ = sender.send(result);
                    }
                }
                NodeOutput::Members(MembershipChange::Removed(member)) => {
                    removed.push(member.node);
                }
                NodeOutput::Bus(BusEvent::Message { from, bytes }) => {
                    if let Some(rows) = &mut self.rows {
                        rows.message(&from, &bytes, &mut self.bus);
                    }
                }
                NodeOutput::Failed(why) => locked(&self.log).failures.push(why),
                NodeOutput::Members(_) | NodeOutput::NameInUse | NodeOutput::Bus(_) => {}
            }
        }
        let is_member = self.node.is_member();
        if has_changed || is_member != self.view.borrow().is_member {
            self.view.send_modify(|view| {
                (view.is_member, view.n_members) = (is_member, self.node.members().count());
                view.removed.extend(removed);
            });
        }
    }
}

/// Waits until rows are due; for ever if none are.
async fn rows_due(rows: Option<&RowSources>) {
    match rows.and_then(RowSources::due) {
        // A millisecond more: the timer may be early.
        Some(due) => {
            let wait = Duration::from_nanos(due.since(clock::boot()).0);
            tokio::time::sleep(wait + Duration::from_millis(1)).await;
        }
        None => std::future::pending().await,
    }
}

/// Waits until the node has outputs, or a step has passed.
async fn step(node: &mut CommandNode<FileLedger>, bus: &mut RecordedBus) -> Vec<NodeOutput> {
    let (due, is_member) = (node.due(), node.is_member());
    // A millisecond more: the timer may be early.
    let wait = Duration::from_nanos(due.since(clock::boot()).0) + Duration::from_millis(1);
    let wait = tokio::time::sleep(wait);
    pin!(wait);
    let outputs = poll_fn(|context| {
        let outputs = node.step_and_wake(clock::boot(), bus, context);
        // An event may have set an earlier time.
        let is_idle = outputs.is_empty() && node.is_member() == is_member && node.due() >= due;
        match (is_idle, wait.as_mut().poll(context)) {
            (true, Poll::Pending) => Poll::Pending,
            _ => Poll::Ready(outputs),
        }
    });
    outputs.await
}
