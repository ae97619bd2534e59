//! The loop of the thread: connects, joins, and then waits for the bus, for jobs and for commands
//! that end.
//!
//! A server that is away changes nothing for the users of this node: the loop tries it again, and
//! refuses what needs it. Once connected, the bus itself connects again.

use super::command_execution::{CommandRunner, ExecutedCommand};
use super::connector::BusAddress;
use super::following::{BusNode, Following};
use super::gathering::{Gathering, command, gathered};
use super::job::{ClusterJob, ClusterSettings, GatherCall};
use super::language_exchange::{LanguageExchange, send_peer};
use super::member_table::MemberTable;
use super::rollup::{RollupEvent, RollupExchange};
use super::source_sessions::{SessionLines, SourceSessions};
use super::timer_slots::TimerSlots;
use super::users::CommandUsers;
use monitor_cluster::bus::entry::{EntryId, Seq};
use monitor_cluster::bus::membership::MembershipChange;
use monitor_cluster::bus::{Bus, BusEvent, Topic};
use monitor_cluster::command::ledger::{FileLedger, Ledger as _};
use monitor_cluster::command::{
    CallResult, CommandNode, Execution, ExecutionResult, NodeIdentity, NodeOutput,
};
use monitor_cluster::follow::KEEP;
use monitor_cluster::follow::message::FollowMessage;
use monitor_cluster::message::PeerMessage;
use monitor_cluster::request::{RequestOutput, WirePacket};
use monitor_model::{Ns, Refusal, Status};
use monitor_protocol::cluster::{ClusterState, Gathered, Members};
use monitor_protocol::reply;
use monitor_sys::{clock, random};
use std::collections::HashMap;
use std::future::{Future as _, poll_fn};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::pin;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::{sleep, sleep_until, timeout};

/// Time between two attempts to connect.
const RETRY: Duration = Duration::from_secs(1);
/// How long the end of the daemon waits until the node has left.
const LEAVE: Duration = Duration::from_secs(1);

/// Runs the node until it is stopped.
pub async fn run(
    settings: ClusterSettings,
    (ledger, slots): (FileLedger, TimerSlots),
    mut jobs: UnboundedReceiver<ClusterJob>,
) {
    let from = ledger.last().map(|last| Seq(last.0 + 1));
    let Some(mut bus) = connect(&settings, from, &mut jobs).await else { return };
    tracing::info!(node = settings.node, "connected to the bus");
    let start = match random::bytes().map(u64::from_le_bytes) {
        Ok(start) => start,
        Err(error) => return tracing::error!("no random number for the cluster: {error}"),
    };
    let aggregators = settings.config.aggregators.clone();
    let identity = NodeIdentity {
        name: &settings.node,
        start,
        aggregators: &aggregators,
        clock_offset: clock::realtime_offset(),
    };
    let joined = CommandNode::join(identity, ledger, clock::boot(), bus.as_mut());
    let mut node = match joined {
        Ok(node) => node,
        Err(error) => return tracing::error!("the ledger cannot be written: {error}"),
    };
    if settings.config.removes_dead {
        node.watch_members(bus.as_mut());
    }
    let (ended, ends) = unbounded_channel();
    let ClusterSettings { config, node: own, requests, rollup, language, .. } = settings;
    bus.subscribe(Topic::RollupRequest);
    let rollups = RollupExchange::new((&own, &aggregators), requests.clone(), rollup);
    let users = CommandUsers::default();
    let runner = CommandRunner { requests, users, control_from: config.control_from };
    let language = LanguageExchange::new(language, runner.clone(), ended.clone());
    let mut cluster = ClusterLoop {
        own,
        slots,
        node,
        bus,
        runner,
        ended,
        ends,
        members: MemberTable::default(),
        is_name_used: false,
        gatherings: HashMap::new(),
        following: Following::new(start),
        sessions: SourceSessions::new(),
        sessions_due: Ns(0),
        rollups,
        language,
    };
    cluster.run(&mut jobs).await;
    cluster.leave().await;
}

/// Connects; `None` if the thread is to end. Jobs that need the bus are refused meanwhile.
async fn connect(
    settings: &ClusterSettings,
    from: Option<Seq>,
    jobs: &mut UnboundedReceiver<ClusterJob>,
) -> Option<Box<dyn Bus>> {
    let why = Mutex::new("it was not tried yet".to_owned());
    // The text is whole, also after a panic.
    let last = || why.lock().unwrap_or_else(PoisonError::into_inner);
    let connected = async {
        loop {
            let address = BusAddress::new(&settings.config, &settings.node);
            match settings.connector.connect(address, from).await {
                Ok(bus) => return bus,
                Err(error) => {
                    let earlier = std::mem::replace(&mut *last(), error.clone());
                    if earlier != error {
                        tracing::warn!("no connection to the bus: {error}; trying again");
                    }
                }
            }
            sleep(RETRY).await;
        }
    };
    pin!(connected);
    loop {
        let job = tokio::select! {
            bus = &mut connected => return Some(bus),
            job = jobs.recv() => job,
        };
        match job {
            None | Some(ClusterJob::Stop) => return None,
            Some(ClusterJob::Members(answer)) => {
                let (node, state) = (settings.node.clone(), ClusterState::Connecting);
                // Fails only if the client has left.
                let _ = answer.send(Members { node, state, members: Vec::new() });
            }
            Some(ClusterJob::Gather(_, answer)) => {
                let why = format!("this node has no connection to the bus: {}", last());
                let _ = answer.send(Err(Refusal::new(Status::Unreach, why)));
            }
            Some(ClusterJob::Follow(call)) => {
                let why = format!("this node has no connection to the bus: {}", last());
                let refusal = Refusal::new(Status::Unreach, why);
                call.outbox.reply(reply::refusal_line(&call.tag, &refusal));
            }
            // Nothing is followed yet.
            Some(ClusterJob::Unfollow(_)) => {}
            // The part ends at its deadline.
            Some(ClusterJob::Peer(..)) => {}
            // A viewer that still wants them asks again.
            Some(ClusterJob::WantRollups(_)) => {}
        }
    }
}

/// A command that has ended.
type Ended = (Seq, ExecutedCommand);

/// The node on its bus.
struct ClusterLoop {
    own: String,
    /// When long waits end.
    slots: TimerSlots,
    node: CommandNode<FileLedger>,
    bus: Box<dyn Bus>,
    runner: CommandRunner,
    ended: UnboundedSender<Ended>,
    ends: UnboundedReceiver<Ended>,
    members: MemberTable,
    /// Whether another daemon had the name of this node when it last wanted to join.
    is_name_used: bool,
    /// Commands of this node that wait for their result.
    gatherings: HashMap<EntryId, Gathering>,
    /// What tools of this node follow.
    following: Following,
    /// What runs here for tools of other nodes.
    sessions: SourceSessions,
    /// When it is next checked that their nodes are there.
    sessions_due: Ns,
    /// Records of this node, and on a gateway those of all.
    rollups: RollupExchange,
    /// Requests of the whole cluster.
    language: LanguageExchange,
}

/// What wakes the loop.
enum ClusterEvent {
    Outputs(Vec<NodeOutput>),
    Job(Option<ClusterJob>),
    Ended(Ended),
    Lines(SessionLines),
    Tick,
    Rollup(RollupEvent),
    Language(RequestOutput),
}

impl ClusterLoop {
    async fn run(&mut self, jobs: &mut UnboundedReceiver<ClusterJob>) {
        loop {
            match self.next_event(jobs).await {
                ClusterEvent::Outputs(outputs) => {
                    outputs.into_iter().for_each(|output| self.output(output));
                }
                ClusterEvent::Ended((seq, executed)) => {
                    let result = self.executed(executed);
                    self.node.finish(clock::boot(), self.bus.as_mut(), (seq, result));
                }
                ClusterEvent::Lines(lines) => {
                    let (_, sessions, on) = self.parts();
                    sessions.send(lines, on);
                }
                ClusterEvent::Tick => self.tick(),
                ClusterEvent::Job(Some(ClusterJob::Follow(call))) => {
                    let (following, _, on) = self.parts();
                    following.start(call, on);
                }
                ClusterEvent::Job(Some(ClusterJob::Unfollow(conn))) => {
                    let (following, _, on) = self.parts();
                    following.close(conn, on);
                }
                ClusterEvent::Job(Some(ClusterJob::Gather(call, answer))) => {
                    self.gather(call, answer);
                }
                ClusterEvent::Job(Some(ClusterJob::Members(answer))) => {
                    // Fails only if the client has left.
                    let _ = answer.send(self.list_members());
                }
                ClusterEvent::Job(Some(ClusterJob::WantRollups(lasts))) => {
                    self.rollups.want(clock::boot(), lasts, self.bus.as_mut());
                }
                ClusterEvent::Job(Some(ClusterJob::Peer(to, message))) => {
                    let (_, _, on) = self.parts();
                    send_peer(&to, PeerMessage::Monitor(*message), on);
                }
                ClusterEvent::Language(output) => {
                    let Self { node, bus, language, .. } = self;
                    language.send(output, BusNode { node, bus: bus.as_mut() });
                }
                ClusterEvent::Rollup(RollupEvent::Record(bytes)) => {
                    let Self { node, bus, rollups, .. } = self;
                    rollups.record(clock::boot(), bytes, BusNode { node, bus: bus.as_mut() });
                }
                ClusterEvent::Rollup(RollupEvent::Due) => self.roll_up(),
                ClusterEvent::Job(None | Some(ClusterJob::Stop)) => return,
            }
        }
    }

    async fn next_event(&mut self, jobs: &mut UnboundedReceiver<ClusterJob>) -> ClusterEvent {
        let due = self.tick_due();
        let Self { node, bus, ends, sessions, rollups, language, slots, .. } = self;
        tokio::select! {
            outputs = step(node, bus.as_mut(), *slots) => ClusterEvent::Outputs(outputs),
            job = jobs.recv() => ClusterEvent::Job(job),
            // The loop has a sender.
            Some(ended) = ends.recv() => ClusterEvent::Ended(ended),
            event = rollups.next_event() => ClusterEvent::Rollup(event),
            lines = sessions.next_lines() => ClusterEvent::Lines(lines),
            output = language.next_output() => ClusterEvent::Language(output),
            () = until(due) => ClusterEvent::Tick,
        }
    }

    /// When what is followed is next checked; `None` if nothing is.
    fn tick_due(&self) -> Option<Ns> {
        let sessions_due = (!self.sessions.is_empty()).then_some(self.sessions_due);
        self.following.due().into_iter().chain(sessions_due).min()
    }

    fn tick(&mut self) {
        let (following, _, on) = self.parts();
        let outputs = following.tick(on.node.members());
        following.carry_out(outputs, on);
        let now = clock::boot();
        if self.sessions_due <= now {
            self.sessions_due = Ns(now.0 + KEEP.0);
            let (_, sessions, on) = self.parts();
            let outputs = sessions.tick(on.node.members());
            sessions.carry_out(outputs, on);
        }
    }

    /// Those that follow, those that are followed, and what both need.
    fn parts(&mut self) -> (&mut Following, &mut SourceSessions, BusNode<'_>) {
        let Self { node, bus, following, sessions, .. } = self;
        (following, sessions, BusNode { node, bus: bus.as_mut() })
    }

    /// The result of a command; a session that it has opened begins.
    fn executed(&mut self, executed: ExecutedCommand) -> ExecutionResult {
        match executed {
            ExecutedCommand::Ended(result) => result,
            ExecutedCommand::Opened(session, result) => match self.sessions.open(session) {
                Ok(()) => result,
                Err(why) => ExecutionResult::Refused(why),
            },
        }
    }

    fn message(&mut self, from: &str, bytes: &[u8]) {
        match PeerMessage::from_bytes(bytes) {
            None => {}
            Some(Ok(PeerMessage::Rollup(record))) => {
                let members = self.node.members();
                return self.rollups.of_rack(clock::boot(), from, record, members);
            }
            Some(Ok(message)) => return self.language.message(from, message),
            Some(Err(error)) => return tracing::warn!("message of {from}: {error}"),
        }
        let message = match FollowMessage::from_bytes(bytes) {
            Ok(message) => message,
            Err(error) => return tracing::warn!("message of {from}: {error}"),
        };
        let (following, sessions, on) = self.parts();
        match &message {
            FollowMessage::Keep { .. }
            | FollowMessage::Handled { .. }
            | FollowMessage::Cancel { .. } => sessions.message(from, message, on),
            FollowMessage::Lines { .. }
            | FollowMessage::TooLong { .. }
            | FollowMessage::Alive { .. }
            | FollowMessage::Ended { .. } => following.message(from, message, on),
        }
    }

    fn output(&mut self, output: NodeOutput) {
        match output {
            NodeOutput::Execute(execution) => self.execute(execution),
            NodeOutput::Concluded(result) => self.conclude(result),
            NodeOutput::Members(change) => {
                log_change(&change);
                self.note_numbers(&change);
                self.members.change(&change, clock::now().unix.0);
                let (following, _, on) = self.parts();
                following.members(&change, on);
                let (_, sessions, on) = self.parts();
                sessions.members(&change, on);
            }
            NodeOutput::NameInUse => {
                let name = &self.own;
                tracing::error!("another daemon is the member {name:?}: set cluster.node");
                self.is_name_used = true;
            }
            NodeOutput::Failed(why) => tracing::error!("cluster: {why}"),
            NodeOutput::Bus(BusEvent::Message { from, bytes }) => self.message(&from, &bytes),
            NodeOutput::Bus(BusEvent::Published { from, topic, bytes }) => {
                let members = self.node.members();
                self.rollups.published(clock::boot(), topic, (&from, &bytes), members);
            }
            // Nothing of that was subscribed.
            NodeOutput::Bus(_) => {}
        }
    }

    /// Does what is due of roll-ups.
    fn roll_up(&mut self) {
        let members = match self.rollups.is_gateway() {
            true => self.list_members().members,
            false => Vec::new(),
        };
        let Self { node, bus, rollups, .. } = self;
        rollups.act(clock::boot(), &members, BusNode { node, bus: bus.as_mut() });
    }

    /// Follows the members that requests of the cluster name by number.
    fn note_numbers(&self, change: &MembershipChange) {
        let language = self.language.language();
        match change {
            // It may be the first change that this node sees.
            MembershipChange::Joined(member) if member.node == self.own => {
                language.set_members(self.node.members());
            }
            MembershipChange::Joined(member) => language.change(member, true),
            MembershipChange::Left(member) | MembershipChange::Removed(member) => {
                language.change(member, false);
            }
            _ => {}
        }
    }

    /// Begins a command; the loop goes on meanwhile.
    fn execute(&self, execution: Execution) {
        if WirePacket::is_packet(&execution.payload) {
            // After a gap in the order the changes did not come one by one.
            self.language.language().set_members(self.node.members());
        }
        let Some(execution) = self.language.execute(execution, &self.ended) else { return };
        let (runner, ended, seq) = (self.runner.clone(), self.ended.clone(), execution.seq);
        drop(tokio::spawn(async move {
            let result = runner.execute(execution).await;
            // Fails only if the thread ends.
            let _ = ended.send((seq, result));
        }));
    }

    fn gather(&mut self, call: GatherCall, answer: oneshot::Sender<Result<Gathered, Refusal>>) {
        let options = match command(call, self.node.members()) {
            Ok(options) => options,
            // Fails only if the client has left; so does each answer here.
            Err(refusal) => return drop(answer.send(Err(refusal))),
        };
        let now = clock::now();
        match self.node.call(now.boot, self.bus.as_mut(), options) {
            Ok(id) => {
                let gathering = Gathering { sent: (now.boot, now.unix.0), answer };
                self.gatherings.insert(id, gathering);
            }
            Err(why) => drop(answer.send(Err(Refusal::new(Status::Unreach, why)))),
        }
    }

    fn conclude(&mut self, result: CallResult) {
        let Self { node, bus, language, .. } = self;
        let on = BusNode { node, bus: bus.as_mut() };
        let Some(result) = language.concluded(result, on) else { return };
        let (following, _, on) = self.parts();
        let Some(result) = following.concluded(result, on) else { return };
        let Some(Gathering { sent, answer }) = self.gatherings.remove(&result.id) else { return };
        let _ = answer.send(Ok(gathered(result, sent, self.node.members())));
    }

    fn list_members(&mut self) -> Members {
        let is_member = self.node.is_member();
        self.is_name_used &= !is_member;
        self.members.update(self.node.members(), clock::now().unix.0);
        let state = match (is_member, self.is_name_used) {
            (true, _) => ClusterState::Member,
            (false, true) => ClusterState::NameInUse,
            (false, false) => ClusterState::Joining,
        };
        Members { node: self.own.clone(), state, members: self.members.list() }
    }

    /// Leaves the cluster; without a server, its silence ends the stay.
    async fn leave(&mut self) {
        let Self { node, bus, slots, .. } = self;
        node.leave(clock::boot(), bus.as_mut());
        let left = async {
            while node.is_member() {
                drop(step(node, bus.as_mut(), *slots).await);
            }
        };
        if timeout(LEAVE, left).await.is_err() {
            tracing::info!("the node could not leave the cluster in order");
        }
    }
}

fn log_change(change: &MembershipChange) {
    let (member, what) = match change {
        MembershipChange::Unchanged => return,
        MembershipChange::Joined(member) => (member, "has joined the cluster"),
        MembershipChange::NameInUse(member) => (member, "cannot join: its name is in use"),
        MembershipChange::Draining(member) => (member, "leaves the cluster soon"),
        MembershipChange::Left(member) => (member, "has left the cluster"),
        MembershipChange::Removed(member) => (member, "gives no sign of life: removed"),
    };
    tracing::info!(node = member.node, at = member.since.0, "{what}");
}

/// Waits until a time of the boot clock; forever without one.
async fn until(due: Option<Ns>) {
    match due {
        // A millisecond more: the timer may be early.
        Some(due) => {
            let wait = Duration::from_nanos(due.since(clock::boot()).0);
            sleep(wait + Duration::from_millis(1)).await;
        }
        None => std::future::pending().await,
    }
}

/// Waits until the node has outputs.
async fn step(
    node: &mut CommandNode<FileLedger>,
    bus: &mut dyn Bus,
    slots: TimerSlots,
) -> Vec<NodeOutput> {
    loop {
        let due = node.due();
        // A millisecond more: the timer may be early.
        let wait = Duration::from_nanos(due.since(clock::boot()).0) + Duration::from_millis(1);
        let wait = sleep_until(slots.after(wait).into());
        pin!(wait);
        let outputs = poll_fn(|context| {
            let outputs = node.step_and_wake(clock::boot(), bus, context);
            // An event may have set an earlier time.
            let is_idle = outputs.is_empty() && node.due() >= due;
            match (is_idle, wait.as_mut().poll(context)) {
                (true, Poll::Pending) => Poll::Pending,
                _ => Poll::Ready(outputs),
            }
        });
        let outputs = outputs.await;
        if !outputs.is_empty() {
            return outputs;
        }
    }
}
