//! The texts of the workspace and the tokens of its Rust files, read once for all checks.

use super::source::Source;
use crate::workspace;
use std::cell::OnceCell;

/// The texts of the workspace, read once; Rust is parsed for the first check that needs tokens.
pub struct Files {
    pub texts: Vec<(String, String)>,
    parsed: OnceCell<Parsed>,
}

#[derive(Default)]
struct Parsed {
    sources: Vec<Source>,
    broken: Vec<(String, usize)>,
}

impl Files {
    pub fn read() -> Result<Files, String> {
        let mut texts = Vec::new();
        for path in workspace::files()? {
            let text = workspace::text(&path)?;
            texts.extend(text.map(|text| (path, text)));
        }
        Ok(Files { texts, parsed: OnceCell::new() })
    }

    /// The Rust files as tokens.
    pub fn sources(&self) -> &[Source] {
        &self.parsed().sources
    }

    /// The Rust files that cannot be read as tokens, with the line where that begins.
    pub fn broken(&self) -> &[(String, usize)] {
        &self.parsed().broken
    }

    fn parsed(&self) -> &Parsed {
        self.parsed.get_or_init(|| {
            let mut parsed = Parsed::default();
            for (path, text) in self.texts.iter().filter(|(path, _)| path.ends_with(".rs")) {
                match Source::new(path, text) {
                    Ok(source) => parsed.sources.push(source),
                    Err(line) => parsed.broken.push((path.clone(), line)),
                }
            }
            let modules: Vec<String> =
                parsed.sources.iter().flat_map(Source::test_modules).collect();
            for source in &mut parsed.sources {
                let path = source.path.trim_end_matches(".rs");
                source.is_test_only =
                    modules.iter().any(|module| workspace::is_below(path, module));
            }
            parsed
        })
    }
}
