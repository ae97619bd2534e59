//! Parents and their children.
//!
//! In: processes, the order in which siblings stand, and which of them are looked for. Out: those
//! with all their ancestors, each after its parent. One whose parent is not there is a root.

use monitor_model::field::ProcessField;
use monitor_model::sample::Process;
use std::collections::HashMap;

/// Deepest that is drawn as deep as it is.
const DEEPEST: u8 = 63;

/// Where a row stands in the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stem {
    /// How many ancestors it has here.
    pub depth: u8,
    /// Whether it is the last child of its parent.
    pub last: bool,
    /// For each ancestor, whether it is the last of its parent: nothing more comes below it.
    pub closed: u64,
}

/// The rows of the tree: places among the processes.
pub fn tree(
    processes: &[Process],
    in_order: &[usize],
    admits: &dyn Fn(&Process) -> bool,
) -> Vec<(usize, Stem)> {
    let parents = parents(processes);
    let shown = shown(processes, &parents, admits);
    let mut children: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
    for &place in in_order.iter().filter(|&&place| shown[place]) {
        children.entry(parents[place]).or_default().push(place);
    }
    let mut rows = Vec::new();
    let mut open: Vec<(usize, Stem)> = Vec::new();
    open.extend(below(children.remove(&None), None));
    while let Some((place, stem)) = open.pop() {
        rows.push((place, stem));
        open.extend(below(children.remove(&Some(place)), Some(stem)));
    }
    rows
}

/// The children of one, the first to be taken last.
fn below(
    children: Option<Vec<usize>>,
    parent: Option<Stem>,
) -> impl Iterator<Item = (usize, Stem)> {
    let children = children.unwrap_or_default();
    let n_children = children.len();
    children.into_iter().enumerate().rev().map(move |(nth, place)| {
        let stem = parent.map_or_else(Stem::default, |parent| Stem {
            depth: (parent.depth + 1).min(DEEPEST),
            last: nth + 1 == n_children,
            closed: parent.closed | u64::from(parent.last) << parent.depth,
        });
        (place, stem)
    })
}

/// The place of each one's parent. A parent is older than its child: so there is no circle.
fn parents(processes: &[Process]) -> Vec<Option<usize>> {
    let by_pid: HashMap<u64, usize> = processes
        .iter()
        .enumerate()
        .filter(|(_, it)| !it.ended())
        .map(|(place, it)| (it.id.pid.0.into(), place))
        .collect();
    let older = |child: &Process, place: usize| {
        let parent = processes[place].id;
        (parent.start, parent.pid) < (child.id.start, child.id.pid)
    };
    let parent = |it: &Process| {
        let place = *by_pid.get(&it.row.get(ProcessField::Ppid)?)?;
        older(it, place).then_some(place)
    };
    processes.iter().map(parent).collect()
}

/// Those that are looked for, and their ancestors.
fn shown(
    processes: &[Process],
    parents: &[Option<usize>],
    admits: &dyn Fn(&Process) -> bool,
) -> Vec<bool> {
    let mut shown = vec![false; processes.len()];
    for place in (0..processes.len()).filter(|&place| admits(&processes[place])) {
        let mut next = Some(place);
        while let Some(place) = next.filter(|&place| !shown[place]) {
            shown[place] = true;
            next = parents[place];
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

    /// As text: depth and pid.
    fn drawn(processes: &[Process], admits: &dyn Fn(&Process) -> bool) -> String {
        let in_order: Vec<_> = (0..processes.len()).collect();
        let rows = tree(processes, &in_order, admits);
        let text = |&(place, stem): &(usize, Stem)| {
            format!(
                "{}{}{}",
                stem.depth,
                if stem.last { "!" } else { ":" },
                processes[place].id.pid.0
            )
        };
        rows.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn children_stand_below_their_parents() {
        let all = [process(1, 0), process(5, 1), process(6, 5), process(7, 1), process(9, 8)];
        assert_eq!(drawn(&all, &|_| true), "0:1 1:5 2!6 1!7 0:9");
    }

    #[test]
    fn who_is_looked_for_comes_with_his_ancestors() {
        let all = [process(1, 0), process(5, 1), process(6, 5), process(7, 1)];
        assert_eq!(drawn(&all, &|it| it.id.pid.0 == 6), "0:1 1!5 2!6");
    }

    #[test]
    fn a_circle_of_numbers_is_no_circle() {
        let all = [process(5, 6), process(6, 5)];
        assert_eq!(drawn(&all, &|_| true), "0:5 1!6");
    }

    #[test]
    fn a_long_line_of_ancestors_is_whole() {
        let all: Vec<_> = (1..200).map(|pid| process(pid, u64::from(pid) - 1)).collect();
        assert_eq!(drawn(&all, &|_| true).split(' ').count(), 199);
    }
}
