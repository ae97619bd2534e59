//! The paths that a file names: `use` trees, and `a::b` anywhere in its code.
//!
//! In: a `Source`. Out: each path with its line; `crate`, `self` and `super` are resolved to the
//! modules of the file's own crate, so that a rule sees `crate::model::Sample` however it is
//! written.

use super::source::{Source, is_word};

/// One path, from a crate down.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// `crate` for the file's own crate, else the name as the file has it.
    pub segments: Vec<String>,
    pub line: usize,
    /// Begins with `::`, so it cannot be a module that the file knows by that name.
    pub is_global: bool,
    /// The module that names it, inline modules included.
    pub inside: Vec<String>,
    /// Set for a leaf of a `use` tree.
    pub import: Option<Import>,
}

/// What a `use` does with a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Import {
    /// The name that the module has for it; `*` for all names below the path.
    pub name: String,
    pub is_reexport: bool,
}

/// All paths, resolved for a file that is the module `module` of its crate.
pub fn paths(source: &Source, module: &[String]) -> Vec<Path> {
    let inside = module.to_vec();
    let mut reader =
        Reader { source, inside, ends: Vec::new(), reexports: None, found: Vec::new() };
    let mut index = 0;
    while index < source.tokens.len() {
        index = reader.step(index);
    }
    reader.found
}

struct Reader<'a> {
    source: &'a Source,
    /// The module at this token, inline ones included.
    inside: Vec<String>,
    /// Where each inline module ends.
    ends: Vec<usize>,
    /// In a `use` tree: whether it is a re-export.
    reexports: Option<bool>,
    found: Vec<Path>,
}

impl Reader<'_> {
    /// Reads what begins at one token; returns the index of the next.
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
        if at(index) == "use" && at(index + 1) != "<" {
            let before = index.checked_sub(1).map_or("", |before| self.source.at(before));
            self.reexports = Some(before == "pub" || before == ")");
            let is_global = at(index + 1) == "::";
            let first = index + 1 + usize::from(is_global);
            let end = self.read(first, Vec::new(), is_global);
            self.reexports = None;
            return end;
        }
        if is_word(at(index)) && at(index + 1) == "::" && !self.continues(index) {
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
            let is_group = self.source.at(index.wrapping_sub(1)) == "::" || segments.is_empty();
            if word == "{" && is_group {
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
        let name = match (self.source.at(index), self.source.at(index + 1)) {
            ("*", _) => Some("*".to_owned()),
            ("as", name) if self.reexports.is_some() => Some(name.to_owned()),
            _ => segments.iter().rev().find(|segment| *segment != "self").cloned(),
        };
        let import = self.reexports.zip(name);
        let import = import.map(|(is_reexport, name)| Import { name, is_reexport });
        self.keep(Path { segments, line, is_global, inside: self.inside.clone(), import });
        index
    }

    fn read_group(&mut self, open: usize, prefix: &[String], is_global: bool) -> usize {
        let end = self.source.closing(open);
        let mut index = open + 1;
        while index < end {
            if is_word(self.source.at(index)) {
                index = self.read(index, prefix.to_vec(), is_global);
                // A name after `as` is no path.
                while index < end && self.source.at(index) != "," {
                    index += 1;
                }
            }
            index += 1;
        }
        end + 1
    }

    /// Resolves `self` and `super`, and keeps the path.
    fn keep(&mut self, mut path: Path) {
        let segments = &mut path.segments;
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
        self.found.push(path);
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
    fn a_use_says_which_name_it_binds_and_whether_others_see_it() {
        let text = "use a::b as c; pub use a::{d, e::{self, f}}; pub(crate) use a::*; x::y();";
        let source = Source::new("x.rs", text).expect("the case is Rust");
        let found = paths(&source, &[]);
        let found: Vec<_> = found
            .iter()
            .map(|path| path.import.as_ref().map(|it| (it.name.as_str(), it.is_reexport)))
            .collect();
        let expected = [("c", false), ("d", true), ("e", true), ("f", true), ("*", true)];
        assert_eq!(found[..5], expected.map(Some));
        assert_eq!(found[5..], [None]);
    }

    #[test]
    fn a_method_and_a_turbofish_begin_nothing() {
        check("fn f() { a.collect::<Vec<_>>(); <T as X>::y(); use aya; }", &["aya"]);
    }
}
