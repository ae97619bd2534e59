//! Signatures of library functions: C prototypes with a few marks, in files (docs/DESCRIPTIONS.md).
//!
//! ```text
//!  *.calls -> parse -> resolve -> Signature -> traced_values: the values of a call and its return
//! ```
//!
//! In: descriptions, shipped ones and those of users. Out: the signature of a library function.
//! Reads no memory of a process, and sets no probe.

pub mod call;
mod parse;
mod resolve;
mod shipped;
pub mod traced_values;
pub mod value_names;

use super::SymbolError;
use call::Signature;
use resolve::LibrarySignatures;
use std::{collections::BTreeSet, path::Path, sync::Arc};

/// Extension of the files of descriptions.
const ENDING: &str = "calls";

/// All known descriptions. The last one read has precedence, so that users can replace shipped
/// ones.
#[derive(Clone, Debug, Default)]
pub struct Signatures {
    libraries: Vec<Arc<LibrarySignatures>>,
}

impl Signatures {
    /// The shipped descriptions.
    pub fn shipped() -> Self {
        let mut it = Self::default();
        for (name, text) in shipped::FILES {
            it.add(Path::new(name), text).expect("a test reads each of them");
        }
        it
    }

    /// Adds the files of a folder, in the order of their names.
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

    /// Adds the descriptions of a text.
    pub fn add(&mut self, path: &Path, text: &str) -> Result<(), SymbolError> {
        let wrong = |want: String| SymbolError::Malformed { path: path.to_owned(), want };
        let items = parse::items(text).map_err(wrong)?;
        let libraries = resolve::libraries(items).map_err(wrong)?;
        self.libraries.splice(0..0, libraries.into_iter().map(Arc::new));
        Ok(())
    }

    /// The names by which libraries are recognised that are linked into a program.
    pub fn marks(&self) -> BTreeSet<String> {
        self.libraries.iter().filter_map(|it| it.mark.clone()).collect()
    }

    /// The signature of a function of a file. Libraries linked into a program are recognised by
    /// their marks.
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
        let named = with().find(|(it, _)| it.is_file(file));
        let found =
            named.or_else(|| with().find(|(it, _)| it.mark.as_deref().is_some_and(&mut defines)));
        found.map(|(_, call)| Arc::clone(call))
    }
}

#[cfg(test)]
mod tests;
