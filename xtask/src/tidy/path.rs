//! The paths that a file names: `use` trees, and `a::b` wherever it stands.
//!
//! In: a `Source`. Out: each path with its line; `crate`, `self` and `super` are resolved to the
//! modules of the file's own crate, so that a rule sees `crate::model::Sample` however it is
//! written.

use super::source::{Source, is_word};

/// One path, from a crate down.
#[derive(Debug, PartialEq)]
pub struct Path {
    /// `crate` for the file's own crate, else the name as it stands in the file.
    pub segments: Vec<String>,
    pub line: usize,
    /// Begins with `::`, so it cannot be a module that the file knows by that name.
    pub is_global: bool,
}

/// All paths, resolved for a file that is the module `module` of its crate.
pub fn paths(source: &Source, module: &[String]) -> Vec<Path> {
    let mut reader =
        Reader { source, inside: module.to_vec(), ends: Vec::new(), found: Vec::new() };
    let mut index = 0;
    while index < source.tokens.len() {
        index = reader.step(index);
    }
    reader.found
}

/// The names that mean a module of this crate in this file: `mod x`, and `use crate::a::x`.
pub fn own_names(source: &Source, paths: &[Path]) -> Vec<String> {
    let declared = source.find(&["mod"]).map(|index| source.at(index + 1).to_owned());
    let imported = paths.iter().filter(|path| path.segments.len() > 1);
    let imported = imported.filter(|path| path.segments[0] == "crate");
    declared.chain(imported.flat_map(|path| path.segments.last().cloned())).collect()
}

struct Reader<'a> {
    source: &'a Source,
    /// The module at this token, inline ones included.
    inside: Vec<String>,
    /// Where each inline module ends.
    ends: Vec<usize>,
    found: Vec<Path>,
}

impl Reader<'_> {
    /// Looks at one token and says which comes next.
    fn step(&mut self, index: usize) -> usize {
        while self.ends.last().is_some_and(|&end| index >= end) {
            self.ends.pop();
            self.inside.pop();
        }
        let at = |index| self.source.at(index);
        if at(index) == "mod" && is_word(at(index + 1)) && at(index + 2) == "{" {
            self.ends.push(self.source.closing(index + 2));
            self.inside.push(at(index + 1).to_owned());
            return index + 3;
        }
        let is_path = at(index + 1) == "::" || (index > 0 && at(index - 1) == "use");
        if is_word(at(index)) && is_path && !self.continues(index) {
            let is_global = index > 0 && at(index - 1) == "::";
            return self.read(index, Vec::new(), is_global);
        }
        index + 1
    }

    /// Whether the word at `index` is only the next part of a path or a call.
    fn continues(&self, index: usize) -> bool {
        let before = |distance| index.checked_sub(distance).map_or("", |i| self.source.at(i));
        before(1) == "." || (before(1) == "::" && (is_word(before(2)) || before(2) == ">"))
    }

    /// Reads a path, or a tree of them, that begins at `index`, and returns where it ends.
    fn read(&mut self, mut index: usize, mut segments: Vec<String>, is_global: bool) -> usize {
        let line = self.source.tokens[index].line;
        loop {
            let word = self.source.at(index);
            if word == "{" && self.source.at(index.wrapping_sub(1)) == "::" {
                return self.read_group(index, &segments, is_global);
            }
            if is_word(word) {
                segments.push(word.to_owned());
                index += 1;
            }
            if self.source.at(index) != "::" {
                break;
            }
            index += 1;
            if !is_word(self.source.at(index)) && self.source.at(index) != "{" {
                break;
            }
        }
        self.keep(segments, line, is_global);
        index
    }

    fn read_group(&mut self, open: usize, prefix: &[String], is_global: bool) -> usize {
        let end = self.source.closing(open);
        let mut index = open + 1;
        while index < end {
            if is_word(self.source.at(index)) {
                index = self.read(index, prefix.to_vec(), is_global);
                // What follows `as` is a name, not a path.
                while index < end && self.source.at(index) != "," {
                    index += 1;
                }
            }
            index += 1;
        }
        end + 1
    }

    fn keep(&mut self, mut segments: Vec<String>, line: usize, is_global: bool) {
        if segments.len() > 1 && segments.last().is_some_and(|last| last == "self") {
            segments.pop();
        }
        let mut here = self.inside.clone();
        let mut relative = false;
        while let Some(first) = segments.first() {
            match first.as_str() {
                "self" => {}
                "super" => drop(here.pop()),
                _ => break,
            }
            relative = true;
            segments.remove(0);
        }
        if relative {
            segments.splice(0..0, std::iter::once("crate".to_owned()).chain(here));
        }
        self.found.push(Path { segments, line, is_global });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let source = Source::new("x.rs", text).expect("the case is Rust");
        let found = paths(&source, &["meter".to_owned(), "job".to_owned()]);
        let found: Vec<String> = found.iter().map(|path| path.segments.join("::")).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_tree_is_as_many_paths_as_it_has_leaves() {
        check(
            "use crate::{model::{Sample, Rates}, sys::clock as time, omis::{self, Ask}};",
            &[
                "crate::model::Sample",
                "crate::model::Rates",
                "crate::sys::clock",
                "crate::omis",
                "crate::omis::Ask",
            ],
        );
    }

    #[test]
    fn super_is_the_parent_even_inside_a_test_module() {
        check("use super::group;", &["crate::meter::group"]);
        check("use super::super::model;", &["crate::model"]);
        check(
            "mod tests { use super::*; } use self::x;",
            &["crate::meter::job", "crate::meter::job::x"],
        );
    }

    #[test]
    fn a_path_is_seen_in_a_macro_and_not_in_a_comment_or_string() {
        check("fn f() { vec![aya::Ebpf::load(b), \"aya::x\"] } // aya::y", &["aya::Ebpf::load"]);
    }

    #[test]
    fn a_method_and_a_turbofish_begin_nothing() {
        check("fn f() { a.collect::<Vec<_>>(); <T as X>::y(); use aya; }", &["aya"]);
    }
}
