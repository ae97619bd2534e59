//! Which node gets the files of the program from which: one from here, which copies them to others.
//!
//! In: sessions as they are opened, each with its key. Out: the role of each. That of the first
//! node is the source; the others wait for its `clone`. What is not copied so is copied from here.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

/// How long the source waits for sessions of other nodes; later ones are copied to from here.
const JOIN_TIME: Duration = Duration::from_secs(5);

/// The tree of a run.
#[derive(Debug)]
pub struct CopyTree {
    /// Sessions that each session copies to at a time.
    pub width: usize,
    /// Whether nodes without TLS take part: services of one machine.
    pub with_unix: bool,
    slots: Mutex<Gathering>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Gathering {
    /// Nodes that may still join.
    pending: usize,
    is_closed: bool,
    offers: Vec<Offer>,
}

/// A session that waits for its files.
#[derive(Debug)]
pub struct Offer {
    /// The number of its node.
    index: usize,
    /// `ADDRESS/SESSION/KEY`.
    pub target: String,
    /// Where it has them from.
    pub decided: oneshot::Sender<FilesFrom>,
}

/// The place of a node, which does not hold up the others once it is dropped.
#[derive(Debug)]
pub struct TreeSlot(Option<Arc<CopyTree>>);

/// Where a session has its files from.
#[derive(Debug)]
pub enum FilesFrom {
    /// From here, and it copies them to these.
    HereFor(Vec<Offer>),
    /// From another session: they are there.
    Session,
    /// From here; with the reason, if it has waited for a copy.
    Here(Option<String>),
}

impl CopyTree {
    /// A tree of this number of nodes, and the place of each.
    pub fn slots(width: usize, with_unix: bool, nodes: usize) -> Vec<TreeSlot> {
        let slots = Mutex::new(Gathering { pending: nodes, ..Gathering::default() });
        let tree = Arc::new(Self { width, with_unix, slots, changed: Notify::new() });
        (0..nodes).map(|_| TreeSlot(Some(Arc::clone(&tree)))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Gathering> {
        // Each field is consistent after each change.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes no further sessions: the first node that has joined is the source for the others.
    fn close(&self) {
        let mut slots = self.lock();
        slots.is_closed = true;
        let mut offers = std::mem::take(&mut slots.offers);
        drop(slots);
        offers.sort_by_key(|it| it.index);
        if !offers.is_empty() {
            let source = offers.remove(0);
            // With the source, the others are dropped, and are copied to from here.
            let _awaited = source.decided.send(FilesFrom::HereFor(offers));
        }
    }

    /// Waits until all nodes have joined or left.
    async fn gathered(&self) {
        loop {
            // Created before the check, so that no change in between is missed.
            let changed = self.changed.notified();
            if self.lock().pending == 0 {
                return;
            }
            changed.await;
        }
    }
}

impl TreeSlot {
    /// Of no tree: each node has its files from here.
    pub const fn none() -> Self {
        Self(None)
    }

    /// The tree, if there is one.
    pub fn tree(&self) -> Option<&CopyTree> {
        self.0.as_deref()
    }

    /// Joins with the session of a node, and waits until it has its files, or is to get them from
    /// here.
    pub async fn join(self, index: usize, target: String) -> FilesFrom {
        let Some(tree) = self.0.clone() else { return FilesFrom::Here(None) };
        let (decided, files_from) = oneshot::channel();
        let is_first = {
            let mut slots = tree.lock();
            if slots.is_closed {
                return FilesFrom::Here(None);
            }
            slots.offers.push(Offer { index, target, decided });
            slots.offers.len() == 1
        };
        // This one does not hold up the others any longer.
        drop(self);
        if is_first {
            // Those that are late are copied to from here.
            let _in_time = timeout(JOIN_TIME, tree.gathered()).await;
            tree.close();
        }
        let ended = || FilesFrom::Here(Some("the session that copies has ended".to_owned()));
        files_from.await.unwrap_or_else(|_| ended())
    }
}

impl Drop for TreeSlot {
    fn drop(&mut self) {
        if let Some(tree) = &self.0 {
            tree.lock().pending -= 1;
            tree.changed.notify_one();
        }
    }
}

/// Where a target has its files from, by the lines of `err` of the source.
pub fn files_from(target: &str, lines: &str) -> FilesFrom {
    let (session, _key) = target.rsplit_once('/').unwrap_or((target, ""));
    let of_target = |line: &str| {
        let rest = line.strip_prefix(session)?.strip_prefix(' ')?;
        Some(rest.to_owned())
    };
    match lines.lines().find_map(of_target) {
        Some(rest) if rest == "copied" => FilesFrom::Session,
        Some(rest) => FilesFrom::Here(Some(rest)),
        None => FilesFrom::Here(Some("its copy is not reported".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_session_copies_to_those_that_have_joined() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            let mut slots = CopyTree::slots(4, false, 4);
            let (first, second, third) = (slots.remove(0), slots.remove(0), slots.remove(0));
            let failed = tokio::spawn(first.join(1, "a/1/k".to_owned()));
            tokio::task::yield_now().await;
            let copied = tokio::spawn(second.join(2, "b/2/k".to_owned()));
            let source = tokio::spawn(third.join(0, "c/3/k".to_owned()));
            tokio::task::yield_now().await;
            assert!(!source.is_finished());
            // The last node has no session.
            let late = slots.remove(0);
            let tree = Arc::clone(late.0.as_ref().expect("a tree"));
            drop(late);
            let FilesFrom::HereFor(offers) = source.await.expect("no panic") else {
                panic!("it is the source")
            };
            let targets: Vec<_> = offers.iter().map(|it| it.target.clone()).collect();
            assert_eq!(targets, ["a/1/k", "b/2/k"]);
            for offer in offers {
                let from = files_from(&offer.target, "b/2 copied\na/1 failed: no\n");
                let _awaited = offer.decided.send(from);
            }
            assert!(matches!(copied.await, Ok(FilesFrom::Session)));
            let here = failed.await.expect("no panic");
            assert!(matches!(here, FilesFrom::Here(Some(why)) if why == "failed: no"));
            tree.lock().pending += 1;
            let after = TreeSlot(Some(tree)).join(4, "d/4/k".to_owned()).await;
            assert!(matches!(after, FilesFrom::Here(None)));
        });
    }

    #[test]
    fn an_outcome_is_that_of_the_session_alone() {
        let lines = "/a/1 copied\n/a/12 failed: no\n";
        let why = |target: &str| match files_from(target, lines) {
            FilesFrom::Here(why) => why,
            FilesFrom::Session | FilesFrom::HereFor(_) => None,
        };
        assert_eq!(why("/a/1/k"), None);
        assert_eq!(why("/a/12/k").as_deref(), Some("failed: no"));
        assert_eq!(why("/a/2/k").as_deref(), Some("its copy is not reported"));
    }
}
