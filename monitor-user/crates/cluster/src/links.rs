//! Links from a daemon to those of other nodes: a trait, and an implementation in memory.
//!
//! Links know the other nodes, send without waiting, and deliver messages. They may lose messages:
//! deadlines and leases handle that. Those in memory join daemons of one process. What is sent to
//! many nodes in one order is the task of `bus`.

use super::{message::Message, scope::Node};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A message with the name of its sender.
pub type PeerMessage = (String, Message);

/// The connection of a node to the others.
pub trait PeerLinks: Send {
    /// The other nodes.
    fn others(&self) -> Vec<Node>;

    /// Publishes the description of this node.
    fn announce(&mut self, own: &Node);

    /// Sends a message; returns it if its node is unreachable.
    fn send(&mut self, to: &str, message: Message) -> Result<(), Box<Message>>;

    /// The queue of incoming messages.
    fn arrivals(&mut self) -> &mut UnboundedReceiver<PeerMessage>;
}

/// The nodes of a network in memory, with their queues.
type Ports = BTreeMap<String, (Node, UnboundedSender<PeerMessage>)>;

/// A network in memory, for nodes of one process.
#[derive(Clone, Default)]
pub struct InMemoryNetwork {
    ports: Arc<Mutex<Ports>>,
}

/// One node's links in a network in memory.
pub struct InMemoryLinks {
    own: String,
    network: InMemoryNetwork,
    arrivals: UnboundedReceiver<PeerMessage>,
}

impl InMemoryNetwork {
    /// Adds a node.
    pub fn join(&self, node: Node) -> InMemoryLinks {
        let (sender, arrivals) = unbounded_channel();
        let own = node.name.clone();
        self.with(|ports| ports.insert(own.clone(), (node, sender)));
        InMemoryLinks { own, network: self.clone(), arrivals }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Ports) -> T) -> T {
        // The map is consistent between two calls, even after a panic.
        act(&mut self.ports.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl PeerLinks for InMemoryLinks {
    fn others(&self) -> Vec<Node> {
        let others = |(node, _): &(Node, _)| (node.name != self.own).then(|| node.clone());
        self.network.with(|ports| ports.values().filter_map(others).collect())
    }

    fn announce(&mut self, own: &Node) {
        self.network.with(|ports| {
            if let Some((node, _)) = ports.get_mut(&self.own) {
                node.clone_from(own);
            }
        });
    }

    fn send(&mut self, to: &str, message: Message) -> Result<(), Box<Message>> {
        let message = (self.own.clone(), message);
        self.network.with(|ports| match ports.get(to) {
            Some((_, sender)) => sender.send(message).map_err(|back| Box::new(back.0.1)),
            None => Err(Box::new(message.1)),
        })
    }

    fn arrivals(&mut self) -> &mut UnboundedReceiver<PeerMessage> {
        &mut self.arrivals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::request::RankTarget;

    #[test]
    fn other_nodes_see_the_announced_description() {
        let network = InMemoryNetwork::default();
        let node = |name: &str| Node { name: name.into(), ..Node::default() };
        let (mut a, b) = (network.join(node("a")), network.join(node("b")));
        let rank = RankTarget { namespace: "job".into(), rank: Some(0) };
        let own = Node { ranks: vec![rank], ..node("a") };
        a.announce(&own);
        assert_eq!(b.others(), [own]);
    }
}
