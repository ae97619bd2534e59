//! What a check has found.

use serde::Serialize;

/// How it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingState {
    /// As it should be.
    Ok,
    /// It works, but should be otherwise.
    Warning,
    /// It does not work, or is not safe.
    Failed,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was checked: a server, or `node`.
    pub of: String,
    /// The check.
    pub check: &'static str,
    /// How it is.
    pub state: FindingState,
    /// What was found.
    pub found: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// Whether nothing more can be checked there if it has failed.
    #[serde(skip)]
    pub(crate) blocks: bool,
}

impl Finding {
    /// As it should be.
    pub fn ok(of: &str, check: &'static str, found: impl ToString) -> Self {
        let (of, found) = (of.to_owned(), found.to_string());
        Self { of, check, state: FindingState::Ok, found, fix: None, blocks: false }
    }

    /// It works, but should be otherwise.
    pub fn warning(
        of: &str,
        check: &'static str,
        found: impl ToString,
        fix: impl ToString,
    ) -> Self {
        let fix = Some(fix.to_string());
        Self { state: FindingState::Warning, fix, ..Self::ok(of, check, found) }
    }

    /// It does not work, or is not safe.
    pub fn failed(of: &str, check: &'static str, found: impl ToString, fix: impl ToString) -> Self {
        Self { state: FindingState::Failed, ..Self::warning(of, check, found, fix) }
    }

    /// The same; nothing more can be checked there.
    pub(crate) fn blocking(self) -> Self {
        Self { blocks: true, ..self }
    }
}
