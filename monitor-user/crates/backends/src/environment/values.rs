//! The values of one source, and the small files that have them.
//!
//! In: paths of `/sys`. Out: numbers and texts; nothing where a file is missing or cannot be read.
//! At most [`MAX_VALUES`] values are kept.

use monitor_model::environment::{ChangeRule, EnvironmentKey, EnvironmentSource, EnvironmentValue};
use std::fs;
use std::path::{Path, PathBuf};

/// Most values of one source: a node with 1,024 processors has 3,072 of machine checks.
pub const MAX_VALUES: usize = 16_384;
/// Longest name of a part, bytes.
const LONGEST_NAME: usize = 128;

/// The values of one source.
pub struct Values {
    pub source: EnvironmentSource,
    pub all: Vec<EnvironmentValue>,
}

impl Values {
    /// Adds a counter, if it could be read.
    pub fn add(&mut self, what: &str, kind: &str, value: Option<i64>) {
        self.add_with(what, kind, value.map(|value| (value, ChangeRule::Counter)));
    }

    /// Adds a value, if it could be read.
    pub fn add_with(&mut self, what: &str, kind: &str, value: Option<(i64, ChangeRule)>) {
        let is_named = what.len() <= LONGEST_NAME && kind.len() <= LONGEST_NAME;
        if let Some((value, rule)) = value.filter(|_| is_named && self.all.len() < MAX_VALUES) {
            let key = EnvironmentKey { source: self.source, what: what.into(), kind: kind.into() };
            self.all.push(EnvironmentValue { key, value, rule });
        }
    }
}

/// The number in a file; nothing if there is none.
pub fn number(path: &Path) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The text of a file without the space around it; nothing if it is empty.
pub fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// The entries of a folder whose names begin so, with the rest of the name, in their order; none
/// if there is no such folder.
pub fn entries(folder: &Path, prefix: &str) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let rest = entry.file_name().to_str()?.strip_prefix(prefix)?.to_owned();
        Some((rest, entry.path()))
    });
    let mut all: Vec<_> = named.collect();
    all.sort_by_key(|(rest, _)| (rest.len(), rest.clone()));
    all
}

/// The same, where a number is the rest of the name.
pub fn numbered(folder: &Path, prefix: &str) -> Vec<(u32, PathBuf)> {
    let all = entries(folder, prefix).into_iter();
    all.filter_map(|(rest, path)| Some((rest.parse().ok()?, path))).collect()
}
