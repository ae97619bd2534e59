//! Questions to the server, one after the other; what cannot be answered is not reported.

use super::failure::{Failed, TIMEOUT};
use super::outlet::EventOutlet;
use super::server::{Leases, Server};
use monitor_cluster::bus::BusEvent;
use monitor_model::Ns;
use tokio::sync::mpsc;

/// A question.
pub enum Question {
    OwnRecord { asked: Ns },
    Lease { name: String, asked: Ns, duration: Ns },
    Release { name: String },
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
    while let Some(question) = questions.recv().await {
        let answer = async {
            match question {
                Question::OwnRecord { asked } => {
                    let record = server.own_record(&node, asked).await?;
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
