//! The lines that a node sends for a series of samples: the reply with the first one, then events.

use super::exit::Failure;
use super::node_replies::call_result;
use monitor_client::{Event, MonitorRequest, SampleReply};
use monitor_protocol::call::Call;
use serde::Deserialize;

/// The line that begins a series.
pub fn begin(request: MonitorRequest) -> String {
    Call::Monitor(Box::new(request)).to_text()
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
        if seq == 0 {
            return Ok(match call_result(line) {
                Ok(result) => {
                    let SampleReply { event, partial, .. } =
                        SampleReply::from_result(result.get())?;
                    Self::Event { event: Box::new(event), is_partial: partial }
                }
                Err(why) => Self::Refused(why),
            });
        }
        Ok(event(line).map_or(Self::Other, |event| {
            let is_partial = event.partial;
            Self::Event { event: Box::new(event), is_partial }
        }))
    }
}

/// The event of a line that is no reply; `None` for what a later version sends beside events.
pub fn event(line: &str) -> Option<Event> {
    #[derive(Deserialize)]
    struct EventLine {
        params: Event,
    }
    serde_json::from_str(line).ok().map(|EventLine { params }| params)
}
