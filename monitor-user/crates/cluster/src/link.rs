//! What carries messages from node to node: a trait, and one that stays in memory.
//!
//! A link says who there is, sends without waiting, and gives what arrived. It may lose messages:
//! deadlines and leases are made for that. The one in memory joins daemons of one process.

use super::message::Message;
use super::scope::Node;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What arrived, and from whom.
pub type Letter = (String, Message);

/// The way to other nodes.
pub trait Link: Send {
    /// The other nodes there are.
    fn others(&self) -> Vec<Node>;

    /// Tells them what is known of this node from now on.
    fn announce(&mut self, own: &Node);

    /// Sends, or gives the message back if its node is out of reach.
    fn send(&mut self, to: &str, message: Message) -> Result<(), Box<Message>>;

    /// What arrives.
    fn arrivals(&mut self) -> &mut UnboundedReceiver<Letter>;
}

/// Each node of a switch, and the way to it.
type Ports = BTreeMap<String, (Node, UnboundedSender<Letter>)>;

/// Joins nodes in one process.
#[derive(Clone, Default)]
pub struct Switch {
    ports: Arc<Mutex<Ports>>,
}

/// One node's end of a switch.
pub struct Port {
    own: String,
    switch: Switch,
    arrivals: UnboundedReceiver<Letter>,
}

impl Switch {
    /// Joins a node.
    pub fn join(&self, node: Node) -> Port {
        let (sender, arrivals) = unbounded_channel();
        let own = node.name.clone();
        self.with(|ports| ports.insert(own.clone(), (node, sender)));
        Port { own, switch: self.clone(), arrivals }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Ports) -> T) -> T {
        // A map is whole between two calls, whatever became of who held it.
        act(&mut self.ports.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Link for Port {
    fn others(&self) -> Vec<Node> {
        let others = |(node, _): &(Node, _)| (node.name != self.own).then(|| node.clone());
        self.switch.with(|ports| ports.values().filter_map(others).collect())
    }

    fn announce(&mut self, own: &Node) {
        self.switch.with(|ports| {
            if let Some((node, _)) = ports.get_mut(&self.own) {
                node.clone_from(own);
            }
        });
    }

    fn send(&mut self, to: &str, message: Message) -> Result<(), Box<Message>> {
        let letter = (self.own.clone(), message);
        self.switch.with(|ports| match ports.get(to) {
            Some((_, sender)) => sender.send(letter).map_err(|back| Box::new(back.0.1)),
            None => Err(Box::new(letter.1)),
        })
    }

    fn arrivals(&mut self) -> &mut UnboundedReceiver<Letter> {
        &mut self.arrivals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::request::Rank;

    #[test]
    fn the_others_know_what_a_node_announces() {
        let switch = Switch::default();
        let node = |name: &str| Node { name: name.into(), ..Node::default() };
        let (mut a, b) = (switch.join(node("a")), switch.join(node("b")));
        let rank = Rank { namespace: "job".into(), rank: Some(0) };
        let own = Node { ranks: vec![rank], ..node("a") };
        a.announce(&own);
        assert_eq!(b.others(), [own]);
    }
}
