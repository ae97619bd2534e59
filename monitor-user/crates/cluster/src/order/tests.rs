//! The order under lost, late and repeated letters, and when nodes come and go.

use super::{Letter, Order, Out, Parcel};
use crate::message::Written;
use monitor_model::id::Ns;
use monitor_omis::Node;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Nodes, the letters between them, and what each has executed.
struct World {
    now: Ns,
    nodes: BTreeMap<Node, Order>,
    done: BTreeMap<Node, Vec<String>>,
    letters: VecDeque<(Node, Node, Letter)>,
    state: u64,
}

impl World {
    fn new(n_nodes: u32) -> Self {
        let numbers = || (0..n_nodes).map(Node);
        let nodes = numbers().map(|node| (node, Order::new(node))).collect();
        let done = numbers().map(|node| (node, Vec::new())).collect();
        let letters = VecDeque::new();
        let mut it = Self { now: Ns(0), nodes, done, letters, state: 7 };
        it.meet();
        it.settle();
        it
    }

    fn meet(&mut self) {
        let members: Vec<Node> = self.nodes.keys().copied().collect();
        for node in &members {
            let out = self.nodes.get_mut(node).unwrap().meet(self.now, members.clone());
            self.take(*node, out);
        }
    }

    fn propose(&mut self, from: u32, text: &str) {
        let what = Written { request: text.into(), ..Written::default() };
        let parcel = Parcel { nodes: vec![], what: Box::new(what) };
        let out = self.nodes.get_mut(&Node(from)).unwrap().propose(self.now, parcel);
        self.take(Node(from), out);
    }

    fn take(&mut self, node: Node, out: Vec<Out>) {
        for it in out {
            match it {
                Out::Send(to, letter) => self.letters.push_back((node, to, letter)),
                Out::Due(parcel) => self.done.get_mut(&node).unwrap().push(parcel.what.request),
            }
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 33) % below
    }

    fn deliver(&mut self, (from, to, letter): (Node, Node, Letter)) {
        if let Some(order) = self.nodes.get_mut(&to) {
            let out = order.receive(self.now, from, letter);
            self.take(to, out);
        }
    }

    /// Lets everything arrive, in order, and time pass until nothing more is due.
    fn settle(&mut self) {
        for _ in 0..100 {
            while let Some(letter) = self.letters.pop_front() {
                self.deliver(letter);
            }
            let Some(due) = self.nodes.values().filter_map(Order::due).min() else { return };
            self.now = self.now.max(due);
            self.tick();
        }
        panic!("it never comes to rest");
    }

    fn tick(&mut self) {
        let nodes: Vec<Node> = self.nodes.keys().copied().collect();
        for node in nodes {
            let out = self.nodes.get_mut(&node).unwrap().tick(self.now);
            self.take(node, out);
        }
    }

    /// One letter arrives, is lost, is put off, or comes twice.
    fn chance(&mut self) {
        let Some(letter) = self.letters.pop_front() else { return };
        // What is proposed is not sent again by itself: its loss is the caller's deadline.
        let may_be_lost = !matches!(letter.2, Letter::Propose { .. } | Letter::View { .. });
        match self.random(8) {
            0 if may_be_lost => {}
            1 => self.letters.push_back(letter),
            2 if may_be_lost => {
                self.letters.push_back(letter.clone());
                self.deliver(letter);
            }
            _ => self.deliver(letter),
        }
    }

    #[track_caller]
    fn all_did(&self, n_done: usize) {
        let orders: BTreeSet<&Vec<String>> =
            self.nodes.keys().map(|node| &self.done[node]).collect();
        assert_eq!(orders.len(), 1, "{orders:?}");
        let done = orders.first().unwrap();
        assert_eq!(done.iter().collect::<BTreeSet<_>>().len(), done.len(), "something twice");
        assert_eq!(done.len(), n_done);
    }
}

#[test]
fn all_nodes_do_the_same_in_the_same_order() {
    let mut world = World::new(3);
    for round in 0..23 {
        for node in 0..3 {
            world.propose(node, &format!("{node}.{round}"));
        }
    }
    world.settle();
    world.all_did(69);
}

#[test]
fn letters_that_are_lost_late_or_come_twice_change_nothing() {
    for seed in 0..200 {
        let mut world = World::new(4);
        world.state = seed;
        for round in 0..23 {
            let node = u32::try_from(world.random(4)).unwrap();
            world.propose(node, &format!("{node}.{round}"));
            (0..4).for_each(|_| world.chance());
        }
        while !world.letters.is_empty() {
            world.chance();
        }
        world.settle();
        world.all_did(23);
    }
}

#[test]
fn what_one_node_asks_keeps_its_order() {
    let mut world = World::new(3);
    (0..5).for_each(|round| world.propose(2, &round.to_string()));
    world.settle();
    assert_eq!(world.done[&Node(0)], ["0", "1", "2", "3", "4"]);
}

#[test]
fn a_node_that_comes_begins_with_what_comes_next() {
    let mut world = World::new(2);
    world.propose(1, "before");
    world.settle();
    world.nodes.insert(Node(2), Order::new(Node(2)));
    world.done.insert(Node(2), Vec::new());
    world.meet();
    world.settle();
    world.propose(2, "after");
    world.settle();
    assert_eq!(world.done[&Node(0)], ["before", "after"]);
    assert_eq!(world.done[&Node(2)], ["after"]);
}

#[test]
fn who_is_asked_before_the_others_know_of_him_is_served_when_they_do() {
    let mut world = World::new(1);
    world.nodes.insert(Node(1), Order::new(Node(1)));
    world.done.insert(Node(1), Vec::new());
    let both = vec![Node(0), Node(1)];
    let out = world.nodes.get_mut(&Node(1)).unwrap().meet(world.now, both.clone());
    world.take(Node(1), out);
    world.propose(1, "early");
    (0..9).for_each(|_| world.chance());
    assert!(world.done[&Node(1)].is_empty());
    let out = world.nodes.get_mut(&Node(0)).unwrap().meet(world.now, both);
    world.take(Node(0), out);
    world.settle();
    world.all_did(1);
}

#[test]
fn the_order_goes_on_when_the_node_that_gives_numbers_is_lost() {
    for seed in 0..200 {
        let mut world = World::new(4);
        world.state = seed;
        for round in 0..23 {
            let node = 1 + u32::try_from(world.random(3)).unwrap();
            world.propose(node, &format!("{node}.{round}"));
            let n_letters = world.random(12);
            (0..n_letters).for_each(|_| {
                if let Some(letter) = world.letters.pop_front() {
                    world.deliver(letter);
                }
            });
        }
        // With it goes whatever it has not sent, and what is on its way to it.
        world.nodes.remove(&Node(0));
        let cut = usize::try_from(world.random(9)).unwrap();
        let mut sent = 0;
        world.letters.retain(|(from, to, _)| {
            sent += usize::from(*from == Node(0));
            *to != Node(0) && (*from != Node(0) || sent < cut)
        });
        world.meet();
        world.settle();
        world.all_did(23);
    }
}
