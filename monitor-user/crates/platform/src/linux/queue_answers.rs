//! Questions about the message queues of processes, which readers answer.
//!
//! In: questions and answers. Out: each answer once: a queue changes, and a question may change it.
//! An answer that nothing has taken by the next reading is dropped.

use crate::status_map::symbol_refusal;
use monitor_control::{QueueAnswer, QueueQuery};
use monitor_event::outcome::Refusal;
use monitor_model::Identity;
use monitor_symbols::SymbolError;
use std::{collections::HashMap, task::Poll};

/// A process, and what is to be done with its queue.
pub type QueueQuestion = (Identity, QueueQuery);

/// All questions and answers.
#[derive(Default)]
pub struct QueueAnswers {
    /// None while the answer is awaited.
    known: HashMap<QueueQuestion, Option<Result<QueueAnswer, Refusal>>>,
    unsent: Vec<QueueQuestion>,
}

impl QueueAnswers {
    /// The answer; a question without one is asked.
    pub fn find(&mut self, question: &QueueQuestion) -> Poll<Result<QueueAnswer, Refusal>> {
        match self.known.remove(question) {
            Some(Some(answer)) => return Poll::Ready(answer),
            Some(None) => {}
            None => self.unsent.push(question.clone()),
        }
        let _awaited = self.known.insert(question.clone(), None);
        Poll::Pending
    }

    /// Whether there are questions to be sent.
    pub const fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// The questions to be sent.
    pub fn take_unsent(&mut self) -> Vec<QueueQuestion> {
        std::mem::take(&mut self.unsent)
    }

    /// Stores an answer.
    pub fn answered(&mut self, question: QueueQuestion, found: Result<QueueAnswer, SymbolError>) {
        let found = found.map_err(|error| symbol_refusal(&error));
        let _awaited = self.known.insert(question, Some(found));
    }

    /// Drops the answers that nothing has taken.
    pub fn drop_untaken(&mut self) {
        self.known.retain(|_, answer| answer.is_none());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_control::QueueDetail;

    #[test]
    fn an_answer_is_used_once_and_not_kept() {
        let mut queues = QueueAnswers::default();
        let question = (Identity::default(), QueueQuery::Read(QueueDetail::Headers));
        assert!(queues.find(&question).is_pending() && queues.find(&question).is_pending());
        assert_eq!(queues.take_unsent(), std::slice::from_ref(&question));
        queues.answered(question.clone(), Ok(QueueAnswer::Done));
        assert_eq!(queues.find(&question), Poll::Ready(Ok(QueueAnswer::Done)));
        assert!(queues.find(&question).is_pending() && queues.has_unsent());
        queues.answered(question.clone(), Ok(QueueAnswer::Done));
        queues.drop_untaken();
        assert!(queues.find(&question).is_pending());
    }
}
