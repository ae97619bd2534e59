//! The layers of the user half: a module names only modules below its own.
//!
//! In: the paths of a file. Out: those that point up or sideways.
//! The table is the one in docs/ARCHITECTURE.md; a new module needs a row.

use super::path::Path;
use super::source::Source;
use super::{Finding, finding};

/// A crate whose modules stand in layers: its name in other files, and its folder.
struct House {
    name: &'static str,
    folder: &'static str,
    layers: &'static [(&'static str, u8)],
}

const HOUSES: &[House] = &[
    House {
        name: "monitor",
        folder: "monitor-user/src/",
        layers: &[
            ("model", 0),
            ("omis", 1),
            ("wire", 1),
            ("format", 1),
            ("sys", 1),
            ("backend", 2),
            ("control", 2),
            ("meter", 3),
            ("record", 3),
            ("probe", 3),
            ("service", 4),
            ("engine", 5),
            ("cluster", 6),
            ("serve", 7),
            ("client", 7),
            ("daemon", 8),
            ("cli", 9),
            ("main", 10),
        ],
    },
    House {
        name: "monitor_ebpf",
        folder: "monitor-ebpf/src/",
        layers: &[("abi", 0), ("kernel", 1), ("bin", 2)],
    },
];

/// The module that a file is, from the root of its crate: `backend/ebpf/mod.rs` is two names.
pub fn module(path: &str) -> Vec<String> {
    let inside = path.split_once("/src/").map_or(path, |(_, inside)| inside);
    let inside = inside.trim_end_matches(".rs").trim_end_matches("/mod");
    inside.split('/').filter(|name| *name != "lib" && *name != "mod").map(str::to_owned).collect()
}

/// Paths that point up or sideways.
pub fn check(source: &Source, paths: &[Path]) -> Vec<Finding> {
    let Some(house) = HOUSES.iter().find(|house| source.path.starts_with(house.folder)) else {
        return Vec::new();
    };
    let own = module(&source.path);
    let Some(own) = own.first() else {
        return Vec::new(); // `lib.rs` names every module, and uses none.
    };
    let Some(own_layer) = house.layer(own) else {
        return vec![finding(
            1,
            format!("the module `{own}` has no layer"),
            "a module that stands nowhere in the order can import anything",
            "move it into a module that has one, or add a row to xtask/src/tidy/layer.rs",
        )];
    };
    let used = paths.iter().filter_map(|path| Some((house.used(path)?, path.line)));
    used.filter(|(used, _)| *used != own)
        .filter_map(|(used, line)| {
            let layer = house.layer(used)?;
            (layer >= own_layer).then(|| {
                finding(
                    line,
                    format!("`{own}` (layer {own_layer}) uses `{used}` (layer {layer})"),
                    "a module imports lower layers only, so that each can be read without the rest",
                    "move what both need below, or let the upper module pass it in",
                )
            })
        })
        .collect()
}

impl House {
    fn layer(&self, module: &str) -> Option<u8> {
        self.layers.iter().find(|(name, _)| *name == module).map(|(_, layer)| *layer)
    }

    /// The module of this crate that the path goes into.
    fn used<'a>(&self, path: &'a Path) -> Option<&'a String> {
        let [first, second, ..] = &path.segments[..] else { return None };
        (first == "crate" || first == self.name).then_some(second)
    }
}

#[cfg(test)]
mod tests {
    use super::super::path::paths;
    use super::*;

    #[track_caller]
    fn check_file(path: &str, text: &str, expected: &[&str]) {
        let source = Source::new(path, text).expect("the case is Rust");
        let found = check(&source, &paths(&source, &module(path)));
        let found: Vec<&str> = found.iter().map(|finding| finding.what.as_str()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn down_and_inside_are_allowed() {
        let text = "use crate::model::Sample; use super::group; use crate::meter::job;";
        check_file("monitor-user/src/meter/once.rs", text, &[]);
    }

    #[test]
    fn up_and_sideways_are_not() {
        check_file(
            "monitor-user/src/format/json.rs",
            "use crate::omis::Ask; fn f() { super::super::cli::exit() }",
            &[
                "`format` (layer 1) uses `omis` (layer 1)",
                "`format` (layer 1) uses `cli` (layer 9)",
            ],
        );
    }

    #[test]
    fn a_module_without_a_row_is_named() {
        let path = "monitor-user/src/misc.rs";
        check_file(path, "fn f() {}", &["the module `misc` has no layer"]);
    }
}
