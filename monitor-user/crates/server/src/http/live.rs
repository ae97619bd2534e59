//! What one viewer alone looks at: a process, or how long things take.
//!
//! In: the query of an address. Out: events, one for each sample of a monitor of its own, which
//! ends with the connection. What may be asked is fixed here: an address starts nothing else.

use super::guest::Guest;
use super::message::{Message, frame};
use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Once a second, as the table.
const EVERY_NS: u64 = 1_000_000_000;

/// The request for one process: all that is known of it.
pub fn process(query: &str) -> Result<Value, String> {
    let pid = number(query, "pid")?;
    Ok(json!({"part": "proc", "targets": [{"pid": pid}], "every_ns": EVERY_NS}))
}

/// The request for latencies: of `block` or `run-queue`, of everybody or one process.
pub fn latency(query: &str) -> Result<Value, String> {
    let of = value(query, "of").filter(|it| ["block", "run-queue"].contains(it));
    let of = of.ok_or("of=block or of=run-queue: which latencies")?;
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

/// Runs a monitor for a viewer.
pub fn run(guest: Guest, request: Value) -> mpsc::Receiver<Bytes> {
    let (viewer, receiver) = mpsc::channel(2);
    drop(tokio::spawn(async move {
        guest.call(0, "monitor", &request).await;
        while let Some(lines) = guest.hear().await {
            for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let Some((event, over)) = event(line) else { continue };
                if viewer.send(event).await.is_err() || over {
                    return;
                }
            }
        }
    }));
    receiver
}

/// A line as an event, and whether it is the last.
fn event(line: &[u8]) -> Option<(Bytes, bool)> {
    let message = Message::of(line)?;
    if let Some(error) = message.error {
        return Some((frame("refused", error.get()), true));
    }
    let (sample, over) = message.sample()?;
    let says = sample.map_or("null", RawValue::get);
    Some((frame(if over { "last" } else { "sample" }, says), over))
}

/// What a query says of a name.
pub fn value<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = query.split('&').filter_map(|it| it.split_once('='));
    pairs.find(|it| it.0 == name).map(|it| it.1)
}

/// The number of a process that it says.
pub fn number(query: &str, name: &str) -> Result<u32, String> {
    let value = value(query, name).unwrap_or_default();
    value.parse().map_err(|_| format!("{name}={value:?}: the number of a process"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_asks_for_a_process_or_for_latencies_and_nothing_else() {
        assert_eq!(process("a=1&pid=7").map(|it| it["targets"][0]["pid"].clone()), Ok(json!(7)));
        assert_eq!(process("pid=-1"), Err("pid=\"-1\": the number of a process".into()));
        assert!(process("").is_err());
        assert_eq!(latency("of=block").map(|it| it["capabilities"][0].clone()), Ok(json!("block")));
        assert!(latency("of=signals").is_err() && latency("of=block&pid=x").is_err());
    }
}
