//! The bus between nodes: a trait, and an implementation in memory.
//!
//! A bus knows the members, sends without waiting, and delivers messages. It may lose messages:
//! deadlines and leases handle that. The one in memory joins daemons of one process.

use super::{message::Message, scope::Node};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A message with the name of its sender.
pub type BusMessage = (String, Message);

/// The connection of a node to the others.
pub trait Bus: Send {
    /// The other nodes.
    fn others(&self) -> Vec<Node>;

    /// Publishes the description of this node.
    fn announce(&mut self, own: &Node);

    /// Sends a message; returns it if its node is unreachable.
    fn send(&mut self, to: &str, message: Message) -> Result<(), Box<Message>>;

    /// The queue of incoming messages.
    fn arrivals(&mut self) -> &mut UnboundedReceiver<BusMessage>;
}

/// The nodes of a bus in memory, with their queues.
type Ports = BTreeMap<String, (Node, UnboundedSender<BusMessage>)>;

/// A bus in memory, for nodes of one process.
#[derive(Clone, Default)]
pub struct InMemoryBus {
    ports: Arc<Mutex<Ports>>,
}

/// One node's connection to a bus in memory.
pub struct InMemoryPort {
    own: String,
    bus: InMemoryBus,
    arrivals: UnboundedReceiver<BusMessage>,
}

impl InMemoryBus {
    /// Adds a node.
    pub fn join(&self, node: Node) -> InMemoryPort {
        let (sender, arrivals) = unbounded_channel();
        let own = node.name.clone();
        self.with(|ports| ports.insert(own.clone(), (node, sender)));
        InMemoryPort { own, bus: self.clone(), arrivals }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Ports) -> T) -> T {
        // The map is consistent between two calls, even after a panic.
        act(&mut self.ports.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Bus for InMemoryPort {
    fn others(&self) -> Vec<Node> {
        let others = |(node, _): &(Node, _)| (node.name != self.own).then(|| node.clone());
        self.bus.with(|ports| ports.values().filter_map(others).collect())
    }

    fn announce(&mut self, own: &Node) {
        self.bus.with(|ports| {
            if let Some((node, _)) = ports.get_mut(&self.own) {
                node.clone_from(own);
            }
        });
    }

    fn send(&mut self, to: &str, message: Message) -> Result<(), Box<Message>> {
        let message = (self.own.clone(), message);
        self.bus.with(|ports| match ports.get(to) {
            Some((_, sender)) => sender.send(message).map_err(|back| Box::new(back.0.1)),
            None => Err(Box::new(message.1)),
        })
    }

    fn arrivals(&mut self) -> &mut UnboundedReceiver<BusMessage> {
        &mut self.arrivals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::request::RankTarget;

    #[test]
    fn other_nodes_see_the_announced_description() {
        let switch = InMemoryBus::default();
        let node = |name: &str| Node { name: name.into(), ..Node::default() };
        let (mut a, b) = (switch.join(node("a")), switch.join(node("b")));
        let rank = RankTarget { namespace: "job".into(), rank: Some(0) };
        let own = Node { ranks: vec![rank], ..node("a") };
        a.announce(&own);
        assert_eq!(b.others(), [own]);
    }
}
