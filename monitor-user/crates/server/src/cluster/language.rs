//! Requests of the whole cluster: the members by number, and the thread that executes requests.
//!
//! ```text
//!  daemon loop: lines of clients ----+                    +--> commands and messages of the bus
//!                                    +--> request thread --+
//!  thread "cluster": packets, members+
//! ```
//!
//! In: members as they come and go. Out: the thread, which is started by the first session or
//! packet; a node over which nothing is asked has none. It is another one than that of the node's
//! own requests, whose numbers of nodes are others. The number of a member is the position in the
//! order where its stay began, from 0: it is the same on all nodes, and no other stay has it.

use crate::daemon::request_thread::RequestThread;
use crate::lock::lock;
use monitor_cluster::bus::MemberRecord;
use monitor_cluster::bus::membership::Membership;
use monitor_cluster::request::RequestOutput;
use monitor_model::{Refusal, Status};
use monitor_omis::Node;
use monitor_services::context::ClusterMember;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc::UnboundedSender;

/// What clients are notified of when their session ends with the stay of this node.
const HAS_LEFT: &str = "this node is no member of the cluster any longer: connect again later";

/// Starts the thread of requests of a member.
pub type StartRequests =
    Box<dyn Fn(ClusterMember, UnboundedSender<RequestOutput>) -> io::Result<RequestThread> + Send>;

/// The requests of the cluster on this node.
#[derive(Clone)]
pub struct ClusterLanguage(Arc<Mutex<Shared>>);

struct Shared {
    start: StartRequests,
    outgoing: UnboundedSender<RequestOutput>,
    /// The name of this node.
    own: String,
    numbers: BTreeMap<String, Node>,
    names: BTreeMap<Node, String>,
    /// The thread, and the number of this node in its requests.
    running: Option<(Node, Arc<RequestThread>)>,
}

impl ClusterLanguage {
    /// Without members; what is for other nodes goes to `outgoing`.
    pub fn new(own: &str, start: StartRequests, outgoing: UnboundedSender<RequestOutput>) -> Self {
        Self(Arc::new(Mutex::new(Shared {
            start,
            outgoing,
            own: own.to_owned(),
            numbers: BTreeMap::new(),
            names: BTreeMap::new(),
            running: None,
        })))
    }

    /// The thread, and the number of this node; it is started if there is none.
    ///
    /// # Errors
    /// This node is no member, or no thread can be started.
    pub fn requests(&self) -> Result<(Node, Arc<RequestThread>), Refusal> {
        let mut shared = lock(&self.0);
        if let Some((node, thread)) = &shared.running {
            return Ok((*node, Arc::clone(thread)));
        }
        let none = "this node has not joined the cluster yet: see monitor nodes";
        let number = shared.numbers.get(&shared.own).copied();
        let node = number.ok_or_else(|| Refusal::new(Status::Unreach, none))?;
        let own = ClusterMember { node, name: shared.own.clone() };
        let thread = (shared.start)(own, shared.outgoing.clone());
        let failed = |why| Refusal::new(Status::Error, format!("no thread for requests: {why}"));
        let thread = Arc::new(thread.map_err(failed)?);
        thread.set_members(shared.members());
        shared.running = Some((node, Arc::clone(&thread)));
        Ok((node, thread))
    }

    /// The thread, if it runs.
    pub fn running(&self) -> Option<Arc<RequestThread>> {
        lock(&self.0).running.as_ref().map(|(_, thread)| Arc::clone(thread))
    }

    /// Notes that a node is a member, or is none any longer.
    pub fn change(&self, member: &MemberRecord, is_member: bool) {
        let mut shared = lock(&self.0);
        let number = number(member);
        match is_member {
            true => shared.insert(&member.node, number),
            false if shared.numbers.get(&member.node).copied() == number => {
                shared.remove(&member.node);
            }
            false => return,
        }
        shared.follow();
    }

    /// Notes all members, where changes did not come one by one.
    pub fn set_members(&self, members: &Membership) {
        let mut shared = lock(&self.0);
        let now = || members.iter().filter_map(|it| Some((it.node.as_str(), number(it)?)));
        let is_same = now().count() == shared.numbers.len()
            && now().all(|(name, number)| shared.numbers.get(name) == Some(&number));
        if is_same {
            return;
        }
        shared.numbers.clear();
        shared.names.clear();
        now().for_each(|(name, number)| shared.insert(name, Some(number)));
        shared.follow();
    }

    /// The number of a member.
    pub fn number(&self, name: &str) -> Option<Node> {
        lock(&self.0).numbers.get(name).copied()
    }

    /// The name of a member.
    pub fn name(&self, number: Node) -> Option<String> {
        lock(&self.0).names.get(&number).cloned()
    }

    /// All members.
    pub fn members(&self) -> Vec<ClusterMember> {
        lock(&self.0).members()
    }

    /// The name of this node.
    pub fn own(&self) -> String {
        lock(&self.0).own.clone()
    }

    /// Ends the sessions and the thread, because the daemon stops; what they held is released then.
    pub fn stop(&self) {
        let running = lock(&self.0).running.take();
        if let Some((_, thread)) = running {
            thread.end("the service is stopping".to_owned());
        }
    }
}

/// The number of a member; later ones than those of a token have none.
fn number(member: &MemberRecord) -> Option<Node> {
    u32::try_from(member.since.0.checked_sub(1)?).ok().map(Node)
}

impl Shared {
    fn insert(&mut self, name: &str, number: Option<Node>) {
        self.remove(name);
        let Some(number) = number else {
            return tracing::warn!(
                node = name,
                "the order is too long for requests of the cluster"
            );
        };
        self.numbers.insert(name.to_owned(), number);
        self.names.insert(number, name.to_owned());
    }

    fn remove(&mut self, name: &str) {
        if let Some(number) = self.numbers.remove(name) {
            self.names.remove(&number);
        }
    }

    fn members(&self) -> Vec<ClusterMember> {
        let member =
            |(node, name): (&Node, &String)| ClusterMember { node: *node, name: name.clone() };
        self.names.iter().map(member).collect()
    }

    /// Gives the thread the members, or ends it if this node is no longer the same one.
    fn follow(&mut self) {
        let Some((node, thread)) = &self.running else { return };
        if self.numbers.get(&self.own) == Some(node) {
            return thread.set_members(self.members());
        }
        thread.end(HAS_LEFT.to_owned());
        self.running = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_cluster::bus::entry::{FORMATS, Incarnation, LedgerId, Seq};
    use tokio::sync::mpsc::unbounded_channel;

    fn member(node: &str, since: u64) -> MemberRecord {
        let (ledger, incarnation) = (LedgerId(1), Incarnation(1));
        MemberRecord {
            node: node.into(),
            ledger,
            incarnation,
            since: Seq(since),
            is_draining: false,
            formats: FORMATS,
            aggregators: String::new(),
        }
    }

    fn language() -> ClusterLanguage {
        let none = || io::Error::other("no thread in this test");
        ClusterLanguage::new("a", Box::new(move |_, _| Err(none())), unbounded_channel().0)
    }

    #[test]
    fn the_number_of_a_member_is_where_its_stay_began() {
        let language = language();
        language.change(&member("a", 1), true);
        language.change(&member("b", 9), true);
        assert_eq!(language.number("a"), Some(Node(0)));
        assert_eq!(language.name(Node(8)), Some("b".to_owned()));
        language.change(&member("b", 12), true);
        // The end of the stay before.
        language.change(&member("b", 9), false);
        assert_eq!((language.number("b"), language.name(Node(8))), (Some(Node(11)), None));
        language.change(&member("b", 12), false);
        assert_eq!(language.members().len(), 1);
    }

    #[test]
    fn a_number_that_no_token_can_have_is_none() {
        let language = language();
        language.change(&member("b", u64::from(u32::MAX) + 2), true);
        assert_eq!(language.number("b"), None);
        language.set_members(&Membership::new(Seq(9), vec![member("c", 3)]));
        assert_eq!(language.number("c"), Some(Node(2)));
        assert!(language.requests().is_err_and(|why| why.message.contains("has not joined")));
    }
}
