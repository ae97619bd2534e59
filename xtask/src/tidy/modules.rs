//! The modules of all crates, and the file that defines the item behind a path.
//!
//! In: the Rust files of the workspace and its manifests. Out: a `ModuleTree`. A path through a
//! re-export, a glob or the import of a module leads to the file with the definition, also from one
//! crate into another.
//! Knows no types: a method, a field and what a macro writes belong to no file here.

use super::path::{Path, paths};
use super::source::{Source, is_word};
use std::collections::{HashMap, HashSet};

/// A chain of imports longer than this is a circle.
const MOST_IMPORTS: usize = 64;

/// All crates, with the names by which other crates know them.
pub struct ModuleTree<'a> {
    pub crates: Vec<Crate<'a>>,
    by_name: HashMap<String, usize>,
}

/// What is compiled together, from its root file down.
pub struct Crate<'a> {
    /// The path of the root file.
    pub root: String,
    pub files: Vec<File<'a>>,
    modules: HashMap<Vec<String>, Module>,
}

/// One file of a crate.
pub struct File<'a> {
    pub source: &'a Source,
    pub paths: Vec<Path>,
}

/// A file by its index in `ModuleTree::crates` and in `Crate::files`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileId {
    pub crate_index: usize,
    pub file: usize,
}

#[derive(Default)]
struct Module {
    /// The index in `Crate::files`.
    file: usize,
    items: HashSet<String>,
    /// The names that `use` binds, with their paths; the name of a glob is `*`.
    imports: Vec<(String, Path)>,
}

/// Where a path leads.
#[derive(Clone, Debug, PartialEq)]
enum Target {
    /// To an item that this file defines.
    Item(FileId),
    Module(ModuleId),
}

/// A module by its crate and its names from the root.
#[derive(Clone, Debug, PartialEq)]
struct ModuleId {
    crate_index: usize,
    names: Vec<String>,
}

impl<'a> ModuleTree<'a> {
    /// The tree of these sources; `texts` has the manifests among other files.
    pub fn new(sources: &'a [Source], texts: &[(String, String)]) -> ModuleTree<'a> {
        let is_there = |path: &str| sources.iter().any(|source| source.path == path);
        let mut by_root: HashMap<String, Vec<&Source>> = HashMap::new();
        for source in sources {
            if let Some(root) = root_of(&source.path, is_there) {
                by_root.entry(root).or_default().push(source);
            }
        }
        let mut crates: Vec<Crate> =
            by_root.into_iter().map(|(root, sources)| Crate::new(root, sources)).collect();
        crates.sort_by(|a, b| a.root.cmp(&b.root));
        let mut by_name = HashMap::new();
        for (index, each) in crates.iter().enumerate() {
            let Some(package) = each.root.strip_suffix("src/lib.rs") else { continue };
            let manifest = format!("{package}Cargo.toml");
            let text = texts.iter().find(|(path, _)| *path == manifest);
            by_name.extend(text.and_then(|(_, text)| library_name(text)).zip(Some(index)));
        }
        ModuleTree { crates, by_name }
    }

    /// The file that defines what the path names; `None` for modules and for unknown crates.
    pub fn definition(&self, crate_index: usize, path: &Path) -> Option<FileId> {
        self.definition_by(crate_index, path, &mut Vec::new())
    }

    /// The file that defines what the path names, and the files that re-export it on the way.
    pub fn named_files(&self, crate_index: usize, path: &Path) -> Vec<FileId> {
        let mut passed = Vec::new();
        let last = self.definition_by(crate_index, path, &mut passed);
        passed.extend(last);
        passed
    }

    fn definition_by(
        &self,
        crate_index: usize,
        path: &Path,
        passed: &mut Vec<FileId>,
    ) -> Option<FileId> {
        let mut search = Search { tree: self, fuel: MOST_IMPORTS, passed };
        match search.resolve(crate_index, path)? {
            Target::Item(file) => Some(file),
            // A glob takes what the file of the module defines.
            Target::Module(id) => {
                let is_glob = path.import.as_ref().is_some_and(|import| import.name == "*");
                let module = self.crates[id.crate_index].modules.get(&id.names)?;
                let file = FileId { crate_index: id.crate_index, file: module.file };
                is_glob.then_some(file)
            }
        }
    }
}

/// One walk along a path.
struct Search<'a, 'b> {
    tree: &'a ModuleTree<'a>,
    /// How many more steps it may take.
    fuel: usize,
    /// The files whose imports it has followed.
    passed: &'b mut Vec<FileId>,
}

impl Search<'_, '_> {
    fn resolve(&mut self, crate_index: usize, path: &Path) -> Option<Target> {
        self.fuel = self.fuel.checked_sub(1)?;
        let (first, rest) = path.segments.split_first()?;
        if first == "crate" {
            return self.locate(ModuleId { crate_index, names: Vec::new() }, rest);
        }
        let local = ModuleId { crate_index, names: path.inside.clone() };
        let found = if path.is_global { None } else { self.locate(local, &path.segments) };
        found.or_else(|| {
            let crate_index = *self.tree.by_name.get(first)?;
            self.locate(ModuleId { crate_index, names: Vec::new() }, rest)
        })
    }

    /// Follows names from a module down.
    fn locate(&mut self, at: ModuleId, names: &[String]) -> Option<Target> {
        let Some((name, rest)) = names.split_first() else { return Some(Target::Module(at)) };
        self.fuel = self.fuel.checked_sub(1)?;
        let tree = self.tree;
        let modules = &tree.crates[at.crate_index].modules;
        let module = modules.get(&at.names)?;
        let file = FileId { crate_index: at.crate_index, file: module.file };
        let child = [at.names.clone(), vec![name.clone()]].concat();
        if modules.contains_key(&child) {
            return self.locate(ModuleId { names: child, ..at }, rest);
        }
        if module.items.contains(name) {
            return Some(Target::Item(file));
        }
        for (_, import) in module.imports.iter().filter(|(import, _)| import == name) {
            let found = match self.resolve(at.crate_index, import) {
                Some(Target::Module(module)) => self.locate(module, rest),
                found => found,
            };
            if found.is_some() {
                self.passed.push(file);
                return found;
            }
        }
        for (_, import) in module.imports.iter().filter(|(import, _)| import == "*") {
            let Some(Target::Module(module)) = self.resolve(at.crate_index, import) else {
                continue;
            };
            let found = if module == at { None } else { self.locate(module, names) };
            if found.is_some() {
                self.passed.push(file);
                return found;
            }
        }
        None
    }
}

/// The name of the library in a manifest, as code spells it.
fn library_name(manifest: &str) -> Option<String> {
    let mut section = "";
    let (mut package, mut library) = (None, None);
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line.trim();
        }
        let name = line.strip_prefix("name = ").map(|name| name.trim_matches('"'));
        match section {
            "[package]" => package = package.or(name),
            "[lib]" => library = library.or(name),
            _ => {}
        }
    }
    library.or(package).map(|name| name.replace('-', "_"))
}

/// The root file of the crate that a file belongs to.
fn root_of(path: &str, is_there: impl Fn(&str) -> bool) -> Option<String> {
    let (folder, inside) = match path.split_once("/src/") {
        Some((package, inside)) => (format!("{package}/src"), inside),
        None => {
            // A test target is a folder of `tests` with a `main.rs`.
            let mut parts = path.splitn(3, '/');
            let folder = format!("{}/{}", parts.next()?, parts.next()?);
            (folder, parts.next()?)
        }
    };
    let mut candidates = Vec::new();
    if let Some(program) = inside.strip_prefix("bin/") {
        let name = program.split('/').next().unwrap_or(program);
        candidates.push(format!("{folder}/bin/{name}"));
        candidates.push(format!("{folder}/bin/{name}/main.rs"));
    } else if inside == "main.rs" {
        candidates.push(path.to_owned());
    } else {
        candidates.extend(["lib.rs", "main.rs"].map(|root| format!("{folder}/{root}")));
    }
    candidates.into_iter().find(|root| is_there(root))
}

/// The module of a file, from the root of its crate: `a/b/mod.rs` and `a/b.rs` are two names.
fn module_of(path: &str, root: &str) -> Vec<String> {
    if path == root {
        return Vec::new();
    }
    let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
    let inside = path.strip_prefix(folder).unwrap_or(path).trim_start_matches('/');
    let inside = inside.trim_end_matches(".rs").trim_end_matches("/mod");
    inside.split('/').map(str::to_owned).collect()
}

impl<'a> Crate<'a> {
    fn new(root: String, sources: Vec<&'a Source>) -> Crate<'a> {
        let mut made = Crate { root, files: Vec::new(), modules: HashMap::new() };
        for (index, source) in sources.into_iter().enumerate() {
            let module = module_of(&source.path, &made.root);
            let paths = paths(source, &module);
            made.modules.entry(module.clone()).or_default().file = index;
            made.add_items(source, index, module);
            for path in &paths {
                let Some(import) = &path.import else { continue };
                let module = made.modules.entry(path.inside.clone()).or_default();
                module.imports.push((import.name.clone(), path.clone()));
            }
            made.files.push(File { source, paths });
        }
        made
    }

    /// Adds the items that the file defines, and its inline modules.
    fn add_items(&mut self, source: &Source, file: usize, module: Vec<String>) {
        let mut inside = vec![(module, usize::MAX)];
        let mut index = 0;
        while index < source.tokens.len() {
            while inside.last().is_some_and(|(_, end)| index >= *end) {
                inside.pop();
            }
            let (module, _) = inside.last().expect("the file itself does not end");
            let (word, next) = (source.at(index), source.at(index + 1));
            index = match word {
                "mod" if source.at(index + 2) == "{" => {
                    let module = [module.clone(), vec![next.to_owned()]].concat();
                    self.modules.entry(module.clone()).or_default().file = file;
                    inside.push((module, source.closing(index + 2)));
                    index + 3
                }
                "const" | "static" if matches!(next, "fn" | "unsafe" | "mut" | "extern") => {
                    index + 1
                }
                "fn" | "struct" | "enum" | "trait" | "union" | "type" | "const" | "static"
                | "mut"
                    if is_word(next) =>
                {
                    let module = self.modules.entry(module.clone()).or_default();
                    module.items.insert(next.to_owned());
                    end_of_item(source, index + 2)
                }
                "macro_rules" => {
                    let module = self.modules.entry(module.clone()).or_default();
                    module.items.insert(source.at(index + 2).to_owned());
                    end_of_item(source, index + 3)
                }
                "impl" | "use" => end_of_item(source, index + 1),
                "(" | "[" => source.closing(index) + 1,
                _ => index + 1,
            };
        }
    }
}

/// The index after an item: after its `;`, or after its block.
fn end_of_item(source: &Source, mut index: usize) -> usize {
    while index < source.tokens.len() {
        match source.at(index) {
            ";" => return index + 1,
            "{" => return source.closing(index) + 1,
            "(" | "[" => index = source.closing(index) + 1,
            "}" => return index,
            _ => index += 1,
        }
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each path of the file, with the file that it leads to.
    #[track_caller]
    fn check(files: &[(&str, &str)], path: &str, expected: &[(&str, Option<&str>)]) {
        let source = |&(path, text): &(&str, &str)| {
            Source::new(&format!("p/src/{path}"), text).expect("the case is Rust")
        };
        let sources: Vec<Source> = files.iter().map(source).collect();
        let tree = ModuleTree::new(&sources, &[]);
        let [only] = &tree.crates[..] else { panic!("{} crates", tree.crates.len()) };
        let path = format!("p/src/{path}");
        let file = only.files.iter().find(|file| file.source.path == path).expect("it is there");
        let found = file.paths.iter().map(|path| {
            let file = tree.definition(0, path);
            let file = file.map(|id| only.files[id.file].source.path.as_str());
            (path.segments.join("::"), file.map(|file| file.trim_start_matches("p/src/")))
        });
        let found: Vec<_> = found.collect();
        let expected: Vec<_> = expected.iter().map(|(p, file)| ((*p).to_owned(), *file)).collect();
        assert_eq!(found, expected);
    }

    const LIB: &str = "mod a; mod b; pub use b::Kind;";
    const A: &str = "mod c; pub use c::deep; pub struct Top; pub mod inner { pub fn f() {} }";
    const C: &str = "pub fn deep() {} macro_rules! m { () => {} }";

    #[test]
    fn a_path_leads_to_the_definition_through_re_exports() {
        let b = "use crate::a::{deep, Top, self, inner}; pub enum Kind { X }
            fn f() { a::deep(); inner::f(); a::gone(); Kind::X; std::mem::take(x); }";
        check(
            &[("lib.rs", LIB), ("a/mod.rs", A), ("a/c.rs", C), ("b.rs", b)],
            "b.rs",
            &[
                ("crate::a::deep", Some("a/c.rs")),
                ("crate::a::Top", Some("a/mod.rs")),
                ("crate::a", None),
                ("crate::a::inner", None),
                ("a::deep", Some("a/c.rs")),
                ("inner::f", Some("a/mod.rs")),
                ("a::gone", None),
                ("Kind::X", Some("b.rs")),
                ("std::mem::take", None),
            ],
        );
    }

    #[test]
    fn super_and_globs_are_followed() {
        let c = "use super::Top; use crate::Kind; use super::super::b::*; fn g() { Other::new() }";
        let b = "pub enum Kind { X } pub struct Other;";
        check(
            &[("lib.rs", LIB), ("a/mod.rs", A), ("a/c.rs", c), ("b.rs", b)],
            "a/c.rs",
            &[
                ("crate::a::Top", Some("a/mod.rs")),
                ("crate::Kind", Some("b.rs")),
                ("crate::b", Some("b.rs")),
                ("Other::new", Some("b.rs")),
            ],
        );
    }

    #[test]
    fn imports_that_name_each_other_end() {
        let a = "pub use crate::b::x;";
        let b = "pub use crate::a::x; fn f() { x::y() }";
        check(
            &[("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", b)],
            "b.rs",
            &[("crate::a::x", None), ("x::y", None)],
        );
    }

    #[test]
    fn a_path_into_another_crate_passes_its_re_exports() {
        let source = |(path, text)| Source::new(path, text).expect("the case is Rust");
        let sources = [
            ("p/src/lib.rs", "mod a; pub use a::A;"),
            ("p/src/a.rs", "pub struct A;"),
            ("q/src/lib.rs", "use monitor_p::A; fn f() { A::new(); other::b() }"),
        ]
        .map(source);
        let manifest = "[package]\nname = \"monitor-p\"\n[dependencies]\n";
        let tree = ModuleTree::new(&sources, &[("p/Cargo.toml".into(), manifest.into())]);
        let named = |path: &Path| {
            let files = tree.named_files(1, path).into_iter();
            files
                .map(|id| tree.crates[id.crate_index].files[id.file].source.path.as_str())
                .collect::<Vec<_>>()
        };
        let found: Vec<_> = tree.crates[1].files[0].paths.iter().map(named).collect();
        let through = ["p/src/lib.rs", "p/src/a.rs"].as_slice();
        let imported = ["p/src/lib.rs", "q/src/lib.rs", "p/src/a.rs"].as_slice();
        assert_eq!(found, [through, imported, &[]]);
    }

    #[test]
    fn a_library_may_have_a_name_of_its_own() {
        let package = "[package]\nname = \"monitor-user\"\n";
        assert_eq!(library_name(package).as_deref(), Some("monitor_user"));
        let named = format!("{package}[lib]\nname = \"monitor\"\n");
        assert_eq!(library_name(&named).as_deref(), Some("monitor"));
    }

    #[test]
    fn a_file_belongs_to_its_root() {
        let there = |path: &str| {
            ["p/src/lib.rs", "p/src/main.rs", "p/src/bin/r/main.rs", "tests/it/main.rs"]
                .contains(&path)
        };
        let root = |path| root_of(path, there);
        assert_eq!(root("p/src/a/b.rs").as_deref(), Some("p/src/lib.rs"));
        assert_eq!(root("p/src/main.rs").as_deref(), Some("p/src/main.rs"));
        assert_eq!(root("p/src/bin/r/x.rs").as_deref(), Some("p/src/bin/r/main.rs"));
        assert_eq!(root("tests/it/a/b.rs").as_deref(), Some("tests/it/main.rs"));
        assert_eq!(root("p/build.rs"), None);
    }
}
