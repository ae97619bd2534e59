//! The process tree.
//!
//! In: processes, the order of siblings, and a condition. Out: the matching processes with all
//! their ancestors, each after its parent. A process whose parent is not listed is a root.

use monitor_model::{Process, ProcessField};
use std::collections::HashMap;

/// The largest depth that is drawn.
const DEEPEST: u8 = 63;

/// The position of a row in the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreePos {
    /// The number of its ancestors.
    pub depth: u8,
    /// Whether it is the last child of its parent.
    pub last: bool,
    /// A bit for each ancestor that is the last child of its parent: no line is drawn for it.
    pub closed: u64,
}

/// The rows of the tree: indices of processes.
pub fn tree(
    processes: &[Process],
    in_order: &[usize],
    admits: &dyn Fn(&Process) -> bool,
) -> Vec<(usize, TreePos)> {
    let parents = parents(processes);
    let shown = shown(processes, &parents, admits);
    let mut children: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
    for &index in in_order.iter().filter(|&&index| shown[index]) {
        children.entry(parents[index]).or_default().push(index);
    }
    let mut rows = Vec::new();
    let mut open: Vec<(usize, TreePos)> = Vec::new();
    open.extend(below(children.remove(&None), None));
    while let Some((index, pos)) = open.pop() {
        rows.push((index, pos));
        open.extend(below(children.remove(&Some(index)), Some(pos)));
    }
    rows
}

/// The children of a process, in reverse order.
fn below(
    children: Option<Vec<usize>>,
    parent: Option<TreePos>,
) -> impl Iterator<Item = (usize, TreePos)> {
    let children = children.unwrap_or_default();
    let n_children = children.len();
    children.into_iter().enumerate().rev().map(move |(nth, index)| {
        let pos = parent.map_or_else(TreePos::default, |parent| TreePos {
            depth: (parent.depth + 1).min(DEEPEST),
            last: nth + 1 == n_children,
            closed: parent.closed | u64::from(parent.last) << parent.depth,
        });
        (index, pos)
    })
}

/// The index of the parent of each process. A parent is older than its child, so there is no cycle.
fn parents(processes: &[Process]) -> Vec<Option<usize>> {
    let by_pid: HashMap<u64, usize> = processes
        .iter()
        .enumerate()
        .filter(|(_, it)| !it.ended())
        .map(|(index, it)| (it.id.pid.0.into(), index))
        .collect();
    let older = |child: &Process, index: usize| {
        let parent = processes[index].id;
        (parent.start, parent.pid) < (child.id.start, child.id.pid)
    };
    let parent = |it: &Process| {
        let index = *by_pid.get(&it.row.get(ProcessField::Ppid)?)?;
        older(it, index).then_some(index)
    };
    processes.iter().map(parent).collect()
}

/// The matching processes and their ancestors.
fn shown(
    processes: &[Process],
    parents: &[Option<usize>],
    admits: &dyn Fn(&Process) -> bool,
) -> Vec<bool> {
    let mut shown = vec![false; processes.len()];
    for index in (0..processes.len()).filter(|&index| admits(&processes[index])) {
        let mut next = Some(index);
        while let Some(index) = next.filter(|&index| !shown[index]) {
            shown[index] = true;
            next = parents[index];
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::id::{Identity, Ns, Pid};

    fn process(pid: u32, ppid: u64) -> Process {
        let id = Identity { pid: Pid(pid), start: Ns(u64::from(pid)) };
        let mut it = Process { id, ..Process::default() };
        it.row.set(ProcessField::Ppid, ppid);
        it
    }

    /// The tree as text: depth and pid.
    fn drawn(processes: &[Process], admits: &dyn Fn(&Process) -> bool) -> String {
        let in_order: Vec<_> = (0..processes.len()).collect();
        let rows = tree(processes, &in_order, admits);
        let text = |&(index, pos): &(usize, TreePos)| {
            format!(
                "{}{}{}",
                pos.depth,
                if pos.last { "!" } else { ":" },
                processes[index].id.pid.0
            )
        };
        rows.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn children_follow_their_parents() {
        let all = [process(1, 0), process(5, 1), process(6, 5), process(7, 1), process(9, 8)];
        assert_eq!(drawn(&all, &|_| true), "0:1 1:5 2!6 1!7 0:9");
    }

    #[test]
    fn a_matching_process_is_shown_with_its_ancestors() {
        let all = [process(1, 0), process(5, 1), process(6, 5), process(7, 1)];
        assert_eq!(drawn(&all, &|it| it.id.pid.0 == 6), "0:1 1!5 2!6");
    }

    #[test]
    fn a_cycle_of_parent_pids_is_broken() {
        let all = [process(5, 6), process(6, 5)];
        assert_eq!(drawn(&all, &|_| true), "0:5 1!6");
    }

    #[test]
    fn a_deep_tree_is_complete() {
        let all: Vec<_> = (1..200).map(|pid| process(pid, u64::from(pid) - 1)).collect();
        assert_eq!(drawn(&all, &|_| true).split(' ').count(), 199);
    }
}
