//! The roll-up of the cluster for one viewer of a gateway's page, once a second.
//!
//! In: the query of a URL, which may name a job. Out: events with the answers of the call `rollup`.
//! Nodes publish while it is called, so it ends with the connection of the viewer.

use super::loopback::LoopbackClient;
use super::message::{Message, frame, lines, value};
use bytes::Bytes;
use monitor_protocol::rollup::{MAX_NAME, RollupQuery};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json, value::RawValue};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

/// Time between two answers.
const PERIOD: Duration = Duration::from_secs(1);

/// The parameters of the call: those of a job, if the URL names one.
pub fn parameters(query: &str) -> Result<Value, String> {
    let job = value(query, "job").map(|it| percent_decode_str(it).decode_utf8_lossy());
    if job.as_ref().is_some_and(|job| job.len() > MAX_NAME) {
        return Err(format!("job: expected at most {MAX_NAME} bytes"));
    }
    Ok(json!(RollupQuery { job: job.map(Into::into) }))
}

/// Calls for a viewer, and returns its events.
pub fn run(client: LoopbackClient, parameters: Value) -> mpsc::Receiver<Bytes> {
    let (viewer, receiver) = mpsc::channel(2);
    drop(tokio::spawn(async move {
        let mut ticks = interval(PERIOD);
        // A viewer that is slow gets fewer.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = viewer.closed() => return,
            }
            client.call(0, "rollup", &parameters).await;
            let Some(event) = answer(&client).await else { return };
            if viewer.send(event).await.is_err() {
                return;
            }
        }
    }));
    receiver
}

/// The answer to the call, as an event; `None` when the daemon stops.
async fn answer(client: &LoopbackClient) -> Option<Bytes> {
    loop {
        let chunk = client.next_lines().await?;
        if let Some(event) = lines(&chunk).find_map(event_from_line) {
            return Some(event);
        }
    }
}

fn event_from_line(line: &[u8]) -> Option<Bytes> {
    let message = Message::from_line(line)?;
    match (message.error, message.result) {
        (Some(error), _) => Some(frame("refused", error.get())),
        (None, result) => result.map(|it| frame("rollup", RawValue::get(it))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_job_or_none() {
        assert_eq!(parameters(""), Ok(json!({})));
        assert_eq!(parameters("job=mpi%3Aa%26b%40%221"), Ok(json!({"job": "mpi:a&b@\"1"})));
        let long = format!("job={}", "a".repeat(MAX_NAME + 1));
        assert_eq!(parameters(&long), Err("job: expected at most 96 bytes".to_owned()));
    }

    #[test]
    fn an_answer_is_an_event_and_an_error_too() {
        let event = event_from_line(br#"{"id":0,"result":{"nodes":[]}}"#).expect("an answer");
        assert_eq!(event, "event: rollup\ndata: {\"nodes\":[]}\n\n");
        let event = event_from_line(br#"{"id":0,"error":{"message":"no"}}"#).expect("an error");
        assert_eq!(event, "event: refused\ndata: {\"message\":\"no\"}\n\n");
        assert_eq!(event_from_line(br#"{"method":"event","params":{}}"#), None);
    }
}
