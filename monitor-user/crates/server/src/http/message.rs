//! Lines of the service as a page needs them, and events as a browser reads them.
//!
//! In: a line. Out: which call it answers, or that it is an event, and the text of what it says;
//! frames of server-sent events. Looks no deeper than that.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A line.
#[derive(Deserialize)]
pub struct Message<'a> {
    /// The tag of the call that it answers; an event has none.
    pub id: Option<u64>,
    /// What a call came to.
    #[serde(borrow)]
    pub result: Option<&'a RawValue>,
    /// What an event tells.
    #[serde(borrow)]
    pub params: Option<&'a RawValue>,
    /// Why a call came to nothing.
    #[serde(borrow)]
    pub error: Option<&'a RawValue>,
}

/// What is of interest of a sample's envelope.
#[derive(Deserialize)]
pub struct Envelope<'a> {
    /// The sample.
    #[serde(borrow)]
    pub sample: Option<&'a RawValue>,
    /// Why it is the last.
    pub ended: Option<&'a str>,
}

impl<'a> Message<'a> {
    /// Of a line; the service writes no others.
    pub fn of(line: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }

    /// The sample in it, and whether none follows.
    pub fn sample(&self) -> Option<(Option<&'a RawValue>, bool)> {
        let text = self.params.or(self.result)?;
        let it: Envelope<'a> = serde_json::from_str(text.get()).ok()?;
        Some((it.sample, it.ended.is_some()))
    }
}

/// A frame. What it says is on one line: JSON without line ends.
pub fn frame(event: &str, says: &str) -> Bytes {
    format!("event: {event}\ndata: {says}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_and_an_event_both_have_a_sample() {
        let line = br#"{"jsonrpc":"2.0","id":1,"result":{"status":"SUCCESS","sample":{"a":1}}}"#;
        let answer = Message::of(line).expect("a line");
        let (sample, over) = answer.sample().expect("an envelope");
        assert_eq!(
            (answer.id, sample.map(RawValue::get), over),
            (Some(1), Some("{\"a\":1}"), false)
        );
        let line = br#"{"jsonrpc":"2.0","method":"event","params":{"seq":2,"ended":"count"}}"#;
        let event = Message::of(line).expect("a line");
        assert!(event.id.is_none() && event.sample().is_some_and(|it| it.1 && it.0.is_none()));
        assert!(Message::of(b"nonsense").is_none());
    }
}
