//! The merged call stacks of a job as text.
//!
//! In: the tree and the classes. Out: a head, a line for each class, the tree, notes. Functions are
//! listed below their callers; they are indented, and their ranks printed, only where not all ranks
//! of the caller go on together.

use super::merged_stacks::MergedStacks;
use monitor_format::human;
use monitor_format::wrap::{COLUMNS, wrap};
use monitor_jobs::RankSet;
use monitor_jobs::stack_class::StackClass;
use monitor_jobs::stack_tree::StackNode;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

/// Most characters of a set of ranks.
const MAX_SET: usize = 24;
/// Before a function in which all ranks stayed.
const STAYED: &str = "= ";
/// The function below which the program begins.
const MAIN: &str = "main";
const ARROW: &str = " > ";

/// The text. Writing to a `String` cannot fail.
pub fn text(stacks: &MergedStacks) -> String {
    let mut out = String::new();
    head(stacks, &mut out);
    let classes = &stacks.stacks.classes;
    let width = classes.iter().map(|it| set(&it.ranks).chars().count()).max().unwrap_or(0);
    for it in classes {
        class((it, stacks), width, &mut out);
    }
    out.push('\n');
    tree(stacks, &mut out);
    for note in &stacks.notes {
        out.push_str("note: ");
        wrap(&human::escaped_text(note), 6, COLUMNS, &mut out);
    }
    out
}

fn head(stacks: &MergedStacks, out: &mut String) {
    let MergedStacks { job, looks, stacks: read, .. } = stacks;
    let stopped = human::duration_text(read.stopped.as_nanos() as f64);
    let _ = writeln!(out, "{}", job.text(read.ranks));
    let _ = writeln!(out, "each thread was stopped for at most {stopped} at a time");
    if *looks > 1 {
        let every = human::duration_text(stacks.every.as_nanos() as f64);
        let _ = writeln!(
            out,
            "{looks} looks, {every} apart; = marks frames that were the same at each look"
        );
    }
    let n = read.classes.len();
    let _ =
        writeln!(out, "{}:", if n == 1 { "one place".to_owned() } else { format!("{n} places") });
}

/// A line about the ranks at one place: `[0-1,3] rank 0, process 77: main > solve > MPI_Recv`.
fn class((class, stacks): (&StackClass, &MergedStacks), width: usize, out: &mut String) {
    let ranks = set(&class.ranks);
    let StackClass { representative, pid, path, .. } = class;
    let host = stacks.hosts.get(representative);
    let host = host.map(|it| format!(" on {}", human::escaped_text(it))).unwrap_or_default();
    let start = format!("{ranks:width$} rank {representative}, process {pid}{host}: ");
    let main = path.iter().position(is_main).unwrap_or(0);
    let names: Vec<String> = path[main..].iter().map(|it| human::escaped_text(it)).collect();
    let _ = writeln!(out, "{start}{}", innermost(&names, COLUMNS.saturating_sub(start.len())));
}

fn is_main(name: &Arc<str>) -> bool {
    name.strip_prefix(MAIN).is_some_and(|rest| rest.is_empty() || rest.starts_with(" at "))
}

/// The last of the names that a width has space for, at least the last one.
fn innermost(names: &[String], width: usize) -> String {
    let mut out = names.last().cloned().unwrap_or_default();
    for (index, name) in names.iter().enumerate().rev().skip(1) {
        let longer = format!("{name}{ARROW}{out}");
        let dots = if index == 0 { 0 } else { "...".len() + ARROW.len() };
        if longer.chars().count() + dots > width {
            return format!("...{ARROW}{out}");
        }
        out = longer;
    }
    out
}

/// The ranks in brackets; of many the first ones.
fn set(ranks: &RankSet) -> String {
    let all = ranks.to_string();
    if all.len() + 2 <= MAX_SET {
        return format!("[{all}]");
    }
    let room = &all[..MAX_SET - 6];
    let end = room.rfind(',').unwrap_or(room.len());
    format!("[{},...]", &room[..end])
}

fn tree(stacks: &MergedStacks, out: &mut String) {
    let tree = &stacks.stacks.tree;
    let lines: Vec<usize> = tree.in_order().collect();
    let label = |node: &StackNode| match node.ranks.len() == node.threads as u64 {
        true => set(&node.ranks),
        false => format!("{} {} threads", set(&node.ranks), node.threads),
    };
    let width = lines.iter().map(|it| label(tree.node(*it)).chars().count()).max().unwrap_or(0);
    let mut indents: HashMap<usize, usize> = HashMap::new();
    for index in lines {
        let node = tree.node(index);
        let parent = node.parent.map(|it| (it, tree.node(it)));
        let goes_on =
            |(_, it): &(usize, &StackNode)| it.children.len() == 1 && it.threads == node.threads;
        let (indent, ranks) = match parent {
            Some(parent) if goes_on(&parent) => (indents[&parent.0], String::new()),
            Some((parent, _)) => (indents[&parent] + 2, label(node)),
            None => (0, label(node)),
        };
        indents.insert(index, indent);
        let mark = match (stacks.looks > 1, node.stayed) {
            (false, _) => "",
            (true, true) => STAYED,
            (true, false) => "  ",
        };
        let name = human::escaped_text(&node.name);
        let _ = writeln!(out, "{ranks:width$} {mark}{:indent$}{name}", "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_set(ranks: &str, want: &str) {
        assert_eq!(set(&ranks.parse().unwrap_or_default()), want);
    }

    #[test]
    fn long_sets_are_cut_after_a_rank() {
        check_set("0-62", "[0-62]");
        check_set("0,2,4,6,8,10,12,14,16,18,20", "[0,2,4,6,8,10,12,...]");
    }

    #[test]
    fn the_innermost_functions_of_a_path_are_printed() {
        let names = ["main", "solve", "exchange", "MPI_Recv"].map(str::to_owned);
        assert_eq!(innermost(&names, 80), "main > solve > exchange > MPI_Recv");
        assert_eq!(innermost(&names, 33), "... > solve > exchange > MPI_Recv");
        assert_eq!(innermost(&names, 1), "... > MPI_Recv");
        assert_eq!(innermost(&names[3..], 1), "MPI_Recv");
        assert_eq!(innermost(&[], 80), "");
    }
}
