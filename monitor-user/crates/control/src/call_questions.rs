//! Questions of a profile of the calls of MPI about ranks, and their answers.
//!
//! In: an answer, perhaps of another process, which may be anything. Out: the same within bounds.

use crate::error::ControlError;
use monitor_jobs::mpi_datatype::DatatypeHandles;
use monitor_model::Identity;
use monitor_symbols::held_file::FileRef;
use monitor_symbols::library_calls::CalledFunction;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most functions of a process, and ends of one.
const MAX_FUNCTIONS: usize = 1024;
const MAX_ENDS: usize = 256;
/// Most files with such functions.
const MAX_FILES: usize = 64;
/// Most bytes of a name or a reason.
const MAX_TEXT: usize = 1024;

/// A question.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub enum CallQuestion {
    /// Which functions of MPI a process calls.
    Functions(Identity),
    /// In which of them its threads are.
    Open(Identity),
    /// Where calls are that return to these addresses.
    Places(Identity, Vec<u64>),
    /// How long elements are of the types with these handles, in bytes.
    Sizes(Identity, DatatypeHandles, Vec<u64>),
}

/// Its answer.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub enum CallAnswer {
    /// The functions.
    Functions(MpiFunctions),
    /// The threads.
    Open(Vec<ThreadCalls>),
    /// A text for each address.
    Places(Vec<String>),
    /// The size for each handle, where it is known.
    Sizes(Vec<Option<u64>>),
}

/// The functions of MPI that a process calls.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct MpiFunctions {
    /// By the file that has them.
    pub files: Vec<(FileRef, Vec<MpiFunction>)>,
    /// Those that cannot be probed, by name, and why.
    pub refused: BTreeMap<String, String>,
    /// What its handles of datatypes are.
    pub handles: Option<DatatypeHandles>,
}

/// A function.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct MpiFunction {
    /// Where it begins and ends.
    pub called: CalledFunction,
    /// The indexes of the arguments with the number and the type of what it sends or writes.
    pub elements: Option<(u8, u8)>,
}

/// The calls in which a thread is.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct ThreadCalls {
    /// Its thread id.
    pub tid: u32,
    /// Canonical frame address of its innermost frame.
    pub top: u64,
    /// The calls of MPI, outermost first.
    pub calls: Vec<StackCall>,
}

/// A call in a stack.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct StackCall {
    /// Its function, with its name in C.
    pub function: String,
    /// Address of its return address.
    pub stack: u64,
    /// The return address.
    pub return_address: u64,
}

/// Answers questions.
pub trait CallAnswers {
    /// The answer.
    ///
    /// # Errors
    /// If the process has ended, or may not be read.
    fn answer(&mut self, question: CallQuestion) -> Result<CallAnswer, ControlError>;
}

impl CallAnswer {
    /// The same, if it is within bounds: another process may answer anything.
    ///
    /// # Errors
    /// If it is not.
    pub fn checked(self) -> Result<Self, ControlError> {
        let found = match &self {
            Self::Functions(found) => found,
            Self::Places(names) => {
                let bounded = |it: &String| it.chars().take(MAX_TEXT).collect();
                return Ok(Self::Places(names.iter().map(bounded).collect()));
            }
            Self::Open(_) | Self::Sizes(_) => return Ok(self),
        };
        let is_bounded = |it: &MpiFunction| {
            let n_ends =
                it.called.ends.as_ref().map_or(0, |it| it.returns.len() + it.tail_jumps.len());
            n_ends <= MAX_ENDS && it.called.name.len() <= MAX_TEXT
        };
        let all: Vec<_> = found.files.iter().flat_map(|(_, functions)| functions).collect();
        let is_text_bounded =
            found.refused.iter().all(|(name, why)| name.len().max(why.len()) <= MAX_TEXT);
        // Each file is held open.
        let are_files_bounded =
            found.files.len() <= MAX_FILES && found.files.iter().all(|(_, of)| !of.is_empty());
        let n_all = all.len() + found.refused.len();
        let is_bounded = is_text_bounded && all.into_iter().all(is_bounded);
        if n_all <= MAX_FUNCTIONS && are_files_bounded && is_bounded {
            return Ok(self);
        }
        Err(ControlError::Exhausted(format!("more than {MAX_FUNCTIONS} functions of MPI")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_with_too_many_functions_is_refused() {
        let name = |number: usize| (format!("MPI_{number}"), String::new());
        let refused = (0..=MAX_FUNCTIONS).map(name).collect();
        let found = MpiFunctions { refused, ..MpiFunctions::default() };
        assert!(CallAnswer::Functions(found).checked().is_err());
    }
}
