//! `cargo xtask tidy circles [PATH…]`: files of one crate that need each other.
//!
//! In: the Rust files. Out: each group of files in which every one reaches every other.
//! An edge leads from a file to the file that defines an item that it names; `mod` and re-exports
//! are none, `super::` is one. Tests are left out: a test may use what is above its file.

use super::finding::CountedFinding;
use super::modules::{Crate, File, ModuleTree};
use super::source::Source;
use std::collections::BTreeMap;

/// The edges of one file: the other file, and the first line that names it.
type Edges = BTreeMap<usize, usize>;

/// Each file that is part of a circle, with what it names there.
pub fn find(sources: &[Source]) -> Vec<CountedFinding> {
    let tree = ModuleTree::new(sources, &[]);
    let mut found = Vec::new();
    for (index, each) in tree.crates.iter().enumerate() {
        let files = each.files.iter().enumerate();
        let edges: Vec<Edges> = files.map(|(own, file)| edges(&tree, index, own, file)).collect();
        for group in groups(&edges) {
            found.extend(describe(each, &edges, &group));
        }
    }
    found
}

fn edges(tree: &ModuleTree, crate_index: usize, own: usize, file: &File) -> Edges {
    let mut edges = Edges::new();
    for path in &file.paths {
        let is_reexport = path.import.as_ref().is_some_and(|import| import.is_reexport);
        if is_reexport || file.source.is_unit_test(path.line) {
            continue;
        }
        let other = tree.definition(crate_index, path);
        if let Some(other) = other.filter(|id| id.crate_index == crate_index && id.file != own) {
            edges.entry(other.file).or_insert(path.line);
        }
    }
    edges
}

fn describe(each: &Crate, edges: &[Edges], group: &[usize]) -> Vec<CountedFinding> {
    let path = |file: usize| each.files[file].source.path.as_str();
    let first = group.iter().map(|&file| path(file)).min().unwrap_or_default();
    let key = format!("circle of {} files with {first}", group.len());
    let found = group.iter().map(|&file| {
        let inside = edges[file].iter().filter(|(other, _)| group.contains(other));
        let names: Vec<String> =
            inside.map(|(&other, line)| format!("\n    :{line} names {}", path(other))).collect();
        let text = format!("{}: in a {key}{}", path(file), names.concat());
        CountedFinding { path: path(file).to_owned(), key: key.clone(), text }
    });
    let mut found: Vec<CountedFinding> = found.collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// The strongly connected groups of more than one file, by Kosaraju's two passes.
fn groups(edges: &[Edges]) -> Vec<Vec<usize>> {
    let forward = |file: usize| edges[file].keys().copied().collect::<Vec<_>>();
    let mut back = vec![Vec::new(); edges.len()];
    for (file, edges) in edges.iter().enumerate() {
        edges.keys().for_each(|&other| back[other].push(file));
    }
    let mut order = Vec::new();
    let mut seen = vec![false; edges.len()];
    for start in 0..edges.len() {
        order.extend(reachable(start, forward, &mut seen));
    }
    let mut seen = vec![false; edges.len()];
    let starts = order.into_iter().rev();
    let groups = starts.map(|start| reachable(start, |file| back[file].clone(), &mut seen));
    groups.filter(|group| group.len() > 1).collect()
}

/// What is reached from a file and was not seen before; a file comes after what it leads to.
fn reachable(start: usize, next: impl Fn(usize) -> Vec<usize>, seen: &mut [bool]) -> Vec<usize> {
    let mut order = Vec::new();
    let mut open = vec![(start, None)];
    while let Some((file, others)) = open.pop() {
        let mut others: Vec<usize> = match others {
            Some(others) => others,
            None if seen[file] => continue,
            None => next(file),
        };
        seen[file] = true;
        match others.pop() {
            Some(other) => {
                open.push((file, Some(others)));
                open.push((other, None));
            }
            None => order.push(file),
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let source = |&(path, text): &(&str, &str)| {
            Source::new(&format!("p/src/{path}"), text).expect("the case is Rust")
        };
        let sources: Vec<Source> = files.iter().map(source).collect();
        let found: Vec<String> = find(&sources).into_iter().map(|found| found.text).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn two_files_that_name_each_other_are_a_circle() {
        check(
            &[
                ("lib.rs", "mod a; mod b; mod c; pub use a::A;"),
                ("a.rs", "use crate::b::B;\npub struct A;"),
                ("b.rs", "\nuse crate::A;\npub struct B;"),
                ("c.rs", "use crate::{A, b::B};"),
            ],
            &[
                "p/src/a.rs: in a circle of 2 files with p/src/a.rs\n    :1 names p/src/b.rs",
                "p/src/b.rs: in a circle of 2 files with p/src/a.rs\n    :2 names p/src/a.rs",
            ],
        );
    }

    #[test]
    fn a_module_its_re_export_and_its_tests_are_no_edges() {
        check(
            &[
                ("lib.rs", "mod a;"),
                ("a/mod.rs", "mod b; pub use b::B; pub struct A;"),
                ("a/b.rs", "pub struct B; #[cfg(test)] mod tests { use super::super::A; }"),
            ],
            &[],
        );
    }

    #[test]
    fn super_is_an_edge() {
        let files = [
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod b; pub struct A(b::B);"),
            ("a/b.rs", "pub struct B(Option<Box<super::A>>);"),
        ];
        let source = |&(path, text): &(&str, &str)| {
            Source::new(&format!("p/src/{path}"), text).expect("the case is Rust")
        };
        let sources: Vec<Source> = files.iter().map(source).collect();
        assert_eq!(find(&sources).len(), 2);
    }

    #[test]
    fn a_long_circle_is_one_group() {
        let edges = [[1].as_slice(), &[2], &[0, 3], &[4], &[3], &[0]];
        let edges = edges.map(|others| others.iter().map(|&other| (other, 1)).collect::<Edges>());
        let mut groups = groups(&edges);
        groups.iter_mut().for_each(|group| group.sort_unstable());
        groups.sort();
        assert_eq!(groups, [vec![0, 1, 2], vec![3, 4]]);
    }
}
