//! The requests of many nodes: the machine of this one, and the one order between all.
//!
//! In: what tools say, what happens here, letters of other nodes, who there is. Out: lines for
//! tools, letters for nodes. A node alone has no letters. Synchronous like the machine; whoever
//! calls owns the ground, the clock and the link.

mod parcel;

use super::message::RequestLetter;
use super::order::{Order, Out};
use monitor_event::right::Tool;
use monitor_model::id::Ns;
use monitor_omis::Node;
use monitor_platform::Ground;
use monitor_protocol::Conn;
use monitor_protocol::answer;
use monitor_services::ctx::Member;
use monitor_services::requests::{Input, Limits, Machine, Output};
use std::collections::VecDeque;

/// Whatever is to be done.
#[derive(Debug, PartialEq)]
pub enum Act {
    /// Say the reply to a line.
    Reply(Conn, String),
    /// Tell a tool what occurred.
    Told(Conn, String),
    /// Send this to a node.
    Send(Node, RequestLetter),
}

/// The requests of this node among others.
pub struct Requests {
    node: Node,
    machine: Machine,
    order: Order,
}

impl Requests {
    /// Of a node without others.
    pub fn alone(own: Member, limits: Limits) -> Self {
        Self { node: own.node, order: Order::new(own.node), machine: Machine::new(own, limits) }
    }

    /// Takes an input; says what is to be done.
    pub fn input(&mut self, now: Ns, input: Input, ground: &mut dyn Ground) -> Vec<Act> {
        let mut acts = Vec::new();
        let mut outs = VecDeque::new();
        if matches!(input, Input::Tick) {
            outs.extend(self.order.tick(now));
        }
        if let Input::Members(members) = &input {
            let nodes = members.iter().map(|it| it.node).collect();
            outs.extend(self.order.meet(now, nodes));
        }
        let outputs = self.machine.input(now, input, ground);
        self.pass(outputs, now, &mut outs, &mut acts);
        self.follow(outs, (now, ground), &mut acts);
        acts
    }

    /// Takes what another node sent.
    pub fn receive(
        &mut self,
        now: Ns,
        (from, letter): (Node, RequestLetter),
        ground: &mut dyn Ground,
    ) -> Vec<Act> {
        let mut acts = Vec::new();
        let mut outs = VecDeque::new();
        let input = match letter {
            RequestLetter::Order(letter) => {
                outs.extend(self.order.receive(now, from, letter));
                None
            }
            RequestLetter::Answer(answer) => parcel::answered(&answer).map(Input::Answered),
            RequestLetter::Spoken(spoken) => parcel::spoken(&spoken).map(Input::Spoken),
        };
        if let Some(input) = input {
            let outputs = self.machine.input(now, input, ground);
            self.pass(outputs, now, &mut outs, &mut acts);
        }
        self.follow(outs, (now, ground), &mut acts);
        acts
    }

    /// When it must be given an input, if nothing happens before.
    pub fn due(&self) -> Option<Ns> {
        self.machine.due().into_iter().chain(self.order.due()).min()
    }

    /// The stored requests of those whose may be told of.
    pub fn rules(
        &self,
        is_shown: impl Fn(&Tool) -> bool,
        ground: &mut dyn Ground,
    ) -> Vec<answer::Rule> {
        self.machine.rules(is_shown, ground)
    }

    /// How many tools there are, those of other nodes included.
    pub fn n_sessions(&self) -> usize {
        self.machine.n_sessions()
    }

    /// What comes of the order: letters, and parcels whose turn it is.
    fn follow(
        &mut self,
        mut outs: VecDeque<Out>,
        (now, ground): (Ns, &mut dyn Ground),
        acts: &mut Vec<Act>,
    ) {
        while let Some(out) = outs.pop_front() {
            match out {
                Out::Send(to, letter) => acts.push(Act::Send(to, RequestLetter::Order(letter))),
                Out::Due(parcel) => {
                    let Some(packet) = parcel::unpack(&parcel) else { continue };
                    let outputs = self.machine.input(now, Input::Ordered(packet), ground);
                    self.pass(outputs, now, &mut outs, acts);
                }
            }
        }
    }

    fn pass(
        &mut self,
        outputs: Vec<Output>,
        now: Ns,
        outs: &mut VecDeque<Out>,
        acts: &mut Vec<Act>,
    ) {
        for output in outputs {
            match output {
                Output::Reply(conn, line) => acts.push(Act::Reply(conn, line)),
                Output::Told(conn, line) => acts.push(Act::Told(conn, line)),
                Output::Order(packet) => {
                    outs.extend(self.order.propose(now, parcel::pack(&packet)));
                }
                Output::Answer(to, answered) => {
                    let letter = RequestLetter::Answer(parcel::answer(&answered));
                    acts.push(Act::Send(to, letter));
                }
                Output::Speak(to, spoken) => {
                    let letter = RequestLetter::Spoken(parcel::words(&spoken));
                    acts.push(Act::Send(to, letter));
                }
            }
        }
    }

    /// This node.
    pub const fn node(&self) -> Node {
        self.node
    }
}
