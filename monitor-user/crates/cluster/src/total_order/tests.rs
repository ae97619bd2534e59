//! Tests of the total order with lost, late and repeated messages, and changing members.

use super::{OrderMessage, OrderOutput, Payload, TotalOrder, WirePacket};
use monitor_model::Ns;
use monitor_omis::Node;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Nodes, the messages between them, and the executed payloads of each.
struct OrderNet {
    now: Ns,
    nodes: BTreeMap<Node, TotalOrder>,
    done: BTreeMap<Node, Vec<String>>,
    messages: VecDeque<(Node, Node, OrderMessage)>,
    state: u64,
}

impl OrderNet {
    fn new(n_nodes: u32) -> Self {
        let numbers = || (0..n_nodes).map(Node);
        let nodes = numbers().map(|node| (node, TotalOrder::new(node))).collect();
        let done = numbers().map(|node| (node, Vec::new())).collect();
        let letters = VecDeque::new();
        let mut it = Self { now: Ns(0), nodes, done, messages: letters, state: 7 };
        it.set_members();
        it.settle();
        it
    }

    fn set_members(&mut self) {
        let members: Vec<Node> = self.nodes.keys().copied().collect();
        for node in &members {
            let out = self.nodes.get_mut(node).unwrap().set_members(self.now, members.clone());
            self.route(*node, out);
        }
    }

    fn propose(&mut self, from: u32, text: &str) {
        let what = WirePacket { request: text.into(), ..WirePacket::default() };
        let payload = Payload { nodes: vec![], packet: Box::new(what) };
        let out = self.nodes.get_mut(&Node(from)).unwrap().propose(self.now, payload);
        self.route(Node(from), out);
    }

    fn route(&mut self, node: Node, out: Vec<OrderOutput>) {
        for it in out {
            match it {
                OrderOutput::Send(to, message) => self.messages.push_back((node, to, message)),
                OrderOutput::Execute(payload) => {
                    self.done.get_mut(&node).unwrap().push(payload.packet.request)
                }
            }
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 33) % below
    }

    fn deliver(&mut self, (from, to, message): (Node, Node, OrderMessage)) {
        if let Some(order) = self.nodes.get_mut(&to) {
            let out = order.receive(self.now, from, message);
            self.route(to, out);
        }
    }

    /// Delivers all messages in order, and advances the clock until nothing is due.
    fn settle(&mut self) {
        for _ in 0..100 {
            while let Some(message) = self.messages.pop_front() {
                self.deliver(message);
            }
            let Some(due) = self.nodes.values().filter_map(TotalOrder::due).min() else { return };
            self.now = self.now.max(due);
            self.tick();
        }
        panic!("the nodes do not settle");
    }

    fn tick(&mut self) {
        let nodes: Vec<Node> = self.nodes.keys().copied().collect();
        for node in nodes {
            let out = self.nodes.get_mut(&node).unwrap().tick(self.now);
            self.route(node, out);
        }
    }

    /// Delivers, loses, delays or repeats one message.
    fn chance(&mut self) {
        let Some(message) = self.messages.pop_front() else { return };
        // Proposals are not resent: the caller's deadline covers their loss.
        let may_be_lost =
            !matches!(message.2, OrderMessage::Propose { .. } | OrderMessage::View { .. });
        match self.random(8) {
            0 if may_be_lost => {}
            1 => self.messages.push_back(message),
            2 if may_be_lost => {
                self.messages.push_back(message.clone());
                self.deliver(message);
            }
            _ => self.deliver(message),
        }
    }

    #[track_caller]
    fn all_did(&self, n_done: usize) {
        let orders: BTreeSet<&Vec<String>> =
            self.nodes.keys().map(|node| &self.done[node]).collect();
        assert_eq!(orders.len(), 1, "{orders:?}");
        let done = orders.first().unwrap();
        assert_eq!(
            done.iter().collect::<BTreeSet<_>>().len(),
            done.len(),
            "a payload was executed twice"
        );
        assert_eq!(done.len(), n_done);
    }
}

#[test]
fn all_nodes_execute_the_same_in_the_same_order() {
    let mut world = OrderNet::new(3);
    for round in 0..23 {
        for node in 0..3 {
            world.propose(node, &format!("{node}.{round}"));
        }
    }
    world.settle();
    world.all_did(69);
}

#[test]
fn lost_late_and_repeated_messages_do_not_change_the_order() {
    for seed in 0..200 {
        let mut world = OrderNet::new(4);
        world.state = seed;
        for round in 0..23 {
            let node = u32::try_from(world.random(4)).unwrap();
            world.propose(node, &format!("{node}.{round}"));
            (0..4).for_each(|_| world.chance());
        }
        while !world.messages.is_empty() {
            world.chance();
        }
        world.settle();
        world.all_did(23);
    }
}

#[test]
fn proposals_of_one_node_keep_their_order() {
    let mut world = OrderNet::new(3);
    (0..5).for_each(|round| world.propose(2, &round.to_string()));
    world.settle();
    assert_eq!(world.done[&Node(0)], ["0", "1", "2", "3", "4"]);
}

#[test]
fn a_new_node_starts_with_the_next_payload() {
    let mut world = OrderNet::new(2);
    world.propose(1, "before");
    world.settle();
    world.nodes.insert(Node(2), TotalOrder::new(Node(2)));
    world.done.insert(Node(2), Vec::new());
    world.set_members();
    world.settle();
    world.propose(2, "after");
    world.settle();
    assert_eq!(world.done[&Node(0)], ["before", "after"]);
    assert_eq!(world.done[&Node(2)], ["after"]);
}

#[test]
fn a_proposal_of_a_node_that_others_do_not_know_yet_is_executed_later() {
    let mut world = OrderNet::new(1);
    world.nodes.insert(Node(1), TotalOrder::new(Node(1)));
    world.done.insert(Node(1), Vec::new());
    let both = vec![Node(0), Node(1)];
    let out = world.nodes.get_mut(&Node(1)).unwrap().set_members(world.now, both.clone());
    world.route(Node(1), out);
    world.propose(1, "early");
    (0..9).for_each(|_| world.chance());
    assert!(world.done[&Node(1)].is_empty());
    let out = world.nodes.get_mut(&Node(0)).unwrap().set_members(world.now, both);
    world.route(Node(0), out);
    world.settle();
    world.all_did(1);
}

#[test]
fn the_order_continues_when_the_sequencer_is_lost() {
    for seed in 0..200 {
        let mut world = OrderNet::new(4);
        world.state = seed;
        for round in 0..23 {
            let node = 1 + u32::try_from(world.random(3)).unwrap();
            world.propose(node, &format!("{node}.{round}"));
            let n_letters = world.random(12);
            (0..n_letters).for_each(|_| {
                if let Some(message) = world.messages.pop_front() {
                    world.deliver(message);
                }
            });
        }
        // Messages to the sequencer, and some from it, are lost with it.
        world.nodes.remove(&Node(0));
        let cut = usize::try_from(world.random(9)).unwrap();
        let mut sent = 0;
        world.messages.retain(|(from, to, _)| {
            sent += usize::from(*from == Node(0));
            *to != Node(0) && (*from != Node(0) || sent < cut)
        });
        world.set_members();
        world.settle();
        world.all_did(23);
    }
}
