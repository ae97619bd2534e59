//! The walks of docs/ARCHITECTURE.md: the files of one reading, one request, one scrape, in order.
//!
//! In: blocks of code that begin with `walk NAME max=COUNT`; each line is a path from the root of
//! the workspace and, after two spaces, a comment. Out: files that do not exist, walks that are too
//! long, and neighbours of which neither names an item of the other.

use super::finding::{Finding, finding, warning};
use super::modules::{FileId, ModuleTree};

/// The page with the walks.
pub const PAGE: &str = "docs/ARCHITECTURE.md";

/// One block.
#[derive(Debug, PartialEq)]
struct Walk {
    line: usize,
    name: String,
    /// The most files; absent if the block does not say it.
    max: Option<usize>,
    /// The paths with their lines.
    files: Vec<(usize, String)>,
}

/// What is wrong with the walks of the page.
pub fn check(page: &str, tree: &ModuleTree) -> Vec<Finding> {
    let walks = walks(page);
    if walks.is_empty() {
        let todo = "write them as blocks of code that begin with `walk NAME max=20`";
        return vec![warning(1, "no walks yet".to_owned(), "readers follow them", todo)];
    }
    walks.iter().flat_map(|walk| check_walk(walk, tree)).collect()
}

fn walks(page: &str) -> Vec<Walk> {
    let mut walks = Vec::new();
    let mut open: Option<Walk> = None;
    for (line, text) in (1..).zip(page.lines()) {
        let text = text.trim_end();
        if let Some(mut walk) = open.take() {
            if text.trim_start().starts_with("```") {
                walks.push(walk);
                continue;
            }
            let path = text.trim_start().split("  ").next().unwrap_or_default();
            if !path.is_empty() {
                walk.files.push((line, path.to_owned()));
            }
            open = Some(walk);
        } else if let Some(title) = text.trim_start().strip_prefix("```walk ") {
            let (mut words, mut max) = (Vec::new(), None);
            for word in title.split_whitespace() {
                match word.strip_prefix("max=") {
                    Some(count) => max = count.parse().ok(),
                    None => words.push(word),
                }
            }
            open = Some(Walk { line, name: words.join(" "), max, files: Vec::new() });
        }
    }
    walks
}

fn check_walk(walk: &Walk, tree: &ModuleTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Walk { line, name, max, files } = walk;
    match max {
        None => findings.push(finding(
            *line,
            format!("the walk `{name}` has no `max=`"),
            "a walk that grows is not read",
            "say the most files that it may have",
        )),
        Some(max) if files.len() > *max => findings.push(finding(
            *line,
            format!("the walk `{name}` has {} files, not more than {max}", files.len()),
            "a walk that grows is not read",
            "remove the layer that only passes things on",
        )),
        Some(_) => {}
    }
    let id = |path: &str| file_id(tree, path);
    for (line, path) in files.iter().filter(|(_, path)| id(path).is_none()) {
        findings.push(finding(
            *line,
            format!("`{path}` is no file of a crate"),
            "a reader follows the walk file by file",
            "name the file that has the function now",
        ));
    }
    for pair in files.windows(2) {
        let [(_, before), (line, after)] = pair else { continue };
        let (Some(first), Some(second)) = (id(before), id(after)) else { continue };
        if !names(tree, first, second) && !names(tree, second, first) {
            findings.push(finding(
                *line,
                format!("neither `{before}` nor `{after}` names an item of the other"),
                "a reader must find the next file in the code",
                "add the file between them, or remove the one that is not on the path",
            ));
        }
    }
    findings
}

fn file_id(tree: &ModuleTree, path: &str) -> Option<FileId> {
    for (crate_index, each) in tree.crates.iter().enumerate() {
        let file = each.files.iter().position(|file| file.source.path == path);
        if let Some(file) = file {
            return Some(FileId { crate_index, file });
        }
    }
    None
}

/// Whether the code of one file names an item that the other defines or re-exports.
fn names(tree: &ModuleTree, from: FileId, to: FileId) -> bool {
    let file = &tree.crates[from.crate_index].files[from.file];
    let code = file.paths.iter().filter(|path| !file.source.is_unit_test(path.line));
    code.into_iter().any(|path| tree.named_files(from.crate_index, path).contains(&to))
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;
    use super::*;

    #[track_caller]
    fn check_page(page: &str, expected: &[(usize, &str)]) {
        let source = |(path, text)| Source::new(path, text).expect("the case is Rust");
        let sources = [
            ("p/src/lib.rs", "mod a; mod b; pub use a::A;"),
            ("p/src/a.rs", "pub struct A;"),
            ("p/src/b.rs", "use crate::A; fn f() {}"),
            ("q/src/lib.rs", "mod c;"),
            ("q/src/c.rs", "fn f() { p::A::new() }"),
        ]
        .map(source);
        let manifest =
            |name: &str| (format!("{name}/Cargo.toml"), format!("[package]\nname = \"{name}\"\n"));
        let tree = ModuleTree::new(&sources, &[manifest("p"), manifest("q")]);
        let found = check(page, &tree);
        let found: Vec<_> = found.iter().map(|it| (it.line, it.what.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn neighbours_name_each_other_in_either_direction_and_through_crates() {
        let page = "text\n```walk a reading max=4\np/src/b.rs  counts\np/src/a.rs\n\
                    q/src/c.rs  prints\np/src/lib.rs\n```\n";
        check_page(page, &[]);
    }

    #[test]
    fn files_that_do_not_meet_are_named() {
        let what = "neither `q/src/c.rs` nor `p/src/b.rs` names an item of the other";
        check_page("```walk x max=2\nq/src/c.rs\np/src/b.rs\n```\n", &[(3, what)]);
    }

    #[test]
    fn a_walk_is_short_and_its_files_exist() {
        check_page(
            "```walk x max=1\np/src/b.rs\np/src/gone.rs\n```\n```walk y\n```\n",
            &[
                (1, "the walk `x` has 2 files, not more than 1"),
                (3, "`p/src/gone.rs` is no file of a crate"),
                (5, "the walk `y` has no `max=`"),
            ],
        );
    }

    #[test]
    fn a_page_without_walks_is_noted() {
        check_page("text\n```text\np/src/gone.rs\n```\n", &[(1, "no walks yet")]);
    }
}
