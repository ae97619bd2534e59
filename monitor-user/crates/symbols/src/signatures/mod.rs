//! What library calls mean: prototypes of C with a few marks, in files (docs/DESCRIPTIONS.md).
//!
//! ```text
//!  *.calls -> parse -> resolve -> Call -> told: what a call and its return have to tell
//! ```
//!
//! In: descriptions, ours (`shipped`) and those of people. Out: by the name of a library and of a
//! function, what its arguments are. Reads no memory of a process, and sets no probe.

pub mod call;
mod parse;
mod resolve;
mod shipped;
pub mod traced_values;
pub mod value_names;

use super::error::SymbolError;
use call::Signature;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// What the files of descriptions are called.
const ENDING: &str = "calls";

/// All descriptions that are known. What was read last counts first, so that people can say it
/// better than we do.
#[derive(Clone, Debug, Default)]
pub struct Signatures {
    libraries: Vec<Arc<LibrarySignatures>>,
}

/// The functions of a library, or of some versions of it.
#[derive(Debug)]
pub struct LibrarySignatures {
    /// Names of files that are it; `*` stands for any letters.
    pub files: Vec<String>,
    /// A name that only it defines, by which it is known inside a static program.
    pub mark: Option<String>,
    /// By name.
    pub calls: HashMap<String, Arc<Signature>>,
}

impl Signatures {
    /// Those that are part of the monitor.
    pub fn shipped() -> Self {
        let mut it = Self::default();
        for (name, text) in shipped::FILES {
            it.add(Path::new(name), text).expect("a test reads each of them");
        }
        it
    }

    /// Reads those of a folder too, in the order of their names.
    pub fn add_folder(&mut self, folder: &Path) -> Result<(), SymbolError> {
        let failed = |call, source| SymbolError::File { call, path: folder.to_owned(), source };
        let entries = std::fs::read_dir(folder).map_err(|source| failed("open", source))?;
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|it| it == ENDING));
        paths.sort();
        for path in paths {
            let text = std::fs::read_to_string(&path);
            let text = text.map_err(|source| SymbolError::File {
                call: "read",
                path: path.clone(),
                source,
            });
            self.add(&path, &text?)?;
        }
        Ok(())
    }

    /// Adds what a text describes.
    pub fn add(&mut self, path: &Path, text: &str) -> Result<(), SymbolError> {
        let wrong = |want: String| SymbolError::Malformed { path: path.to_owned(), want };
        let items = parse::items(text).map_err(wrong)?;
        let libraries = resolve::libraries(items).map_err(wrong)?;
        self.libraries.splice(0..0, libraries.into_iter().map(Arc::new));
        Ok(())
    }

    /// What a function of a file is. A program may have libraries inside, told by their marks.
    pub fn call(
        &self,
        file: &str,
        function: &str,
        mut defines: impl FnMut(&str) -> bool,
    ) -> Option<Arc<Signature>> {
        let with = || {
            let libraries = self.libraries.iter();
            libraries.filter_map(|it| it.calls.get(function).map(|call| (it, call)))
        };
        let named = with().find(|(it, _)| it.files.iter().any(|name| matches_pattern(name, file)));
        let found =
            named.or_else(|| with().find(|(it, _)| it.mark.as_deref().is_some_and(&mut defines)));
        found.map(|(_, call)| Arc::clone(call))
    }

    /// How many functions are described, all libraries together.
    pub fn n_calls(&self) -> usize {
        self.libraries.iter().map(|it| it.calls.len()).sum()
    }
}

/// Whether a text is as a pattern says, in which `*` stands for any letters.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(head) else { return false };
    (0..=rest.len())
        .filter(|at| rest.is_char_boundary(*at))
        .any(|at| matches_pattern(tail, &rest[at..]))
}

#[cfg(test)]
mod tests;
