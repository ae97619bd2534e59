//! Merged call stacks as rows, which a user worker sends to the service.
//!
//! In: the tree and the classes. Out: a row for each node and class, within the length of a reply;
//! the ranks that could not be read. Data only: rows are what they are also if a user has taken
//! over the worker.

use crate::ControlError;
use monitor_jobs::stack_class::StackClass;
use monitor_jobs::stack_tree::StackTree;
use monitor_model::Identity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Most bytes of the names in the rows of a tree.
const MAX_BYTES: usize = 4 << 20;

/// Which threads are read.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// The first one; if it has ended, another.
    First,
    /// All.
    All,
}

monitor_model::names! { Threads { First "first", All "all" } }

/// How the stacks of ranks are read.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackOptions {
    /// Which threads.
    pub threads: Threads,
    /// Whether line numbers are looked up too.
    pub lines: bool,
    /// Number of looks.
    pub looks: usize,
    /// The time from one look to the next.
    pub every: Duration,
}

/// Merged stacks as rows.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct StackRows {
    /// The classes, the largest first.
    pub classes: Vec<ClassRow>,
    /// The nodes of the tree, each caller before what it calls.
    pub nodes: Vec<NodeRow>,
    /// The ranks and threads that could not be read.
    pub missing: Vec<MissingStack>,
    /// The longest time for which a thread was stopped.
    pub stopped: Duration,
    /// Number of looks.
    pub looks: usize,
    /// Whether lines were wanted and not looked up: the files belong to another user.
    pub lacks_lines: bool,
}

/// Ranks at one place.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct ClassRow {
    /// The ranks, as `0-3,7`.
    pub ranks: String,
    /// The rank that represents them.
    pub rank: u32,
    /// The pid of its process.
    pub pid: u32,
    /// Names of functions, outermost first.
    pub path: Vec<String>,
}

/// A function on a path.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    /// Number of its callers.
    pub depth: u32,
    /// Its name.
    pub function: String,
    /// The ranks that are in it, as `0-3,7`.
    pub ranks: String,
    /// Number of their threads that are.
    pub threads: u64,
    /// Number of stacks that end with it.
    pub ends: u64,
    /// Whether each of these threads stayed in it from the first look to the last.
    pub stayed: bool,
}

/// A stack that could not be read.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct MissingStack {
    /// The rank.
    pub rank: u32,
    /// Its process.
    pub process: Identity,
    /// The thread, if others of the process were read.
    pub tid: Option<i32>,
    /// Why.
    pub why: ControlError,
}

impl StackRows {
    /// The rows of a tree and its classes.
    ///
    /// # Errors
    /// If they would be too long for a reply.
    pub fn from_tree(tree: &StackTree, classes: Vec<StackClass>) -> Result<Self, ControlError> {
        let nodes = node_rows(tree);
        let class = |it: StackClass| ClassRow {
            ranks: it.ranks.to_string(),
            rank: it.representative,
            pid: it.pid,
            path: it.path.iter().map(|name| name.to_string()).collect(),
        };
        let classes: Vec<ClassRow> = classes.into_iter().map(class).collect();
        let of_classes = classes.iter().flat_map(|it| &it.path).map(String::len);
        let of_nodes = nodes.iter().map(|it| it.function.len() + it.ranks.len());
        if of_classes.chain(of_nodes).sum::<usize>() > MAX_BYTES {
            let why = format!(
                "the merged stacks have {} functions, more than a reply holds: name fewer ranks",
                nodes.len()
            );
            return Err(ControlError::Exhausted(why));
        }
        let (missing, stopped) = (Vec::new(), Duration::ZERO);
        Ok(Self { classes, nodes, missing, stopped, looks: 1, lacks_lines: false })
    }
}

fn node_rows(tree: &StackTree) -> Vec<NodeRow> {
    let mut depths: BTreeMap<usize, u32> = BTreeMap::new();
    let row = |index: usize| {
        let node = tree.node(index);
        let depth = node.parent.and_then(|it| depths.get(&it)).map_or(0, |it| it + 1);
        let _new = depths.insert(index, depth);
        NodeRow {
            depth,
            function: node.name.to_string(),
            ranks: node.ranks.to_string(),
            threads: node.threads as u64,
            ends: node.ends as u64,
            stayed: node.stayed,
        }
    };
    tree.in_order().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_jobs::stack_class::classes;
    use monitor_jobs::stack_tree::{RankFrame, RankThread};

    fn rows(stacks: &[&[&str]]) -> Result<StackRows, ControlError> {
        let frame = |name: &&str| RankFrame { name: (*name).into(), cfa: 0, pc: 0 };
        let thread = |(rank, names): (u32, &&[&str])| {
            let stacks = vec![names.iter().map(frame).collect()];
            RankThread { rank, pid: 100 + rank, tid: 100 + rank, stacks }
        };
        let threads: Vec<RankThread> = (0..).zip(stacks).map(thread).collect();
        StackRows::from_tree(&StackTree::merge(&threads, 1), classes(&threads))
    }

    #[test]
    fn rows_have_each_caller_before_what_it_calls() {
        let rows = rows(&[&["main", "solve"], &["main", "io"], &["main", "solve"]]).unwrap();
        let line =
            |it: &NodeRow| format!("{} [{}] {} {}", it.depth, it.ranks, it.function, it.ends);
        let lines: Vec<String> = rows.nodes.iter().map(line).collect();
        assert_eq!(lines, ["0 [0-2] main 0", "1 [0,2] solve 2", "1 [1] io 1"]);
        let class = |it: &ClassRow| format!("{} {} {}", it.ranks, it.pid, it.path.join(">"));
        let classes: Vec<String> = rows.classes.iter().map(class).collect();
        assert_eq!(classes, ["0,2 100 main>solve", "1 101 main>io"]);
    }

    #[test]
    fn rows_that_are_too_long_for_a_reply_are_refused() {
        let long = "f".repeat(MAX_BYTES);
        assert!(matches!(rows(&[&[&long]]), Err(ControlError::Exhausted(_))));
    }
}
