//! A node on a bus: its members, what it executes, and what it has called.
//!
//! In: the bus, the boot clock, results of executions. Out: commands to execute, results of calls,
//! and events of the bus that are not about commands. It runs over any `Bus`, on one thread.

use super::caller::{CallOptions, CallResult, CommandCaller};
use super::executor::{BaseNotice, CommandExecutor, Execution, ExecutionResult, ExecutorOutput};
use super::ledger::Ledger;
use super::liveness::{HEARTBEAT, HEARTBEAT_OF_REMOVER, Liveness};
use super::ticks::Ticks;
use crate::bus::entry::{BusEntry, EntryBody, EntryId, Seq};
use crate::bus::membership::{Membership, MembershipChange};
use crate::bus::{Bus, BusEvent, Topic, UnsequencedCause};
use monitor_model::Ns;
use std::io;
use std::task::{Context, Poll, Waker};

/// How long a bus that is not reachable is tried for entries about this node.
const GIVE_UP: Ns = Ns(30_000_000_000);
/// Number of events that are handled before the caller gets the outputs.
const MAX_EVENTS: usize = 1024;

/// What the caller has to do, or may want to know.
#[derive(Debug, PartialEq, Eq)]
pub enum NodeOutput {
    /// Execute a command, and call `finish`.
    Execute(Execution),
    /// A call has ended.
    Concluded(CallResult),
    /// A member came or went.
    Members(MembershipChange),
    /// Another daemon uses the name of this node.
    NameInUse,
    /// Something failed that an administrator should know.
    Failed(String),
    /// An event that is not about commands: what others send and publish, a lease.
    Bus(BusEvent),
}

/// What a node says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeIdentity<'a> {
    /// Its name.
    pub name: &'a str,
    /// A random number of this start of the daemon.
    pub start: u64,
    /// The nodes that may publish its readings with those of others, as a set; none if empty.
    pub aggregators: &'a str,
    /// Its realtime clock less the boot clock: nodes whose clocks agree tick at the same time.
    pub clock_offset: Ns,
}

/// A node on a bus.
pub struct CommandNode<L> {
    name: String,
    /// Random number of this start of the daemon.
    start: u64,
    number: u64,
    members: Membership,
    executor: CommandExecutor<L>,
    caller: CommandCaller,
    ticks: Ticks,
    /// The period of the last sign of life.
    last_heartbeat: Option<u64>,
    /// Set on a node that removes dead members.
    liveness: Option<Liveness>,
}

impl<L: Ledger> CommandNode<L> {
    /// A node that joins.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn join(
        NodeIdentity { name, start, aggregators, clock_offset }: NodeIdentity<'_>,
        ledger: L,
        now: Ns,
        bus: &mut dyn Bus,
    ) -> io::Result<Self> {
        let (executor, outputs) = CommandExecutor::new((name, aggregators), ledger, now)?;
        let mut node = Self {
            name: name.to_owned(),
            start,
            number: 0,
            members: Membership::default(),
            executor,
            caller: CommandCaller::default(),
            ticks: Ticks::new(clock_offset, now),
            last_heartbeat: None,
            liveness: None,
        };
        // A node that joins has nothing to execute yet.
        node.route(now, bus, (outputs, &mut Vec::new()));
        Ok(node)
    }

    /// Takes out a check.
    #[cfg(test)]
    pub const fn take_out(&mut self, check: super::executor::Check) {
        self.executor.take_out(check);
    }

    /// The members, as far as this node has seen the order.
    pub const fn members(&self) -> &Membership {
        &self.members
    }

    /// Whether this node is a member.
    pub const fn is_member(&self) -> bool {
        self.executor.is_member()
    }

    /// When the next `step` is due, if the bus has no event before.
    pub fn due(&self) -> Ns {
        let removal = self.liveness.as_ref().and_then(Liveness::due);
        self.caller.due().into_iter().chain(removal).fold(self.ticks.due(), Ns::min)
    }

    /// Handles what the bus has, and the passing of time; again at once while it returns outputs.
    pub fn step(&mut self, now: Ns, bus: &mut dyn Bus) -> Vec<NodeOutput> {
        self.step_and_wake(now, bus, &mut Context::from_waker(Waker::noop()))
    }

    /// The same; the waker is called when the bus has an event for the next step.
    pub fn step_and_wake(
        &mut self,
        now: Ns,
        bus: &mut dyn Bus,
        context: &mut Context<'_>,
    ) -> Vec<NodeOutput> {
        let mut out = Vec::new();
        let mut is_drained = false;
        for _ in 0..MAX_EVENTS {
            let Poll::Ready(event) = bus.poll_event(context) else {
                is_drained = true;
                break;
            };
            self.event(now, event, (bus, &mut out));
        }
        if !is_drained {
            // The bus calls the waker only after it had none.
            context.waker().wake_by_ref();
        }
        if self.ticks.take(now) {
            let outputs = self.executor.tick(now);
            self.route(now, bus, (outputs, &mut out));
            self.tick_liveness(now, bus);
        } else if self.liveness.as_ref().and_then(Liveness::due).is_some_and(|due| due <= now) {
            self.remove_dead(now, bus);
        }
        let concluded = self.caller.tick(now, &self.members);
        out.extend(concluded.into_iter().map(NodeOutput::Concluded));
        out
    }

    /// Sends a command; `Concluded` follows.
    ///
    /// # Errors
    /// This node is not a member, or has too many commands.
    pub fn call(
        &mut self,
        now: Ns,
        bus: &mut dyn Bus,
        options: CallOptions,
    ) -> Result<EntryId, String> {
        let latest = self.executor.clock().latest_stream_time(now);
        let latest = latest.filter(|_| self.is_member());
        let latest = latest.ok_or("this node has not joined the cluster yet")?;
        let give_up = Ns(now.0.saturating_add(options.begin_within.0));
        let id = self.next_id();
        let body = self.caller.call((now, latest), id, options)?;
        bus.multicast(now, BusEntry { origin: self.name.clone(), id, body }, give_up);
        Ok(id)
    }

    /// Reports how an execution ended.
    pub fn finish(&mut self, now: Ns, bus: &mut dyn Bus, ended: (Seq, ExecutionResult)) {
        let outputs = self.executor.finish(ended.0, ended.1);
        // A reply is no output for the caller.
        self.route(now, bus, (outputs, &mut Vec::new()));
    }

    /// Announces that the node leaves, and does so after `lasts`: until then it executes what
    /// others have to do on it. A later `leave` ends that time.
    pub fn drain(&mut self, now: Ns, bus: &mut dyn Bus, lasts: Ns) {
        let outputs = self.executor.drain(now, lasts);
        self.route(now, bus, (outputs, &mut Vec::new()));
    }

    /// Announces that the node leaves; the change among the members says when it has left.
    pub fn leave(&mut self, now: Ns, bus: &mut dyn Bus) {
        let outputs = self.executor.leave(now);
        self.route(now, bus, (outputs, &mut Vec::new()));
    }

    /// Joins again, after this node has left.
    pub fn join_again(&mut self, now: Ns, bus: &mut dyn Bus) {
        let outputs = self.executor.join_again(now);
        // A node that joins has nothing to execute yet.
        self.route(now, bus, (outputs, &mut Vec::new()));
    }

    /// Removes members that are dead, from now on: for service nodes, of which one at a time does.
    pub fn watch_members(&mut self, bus: &mut dyn Bus) {
        self.liveness = Some(Liveness::subscribe(bus));
    }

    /// Removes a member that does not answer; only a service node may.
    pub fn remove(&mut self, now: Ns, bus: &mut dyn Bus, node: &str) {
        let Some(member) = self.members.get(node) else { return };
        let (node, incarnation) = (member.node.clone(), member.incarnation);
        self.multicast(now, bus, EntryBody::Removed { node, incarnation });
    }

    fn event(
        &mut self,
        now: Ns,
        event: BusEvent,
        (bus, out): (&mut dyn Bus, &mut Vec<NodeOutput>),
    ) {
        let mut concluded = Vec::new();
        match event {
            BusEvent::Base { as_of, members, cause } => {
                self.members = Membership::new(as_of, members);
                let own = self.members.get(&self.name);
                let outputs = self.executor.base(now, &BaseNotice { cause, as_of, own });
                self.route(now, bus, (outputs, out));
            }
            BusEvent::Entry(at) => {
                let change = self.members.apply(&at);
                concluded = self.caller.entry(&self.name, (&at, &change), &self.members);
                if change != MembershipChange::Unchanged {
                    out.push(NodeOutput::Members(change.clone()));
                }
                let outputs = self.executor.entry(now, at, change);
                self.route(now, bus, (outputs, out));
            }
            BusEvent::Unsequenced { why: UnsequencedCause::NameInUse, .. } => {
                let outputs = self.executor.name_in_use(now);
                self.route(now, bus, (outputs, out));
            }
            BusEvent::Unsequenced { id, why: UnsequencedCause::Refused(why) } => {
                concluded = self.caller.unsequenced(id, &why, &self.members);
            }
            // The entry itself arrives in the order.
            BusEvent::Sequenced { .. } => {}
            BusEvent::Reply { from, reply } => concluded = self.caller.reply(now, from, reply),
            BusEvent::OwnRecord(record) => {
                let outputs = self.executor.own_record(now, &record);
                self.route(now, bus, (outputs, out));
            }
            event @ BusEvent::Message { .. } => out.push(NodeOutput::Bus(event)),
            event @ (BusEvent::Published { .. }
            | BusEvent::Lease { .. }
            | BusEvent::Disconnected { .. }) => {
                let other = match &mut self.liveness {
                    Some(liveness) => liveness.event(now, &self.name, event),
                    None => Some(event),
                };
                out.extend(other.map(NodeOutput::Bus));
            }
        }
        out.extend(concluded.into_iter().map(NodeOutput::Concluded));
    }

    fn route(
        &mut self,
        now: Ns,
        bus: &mut dyn Bus,
        (outputs, out): (Vec<ExecutorOutput>, &mut Vec<NodeOutput>),
    ) {
        for output in outputs {
            match output {
                ExecutorOutput::Execute(execution) => out.push(NodeOutput::Execute(execution)),
                ExecutorOutput::Reply { to, reply } => bus.reply(&to, reply),
                ExecutorOutput::Multicast(body) => self.multicast(now, bus, body),
                ExecutorOutput::ReadOwnRecord => bus.read_own_record(now),
                ExecutorOutput::NameInUse => out.push(NodeOutput::NameInUse),
                ExecutorOutput::Failed(why) => out.push(NodeOutput::Failed(why)),
            }
        }
    }

    /// Sends the own heartbeat when it is due, and removes members that are dead.
    fn tick_liveness(&mut self, now: Ns, bus: &mut dyn Bus) {
        let period = if self.liveness.is_some() { HEARTBEAT_OF_REMOVER } else { HEARTBEAT };
        let period = Some(self.ticks.period(now, period));
        if let Some(incarnation) = self.executor.stay()
            && self.last_heartbeat != period
        {
            self.last_heartbeat = period;
            bus.publish(Topic::Heartbeat, incarnation.0.to_le_bytes().to_vec());
        }
        if let Some(liveness) = &mut self.liveness {
            liveness.request_lease(now, bus);
        }
        self.remove_dead(now, bus);
    }

    fn remove_dead(&mut self, now: Ns, bus: &mut dyn Bus) {
        let Some(liveness) = &mut self.liveness else { return };
        for removal in liveness.removals(now, &self.name, &self.members) {
            self.multicast(now, bus, removal);
        }
    }

    fn multicast(&mut self, now: Ns, bus: &mut dyn Bus, body: EntryBody) {
        let entry = BusEntry { origin: self.name.clone(), id: self.next_id(), body };
        bus.multicast(now, entry, Ns(now.0.saturating_add(GIVE_UP.0)));
    }

    fn next_id(&mut self) -> EntryId {
        self.number += 1;
        EntryId { start: self.start, number: self.number }
    }
}
