//! The call stacks of the ranks of a job, merged into one tree.
//!
//! In: the stacks of threads, each at one look or more. Out: a tree with a node for each function
//! on each path from the outermost one, with the ranks that are in it. This is the prefix tree of
//! the Stack Trace Analysis Tool (Arnold et al., Stack Trace Analysis for Large Scale Debugging,
//! 2007).
//!
//! With several looks, a node has a mark if its threads stayed in it: at each look the thread was
//! in the same frame, reached by the same calls. A function that is left and called again from the
//! same place between two looks has that same frame, and seems to stay.

use crate::rank_set::RankSet;
use std::collections::{BTreeSet, HashMap};
use std::iter::successors;
use std::sync::Arc;

/// A thread of a rank, and its call stacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankThread {
    /// The number of the rank.
    pub rank: u32,
    /// The pid of its process.
    pub pid: u32,
    /// Its thread id.
    pub tid: u32,
    /// A stack for each look at which it was read.
    pub stacks: Vec<Vec<RankFrame>>,
}

/// A frame of a stack. Stacks begin with the outermost frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankFrame {
    /// The name of the function, or of the place: what frames are merged by.
    pub name: Arc<str>,
    /// Canonical frame address: one call of a function keeps it.
    pub cfa: u64,
    /// Where the function goes on: an address in its file.
    pub pc: u64,
}

/// The merged stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackTree {
    nodes: Vec<StackNode>,
    roots: Vec<usize>,
}

/// A function on a path from the outermost function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackNode {
    /// Its name.
    pub name: Arc<str>,
    /// The node of its caller; `None` for an outermost function.
    pub parent: Option<usize>,
    /// The nodes of the functions that it calls: those with most ranks first.
    pub children: Vec<usize>,
    /// The ranks that were in it at any look.
    pub ranks: RankSet,
    /// Number of threads that were.
    pub threads: usize,
    /// Number of stacks that end with it.
    pub ends: usize,
    /// Whether each of these threads stayed in it from the first look to the last.
    pub stayed: bool,
}

/// A node of a tree, where the nodes are a list in the order of `in_order`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackRow {
    /// Number of its callers.
    pub depth: usize,
    /// Its name.
    pub name: Arc<str>,
    /// The ranks that were in it.
    pub ranks: RankSet,
    /// Number of threads that were.
    pub threads: usize,
    /// Number of stacks that end with it.
    pub ends: usize,
    /// Whether each of these threads stayed in it.
    pub stayed: bool,
}

impl StackTree {
    /// Joins the trees of different ranks: functions on the same path are one node. `None` if a row
    /// is not below one of its callers.
    pub fn join(trees: impl IntoIterator<Item = Vec<StackRow>>) -> Option<Self> {
        let mut nodes: Vec<StackNode> = Vec::new();
        let mut known: HashMap<(Option<usize>, Arc<str>), usize> = HashMap::new();
        for rows in trees {
            let mut path: Vec<usize> = Vec::new();
            for row in rows {
                if row.depth > path.len() {
                    return None;
                }
                path.truncate(row.depth);
                let parent = path.last().copied();
                let index = *known.entry((parent, Arc::clone(&row.name))).or_insert_with(|| {
                    nodes.push(StackNode {
                        name: Arc::clone(&row.name),
                        parent,
                        children: Vec::new(),
                        ranks: RankSet::default(),
                        threads: 0,
                        ends: 0,
                        stayed: true,
                    });
                    nodes.len() - 1
                });
                let node = &mut nodes[index];
                node.ranks = RankSet::union([&node.ranks, &row.ranks]);
                node.threads = node.threads.saturating_add(row.threads);
                node.ends = node.ends.saturating_add(row.ends);
                node.stayed &= row.stayed;
                path.push(index);
            }
        }
        Some(Self::linked(nodes))
    }

    /// The tree of nodes that name their parents.
    fn linked(nodes: Vec<StackNode>) -> Self {
        let mut tree = Self { nodes, roots: Vec::new() };
        let mut order: Vec<usize> = (0..tree.nodes.len()).collect();
        let rank = |it: &StackNode| (u64::MAX - it.ranks.len(), it.ranks.iter().next());
        order.sort_by_key(|it| rank(&tree.nodes[*it]));
        for index in order {
            match tree.nodes[index].parent {
                Some(parent) => tree.nodes[parent].children.push(index),
                None => tree.roots.push(index),
            }
        }
        tree
    }

    /// Merges stacks that were read at a number of looks.
    pub fn merge(threads: &[RankThread], looks: usize) -> Self {
        let mut merge = Merge::default();
        for (index, thread) in threads.iter().enumerate() {
            let stayed = if looks > 1 { thread.stayed(looks) } else { 0 };
            for stack in &thread.stacks {
                merge.add(index, stack, stayed);
            }
        }
        merge.tree(threads)
    }

    /// A node, by its number.
    pub fn node(&self, index: usize) -> &StackNode {
        &self.nodes[index]
    }

    /// The outermost functions: those with most ranks first.
    pub fn roots(&self) -> &[usize] {
        &self.roots
    }

    /// The numbers of all nodes: each caller before what it calls, and paths one after another.
    pub fn in_order(&self) -> impl Iterator<Item = usize> + '_ {
        let mut waiting: Vec<usize> = self.roots.iter().rev().copied().collect();
        std::iter::from_fn(move || {
            let next = waiting.pop()?;
            waiting.extend(self.nodes[next].children.iter().rev());
            Some(next)
        })
    }

    /// The names of a node and its callers, outermost first.
    pub fn path(&self, index: usize) -> Vec<Arc<str>> {
        let up = successors(Some(index), |it| self.nodes[*it].parent);
        let mut path: Vec<_> = up.map(|it| Arc::clone(&self.nodes[it].name)).collect();
        path.reverse();
        path
    }
}

impl RankThread {
    /// Number of the frames in which it stayed over all looks, from the outermost one.
    fn stayed(&self, looks: usize) -> usize {
        let (Some((first, rest)), true) = (self.stacks.split_first(), self.stacks.len() == looks)
        else {
            return 0;
        };
        rest.iter().map(|stack| common_frames(first, stack)).min().unwrap_or(0)
    }
}

/// Number of the first frames that two stacks have in common: the same calls of the same functions.
fn common_frames(one: &[RankFrame], other: &[RankFrame]) -> usize {
    let pairs = || one.iter().zip(other);
    let is_same_call = |(a, b): &(&RankFrame, &RankFrame)| a.name == b.name && a.cfa == b.cfa;
    let calls = pairs().take_while(is_same_call).count();
    // A function that has called another is where it was only if it has not gone on since.
    let waiting = pairs().take_while(|pair| is_same_call(pair) && pair.0.pc == pair.1.pc).count();
    calls.min(waiting + 1)
}

/// A tree on the way.
#[derive(Default)]
struct Merge {
    nodes: Vec<Growing>,
    known: HashMap<(Option<usize>, Arc<str>), usize>,
}

struct Growing {
    name: Arc<str>,
    parent: Option<usize>,
    /// Indices of its threads.
    threads: BTreeSet<usize>,
    ends: usize,
    stayed: bool,
}

impl Merge {
    /// Adds a stack of a thread, which stayed in the first frames of it.
    fn add(&mut self, thread: usize, stack: &[RankFrame], stayed: usize) {
        let mut parent = None;
        for (depth, frame) in stack.iter().enumerate() {
            let index = *self.known.entry((parent, Arc::clone(&frame.name))).or_insert_with(|| {
                let name = Arc::clone(&frame.name);
                let threads = BTreeSet::new();
                self.nodes.push(Growing { name, parent, threads, ends: 0, stayed: true });
                self.nodes.len() - 1
            });
            let node = &mut self.nodes[index];
            node.threads.insert(thread);
            node.stayed &= depth < stayed;
            parent = Some(index);
        }
        if let Some(last) = parent {
            self.nodes[last].ends += 1;
        }
    }

    fn tree(self, threads: &[RankThread]) -> StackTree {
        let finished = |node: Growing| StackNode {
            name: node.name,
            parent: node.parent,
            children: Vec::new(),
            ranks: node.threads.iter().map(|it| threads[*it].rank).collect(),
            threads: node.threads.len(),
            ends: node.ends,
            stayed: node.stayed,
        };
        StackTree::linked(self.nodes.into_iter().map(finished).collect())
    }
}

#[cfg(test)]
/// Tests, and stacks for other tests.
pub mod tests {
    use super::*;

    /// A thread of a rank; stacks are written as `main@10 solve@20`: names with the place where the
    /// function goes on, which is 0 if it is left out. Each call has a frame of its own depth.
    pub fn thread(rank: u32, stacks: &[&str]) -> RankThread {
        let frame = |(depth, word): (usize, &str)| {
            let (name, pc) = word.split_once('@').unwrap_or((word, "0"));
            let cfa = 0x7000 - 16 * depth as u64;
            RankFrame { name: name.into(), cfa, pc: pc.parse().unwrap_or(0) }
        };
        let stack = |text: &&str| text.split(' ').enumerate().map(frame).collect();
        RankThread {
            rank,
            pid: 100 + rank,
            tid: 100 + rank,
            stacks: stacks.iter().map(stack).collect(),
        }
    }

    /// The nodes as lines: depth, ranks, name, with `=` where all stayed.
    fn lines(threads: &[RankThread], looks: usize) -> Vec<String> {
        let tree = StackTree::merge(threads, looks);
        let line = |index: usize| {
            let node = tree.node(index);
            let (depth, stayed) = (tree.path(index).len(), if node.stayed { "=" } else { "" });
            format!("{depth} [{}] {}{stayed}", node.ranks, node.name)
        };
        tree.in_order().map(line).collect()
    }

    #[test]
    fn stacks_are_merged_from_the_outermost_function() {
        let threads = [
            thread(0, &["main solve MPI_Recv"]),
            thread(1, &["main io write"]),
            thread(2, &["main solve MPI_Recv"]),
            thread(3, &["main solve"]),
        ];
        let want =
            ["1 [0-3] main", "2 [0,2-3] solve", "3 [0,2] MPI_Recv", "2 [1] io", "3 [1] write"];
        assert_eq!(lines(&threads, 1), want);
        let tree = StackTree::merge(&threads, 1);
        let ends = |name: &str| tree.nodes.iter().find(|it| &*it.name == name).map(|it| it.ends);
        assert_eq!((ends("main"), ends("solve"), ends("MPI_Recv")), (Some(0), Some(1), Some(2)));
    }

    #[test]
    fn trees_of_parts_of_the_ranks_are_joined_to_that_of_all() {
        let all = [
            thread(0, &["main solve MPI_Recv"]),
            thread(1, &["main io write"]),
            thread(2, &["main solve MPI_Recv"]),
            thread(3, &["main solve", "start"]),
        ];
        let rows = |threads: &[RankThread]| -> Vec<StackRow> {
            let tree = StackTree::merge(threads, 1);
            let row = |index: usize| {
                let StackNode { name, ranks, threads, ends, stayed, .. } = tree.node(index).clone();
                let depth = tree.path(index).len() - 1;
                StackRow { depth, name, ranks, threads, ends, stayed }
            };
            tree.in_order().map(row).collect()
        };
        let paths = |tree: &StackTree| -> Vec<(Vec<Arc<str>>, RankSet, usize, usize)> {
            let path = |index: usize| {
                let node = tree.node(index);
                (tree.path(index), node.ranks.clone(), node.threads, node.ends)
            };
            tree.in_order().map(path).collect()
        };
        let joined = StackTree::join([rows(&all[..2]), rows(&all[2..])]).expect("a tree");
        assert_eq!(paths(&joined), paths(&StackTree::merge(&all, 1)));
        let mut wrong = rows(&all);
        wrong.remove(0);
        assert_eq!(StackTree::join([wrong]), None);
    }

    #[test]
    fn a_function_that_calls_itself_is_a_node_for_each_call() {
        let threads = [thread(0, &["main f f f"]), thread(1, &["main f"])];
        assert_eq!(lines(&threads, 1), ["1 [0-1] main", "2 [0-1] f", "3 [0] f", "4 [0] f"]);
    }

    #[test]
    fn threads_of_one_rank_are_counted_apart() {
        let threads = [thread(0, &["main wait"]), thread(0, &["main wait"])];
        let tree = StackTree::merge(&threads, 1);
        assert_eq!(lines(&threads, 1), ["1 [0] main", "2 [0] wait"]);
        assert_eq!(tree.node(tree.roots()[0]).threads, 2);
    }

    #[test]
    fn functions_that_are_not_left_between_looks_are_marked() {
        // It waits in one receive; the other rank goes on in the same function.
        let waits = thread(0, &["main@1 solve@2 recv@3"; 3]);
        let runs = thread(1, &["main@1 solve@2 recv@3", "main@1 solve@2 recv@4", "main@1 solve@7"]);
        let want = ["1 [0-1] main=", "2 [0-1] solve=", "3 [0-1] recv"];
        assert_eq!(lines(&[waits.clone(), runs], 3), want);
        let want = ["1 [0] main=", "2 [0] solve=", "3 [0] recv="];
        assert_eq!(lines(std::slice::from_ref(&waits), 3), want);
        // One look shows no stay.
        let want = ["1 [0] main", "2 [0] solve", "3 [0] recv"];
        assert_eq!(lines(&[thread(0, &["main@1 solve@2 recv@3"])], 1), want);
    }

    #[test]
    fn a_function_that_was_called_again_from_elsewhere_was_left() {
        let twice = thread(0, &["main@1 recv@3", "main@2 recv@3"]);
        assert_eq!(lines(&[twice], 2), ["1 [0] main=", "2 [0] recv"]);
        let mut deeper = thread(0, &["main@1 recv@3", "main@1 recv@3"]);
        deeper.stacks[1][1].cfa -= 16;
        assert_eq!(lines(&[deeper], 2), ["1 [0] main=", "2 [0] recv"]);
    }

    #[test]
    fn a_thread_that_was_not_seen_at_each_look_stayed_nowhere() {
        assert_eq!(lines(&[thread(0, &["main"])], 2), ["1 [0] main"]);
        assert_eq!(lines(&[thread(0, &[])], 2), [""; 0]);
    }
}
