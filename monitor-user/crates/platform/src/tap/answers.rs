//! Questions about functions in the files of processes. The daemon reads no file that a user names:
//! user workers answer, sooner or later.
//!
//! In: questions and answers. Out: what is known. An answer is used as long as the process has the
//! same files mapped; a failure is used for two seconds.

use monitor_model::Pid;
use monitor_proc::maps::mappings;
use monitor_symbols::SymbolError;
use monitor_symbols::calls::{CallQuery, FoundCalls};
use monitor_symbols::report::Report;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{sync::Arc, task::Poll};

/// Most answers that are kept or awaited.
const MAX_ANSWERS: usize = 16_384;
/// How long a failure is an answer.
const FAILURE_TIME: Duration = Duration::from_secs(2);

/// A question: a process, and what is to be found in it.
pub type CallQuestion = (Pid, CallQuery);
/// Its answer.
pub type CallAnswer = Result<Arc<FoundCalls>, SymbolError>;

/// All questions and answers.
pub struct CallAnswers {
    proc: PathBuf,
    known: HashMap<CallQuestion, KnownAnswer>,
    unsent: Vec<CallQuestion>,
}

struct KnownAnswer {
    /// What the process had mapped when the question was asked.
    mapped: u64,
    /// Whether it has mapped something since: the question is asked again.
    is_outdated: bool,
    /// Whether it was not used yet: then it is, in any case.
    is_new: bool,
    /// None while it is awaited.
    found: Option<Result<Arc<FoundCalls>, (Report, Instant)>>,
}

impl CallAnswers {
    /// None so far.
    pub fn new(proc: &Path) -> Self {
        Self { proc: proc.to_owned(), known: HashMap::new(), unsent: Vec::new() }
    }

    /// The answer; a question without one is asked.
    pub fn find(&mut self, question: &CallQuestion) -> Poll<CallAnswer> {
        let Some(answer) = self.known.get(question) else { return self.ask(question) };
        let found = match &answer.found {
            None => return Poll::Pending,
            Some(Ok(found)) => Ok(Arc::clone(found)),
            Some(Err((_, at))) if at.elapsed() >= FAILURE_TIME => return self.ask(question),
            Some(Err((report, _))) => Err(SymbolError::Reported(report.clone())),
        };
        if !answer.is_new && answer.mapped != self.mapped(question.0) {
            return self.ask(question);
        }
        if let Some(answer) = self.known.get_mut(question) {
            answer.is_new = false;
        }
        Poll::Ready(found)
    }

    fn ask(&mut self, question: &CallQuestion) -> Poll<CallAnswer> {
        if self.known.len() >= MAX_ANSWERS {
            self.known.retain(|_, answer| answer.found.is_none());
        }
        if self.known.len() >= MAX_ANSWERS {
            let what = "search for functions";
            let why = "16,384 are running; retry when fewer processes are watched";
            return Poll::Ready(Err(SymbolError::Unavailable { what, why }));
        }
        let mapped = self.mapped(question.0);
        let answer = KnownAnswer { mapped, is_outdated: false, is_new: true, found: None };
        let _none = self.known.insert(question.clone(), answer);
        self.unsent.push(question.clone());
        Poll::Pending
    }

    /// Whether there are questions to be sent.
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// The questions to be sent.
    pub fn take_unsent(&mut self) -> Vec<CallQuestion> {
        std::mem::take(&mut self.unsent)
    }

    /// Stores an answer, if it is awaited.
    pub fn answered(&mut self, question: &CallQuestion, found: CallAnswer) {
        let mapped = self.mapped(question.0);
        let Some(answer) = self.known.get_mut(question) else { return };
        if std::mem::take(&mut answer.is_outdated) {
            answer.mapped = mapped;
            self.unsent.push(question.clone());
        } else {
            answer.found = Some(found.map_err(|error| (Report::from(&error), Instant::now())));
        }
    }

    /// A process may have mapped other files: what was found before is used only if it has not.
    pub fn maps_changed(&mut self, pid: Pid) {
        for (_, answer) in self.known.iter_mut().filter(|((own, _), _)| *own == pid) {
            match answer.found {
                None => answer.is_outdated = true,
                Some(_) => answer.is_new = false,
            }
        }
    }

    /// Whether an answer about a process is awaited.
    pub fn is_asked(&self, pid: Pid) -> bool {
        self.known.iter().any(|((own, _), answer)| *own == pid && answer.found.is_none())
    }

    /// Files of code that a process has mapped, as a number that changes with them.
    fn mapped(&self, pid: Pid) -> u64 {
        let mut hasher = DefaultHasher::new();
        let all = mappings(&self.proc, pid).unwrap_or_default();
        for it in all.iter().filter(|it| it.is_executable && it.inode != 0) {
            (it.start, it.end, it.inode).hash(&mut hasher);
        }
        hasher.finish()
    }
}
