//! The lines that a node sends for a series of samples: the reply with the first one, then events.

use super::exit::Failure;
use super::node_replies::call_result;
use monitor_client::{Event, MonitorRequest, SampleReply};
use monitor_protocol::call::{Call, Tag};
use serde::Deserialize;

/// The line that begins a series.
pub fn begin(request: MonitorRequest) -> String {
    let call = Call::Monitor(Box::new(request)).to_line(Some(&Tag::Number(1)));
    String::from_utf8_lossy(call.trim_ascii_end()).into_owned()
}

/// What a line says.
pub enum SampleLine {
    /// The node does not begin; why.
    Refused(String),
    /// A sample, or the end of the series.
    Event {
        /// It.
        event: Box<Event>,
        /// Whether requested data is missing.
        is_partial: bool,
    },
    /// Something else, which a later version sends, or a reply without its beginning.
    Other,
}

impl SampleLine {
    /// Reads a line by its number since the node began.
    ///
    /// # Errors
    /// The reply is no sample.
    pub fn read(seq: u64, line: &str) -> Result<Self, Failure> {
        #[derive(Deserialize)]
        struct EventLine {
            params: Event,
        }
        if seq == 0 {
            return Ok(match call_result(line) {
                Ok(result) => {
                    let SampleReply { event, partial } = SampleReply::from_result(result.get())?;
                    Self::Event { event: Box::new(event), is_partial: partial }
                }
                Err(why) => Self::Refused(why),
            });
        }
        let read: Result<EventLine, _> = serde_json::from_str(line);
        Ok(read.map_or(Self::Other, |EventLine { params }| {
            let is_partial = params.partial;
            Self::Event { event: Box::new(params), is_partial }
        }))
    }
}
