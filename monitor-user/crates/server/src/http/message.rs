//! What the page sends and gets: queries of URLs, lines of the daemon, and frames of server-sent
//! events.
//!
//! In: a line. Out: the call that it answers, or that it is an event, and its content as JSON text;
//! frames. Does not parse the content.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// An answer or an event.
#[derive(Deserialize)]
pub struct Message<'a> {
    /// The tag of the answered call; absent for an event.
    pub id: Option<u64>,
    /// The result of a call.
    #[serde(borrow)]
    pub result: Option<&'a RawValue>,
    /// The content of an event.
    #[serde(borrow)]
    pub params: Option<&'a RawValue>,
    /// The error of a call.
    #[serde(borrow)]
    pub error: Option<&'a RawValue>,
}

/// The part of an event that concerns its sample.
#[derive(Deserialize)]
pub struct Envelope<'a> {
    /// The sample.
    #[serde(borrow)]
    pub sample: Option<&'a RawValue>,
    /// Why the event is the last; absent if it is not.
    pub ended: Option<&'a str>,
}

impl<'a> Message<'a> {
    /// Parses a line.
    pub fn from_line(line: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }

    /// The sample in it, and whether it is the last.
    pub fn sample(&self) -> Option<(Option<&'a RawValue>, bool)> {
        let text = self.params.or(self.result)?;
        let it: Envelope<'a> = serde_json::from_str(text.get()).ok()?;
        Some((it.sample, it.ended.is_some()))
    }
}

/// The lines of a chunk that was sent at once.
pub fn lines(chunk: &[u8]) -> impl Iterator<Item = &[u8]> {
    chunk.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// A frame of a server-sent event; `data` is JSON without line breaks.
pub fn frame(event: &str, data: &str) -> Bytes {
    format!("event: {event}\ndata: {data}\n\n").into()
}

/// The value of a name in a query.
pub fn value<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = query.split('&').filter_map(|it| it.split_once('='));
    pairs.find(|it| it.0 == name).map(|it| it.1)
}

/// A pid in a query.
pub fn number(query: &str, name: &str) -> Result<u32, String> {
    let value = value(query, name).unwrap_or_default();
    value.parse().map_err(|_| format!("{name}={value:?}: expected a pid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_and_an_event_both_have_a_sample() {
        let line = br#"{"jsonrpc":"2.0","id":1,"result":{"status":"SUCCESS","sample":{"a":1}}}"#;
        let answer = Message::from_line(line).expect("a line");
        let (sample, over) = answer.sample().expect("an envelope");
        assert_eq!(
            (answer.id, sample.map(RawValue::get), over),
            (Some(1), Some("{\"a\":1}"), false)
        );
        let line = br#"{"jsonrpc":"2.0","method":"event","params":{"seq":2,"ended":"count"}}"#;
        let event = Message::from_line(line).expect("a line");
        assert!(event.id.is_none() && event.sample().is_some_and(|it| it.1 && it.0.is_none()));
        assert!(Message::from_line(b"nonsense").is_none());
    }
}
