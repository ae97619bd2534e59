//! Questions to the server, one after the other; what cannot be answered is not reported. Of
//! several questions about the own record the last one is asked: a server that is slow is not asked
//! more often than it answers.

use super::failure::{Failed, TIMEOUT};
use super::leases::Leases;
use super::outlet::EventOutlet;
use super::server::Server;
use monitor_cluster::bus::BusEvent;
use monitor_model::Ns;
use std::collections::VecDeque;
use tokio::sync::mpsc;

/// Time between two questions for the positions that the server keeps, which is the one that costs
/// it most.
const KEPT_PERIOD: Ns = Ns(20_000_000_000);

/// A question.
pub enum Question {
    OwnRecord { asked: Ns },
    Lease { name: String, asked: Ns, duration: Ns },
    Release { name: String },
}

/// Questions that were not asked yet.
#[derive(Default)]
struct WaitingQuestions {
    /// About the own record.
    asked: Option<Ns>,
    others: VecDeque<Question>,
}

impl WaitingQuestions {
    /// The next one; `None` when the bus is gone.
    async fn next(&mut self, questions: &mut mpsc::Receiver<Question>) -> Option<Question> {
        if self.asked.is_none() && self.others.is_empty() {
            self.add(questions.recv().await?);
        }
        while let Ok(question) = questions.try_recv() {
            self.add(question);
        }
        let own_record = self.asked.map(|asked| Question::OwnRecord { asked });
        self.others.pop_front().or_else(|| {
            self.asked = None;
            own_record
        })
    }

    fn add(&mut self, question: Question) {
        match question {
            Question::OwnRecord { asked } => self.asked = Some(asked),
            other => self.others.push_back(other),
        }
    }
}

/// Answers questions until the bus is gone.
pub async fn answer_all(
    server: Server,
    node: String,
    mut questions: mpsc::Receiver<Question>,
    outlet: EventOutlet,
) {
    let holder = server.jetstream.client().new_inbox();
    let mut leases = Leases::default();
    let mut kept_asked: Option<Ns> = None;
    let mut waiting = WaitingQuestions::default();
    while let Some(question) = waiting.next(&mut questions).await {
        let answer = async {
            match question {
                Question::OwnRecord { asked } => {
                    let wants_kept = kept_asked.is_none_or(|at| asked.since(at) >= KEPT_PERIOD);
                    let record = server.own_record(&node, (asked, wants_kept)).await?;
                    kept_asked = record.kept.map(|_| asked).or(kept_asked);
                    Ok(Some(BusEvent::OwnRecord(record)))
                }
                Question::Lease { name, asked, duration } => {
                    let times = (asked, duration);
                    let grant = leases.request(&server, (&name, &holder), times).await?;
                    Ok(Some(BusEvent::Lease { name, grant }))
                }
                Question::Release { name } => {
                    leases.release(&server, &name).await?;
                    Ok::<_, Failed>(None)
                }
            }
        };
        match tokio::time::timeout(4 * TIMEOUT, answer).await {
            Ok(Ok(event)) => {
                if let Some(event) = event {
                    outlet.put(event).await;
                }
            }
            Ok(Err(error)) => tracing::info!("bus: {error}"),
            Err(_) => tracing::info!("bus: no answer of the server"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_questions_about_the_own_record_the_last_one_is_asked() {
        let (sender, mut questions) = mpsc::channel(8);
        let release = || Question::Release { name: "x".to_owned() };
        let own = |asked| Question::OwnRecord { asked: Ns(asked) };
        for question in [own(1), release(), own(2), own(3)] {
            assert!(sender.send(question).await.is_ok());
        }
        drop(sender);
        let mut waiting = WaitingQuestions::default();
        let first = waiting.next(&mut questions).await;
        assert!(matches!(first, Some(Question::Release { .. })));
        let second = waiting.next(&mut questions).await;
        assert!(matches!(second, Some(Question::OwnRecord { asked: Ns(3) })));
        assert!(waiting.next(&mut questions).await.is_none());
    }
}
