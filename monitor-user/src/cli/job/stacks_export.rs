//! Merged call stacks for other programs: JSON, the graph language of Graphviz, and folded lines.
//!
//! In: the tree of a job. Out: text. JSON has the nodes as a list in which each names its parent,
//! because readers of JSON limit the depth of nesting, and stacks are deep.

use super::merged_stacks::MergedStacks;
use monitor_jobs::stack_class::StackClass;
use monitor_jobs::stack_tree::StackTree;
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::time::Duration;

/// As JSON.
pub fn json(stacks: &MergedStacks) -> Json {
    let read = &stacks.stacks;
    let tree = &read.tree;
    let node = |index: usize| {
        let node = tree.node(index);
        json!({
            "id": index,
            "parent": node.parent,
            "function": &*node.name,
            "ranks": node.ranks.to_string(),
            "threads": node.threads,
            "ends": node.ends,
            "stayed": (stacks.looks > 1).then_some(node.stayed),
        })
    };
    let class = |class: &StackClass| {
        let mut class_json = json!({
            "ranks": class.ranks.to_string(),
            "representative": class.representative,
            "pid": class.pid,
            "path": class.path.iter().map(|it| &**it).collect::<Vec<_>>(),
        });
        if let Some(host) = stacks.hosts.get(&class.representative) {
            class_json["node"] = host.as_str().into();
        }
        class_json
    };
    json!({
        "schema_version": 1,
        "node": &*stacks.job.nodes,
        "job": &*stacks.job.id,
        "looks": stacks.looks,
        "max_stopped_ns": ns(read.stopped),
        "max_stopped_cpu_ns": ns(read.stopped_cpu),
        "total_stopped_ns": ns(read.total_stopped),
        "classes": read.classes.iter().map(class).collect::<Vec<_>>(),
        "nodes": tree.in_order().map(node).collect::<Vec<_>>(),
        "notes": stacks.notes,
    })
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// As a graph for dot(1), with the ranks on the edges.
pub fn dot(stacks: &MergedStacks) -> String {
    let mut out = String::from("digraph stacks {\n  node [shape=box];\n");
    // Writing to a `String` cannot fail.
    let _ = writeln!(out, "  job [label=\"job {}\"];", quoted(&stacks.job.id));
    let tree = &stacks.stacks.tree;
    for index in tree.in_order() {
        let node = tree.node(index);
        let from = node.parent.map_or_else(|| "job".to_owned(), |it| format!("n{it}"));
        let bold = if node.stayed { ", style=bold" } else { "" };
        let _ = writeln!(out, "  n{index} [label=\"{}\"{bold}];", quoted(&node.name));
        let _ = writeln!(out, "  {from} -> n{index} [label=\"[{}]\"];", node.ranks);
    }
    out + "}\n"
}

fn quoted(text: &str) -> String {
    let text: String = text.chars().map(|it| if it.is_control() { '?' } else { it }).collect();
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// As lines `outermost;…;innermost COUNT`, the input of flamegraph.pl and speedscope.
pub fn folded(tree: &StackTree) -> String {
    let mut out = String::new();
    for index in tree.in_order().filter(|it| tree.node(*it).ends > 0) {
        for (depth, name) in tree.path(index).iter().enumerate() {
            out.push_str(if depth == 0 { "" } else { ";" });
            let is_special = |it: char| it == ';' || it.is_control();
            out.extend(name.chars().map(|it| if is_special(it) { '?' } else { it }));
        }
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, " {}", tree.node(index).ends);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_jobs::stack_tree::{RankFrame, RankThread};

    fn tree(stacks: &[&[&str]]) -> StackTree {
        let frame = |name: &&str| RankFrame { name: (*name).into(), cfa: 0, pc: 0 };
        let thread = |(rank, names): (u32, &&[&str])| {
            let stacks = vec![names.iter().map(frame).collect()];
            RankThread { rank, pid: rank, tid: rank, stacks }
        };
        StackTree::merge(&(0..).zip(stacks).map(thread).collect::<Vec<_>>(), 1)
    }

    #[test]
    fn folded_lines_count_the_stacks_that_end_there() {
        let tree = tree(&[&["main", "a;b"], &["main", "a;b"], &["main"]]);
        assert_eq!(folded(&tree), "main 1\nmain;a?b 2\n");
    }

    #[test]
    fn a_name_cannot_end_the_text_of_a_label() {
        assert_eq!(quoted("f<\"\\\n>"), "f<\\\"\\\\?>");
    }
}
