//! Monitors of a single viewer: the details of a process, or latencies.
//!
//! In: the query of a URL. Out: events, one for each sample of a monitor that ends with the
//! connection. The possible requests are fixed here: a URL starts nothing else.

use super::loopback::LoopbackClient;
use super::message::{Message, frame, lines, number, value};
use bytes::Bytes;
use serde_json::{Value, json, value::RawValue};
use tokio::sync::mpsc;

/// The period of the monitors, as that of the table.
const EVERY_NS: u64 = 1_000_000_000;

/// The monitor request for all fields of one process.
pub fn process(query: &str) -> Result<Value, String> {
    let pid = number(query, "pid")?;
    Ok(json!({"part": "proc", "targets": [{"pid": pid}], "every_ns": EVERY_NS}))
}

/// The monitor request for latencies: of `block` or `run-queue`, of all processes or one.
pub fn latency(query: &str) -> Result<Value, String> {
    let of = value(query, "of").filter(|it| ["block", "run-queue"].contains(it));
    let of = of.ok_or("expected of=block or of=run-queue")?;
    let mut request = json!({
        "part": "proc",
        "fields": ["pid"],
        "top": 1,
        "capabilities": [of],
        "histograms": true,
        "every_ns": EVERY_NS,
    });
    if value(query, "pid").is_some() {
        request["targets"] = json!([{"pid": number(query, "pid")?}]);
    }
    Ok(request)
}

/// Runs a monitor for a viewer, and returns its events.
pub fn run(client: LoopbackClient, request: Value) -> mpsc::Receiver<Bytes> {
    let (viewer, receiver) = mpsc::channel(2);
    drop(tokio::spawn(async move {
        client.call(0, "monitor", &request).await;
        while let Some(chunk) = client.next_lines().await {
            for line in lines(&chunk) {
                let Some((event, is_last)) = event_from_line(line) else { continue };
                if viewer.send(event).await.is_err() || is_last {
                    return;
                }
            }
        }
    }));
    receiver
}

/// The event of a line, and whether it is the last.
fn event_from_line(line: &[u8]) -> Option<(Bytes, bool)> {
    let message = Message::from_line(line)?;
    if let Some(error) = message.error {
        return Some((frame("refused", error.get()), true));
    }
    let (sample, is_last) = message.sample()?;
    let data = sample.map_or("null", RawValue::get);
    Some((frame(if is_last { "last" } else { "sample" }, data), is_last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_requests_a_process_or_latencies_and_nothing_else() {
        assert_eq!(process("a=1&pid=7").map(|it| it["targets"][0]["pid"].clone()), Ok(json!(7)));
        assert_eq!(process("pid=-1"), Err("pid=\"-1\": expected a pid".into()));
        assert!(process("").is_err());
        assert_eq!(latency("of=block").map(|it| it["capabilities"][0].clone()), Ok(json!("block")));
        assert!(latency("of=signals").is_err() && latency("of=block&pid=x").is_err());
    }
}
