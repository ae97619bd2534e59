//! Messages that a service has marked, from their arrival to their receipt.
//!
//! In: two calls inside PVM: a message is put into the queue, a message becomes the one that the
//! task unpacks. Out: at the second, the mark. The first has the mark and the number of the buffer,
//! the second the number alone.

use crate::tap::CallRecord;
use monitor_model::Pid;
use std::collections::HashMap;

/// The marked messages that may wait for their receipt; one more is dropped and counted.
const MAX_MESSAGES: usize = 65_536;
/// Members of a message, and the parameter, as the description of PVM calls them.
const SENDER: &str = "message.m_src";
const TAG: &str = "message.m_tag";
const BUFFER: &str = "message.m_mid";
const MARK: &str = "message.m_wid";
const SELECTED: &str = "bufid";

/// Those that have arrived and were not received.
#[derive(Default)]
pub(super) struct TaggedMessages(HashMap<(Pid, i64), TaggedMessage>);

/// What is known of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaggedMessage {
    /// The task that sent it.
    pub sender: i64,
    /// Its tag.
    pub tag: i64,
    /// What it was marked with.
    pub mark: i64,
}

impl TaggedMessages {
    /// Takes in an arrival; whether it was lost.
    pub(super) fn arrived(&mut self, it: &CallRecord) -> bool {
        let number = |name: &str| number(it, name);
        let Some(buffer) = number(BUFFER) else { return false };
        let key = (it.pid, buffer);
        // A number is given again when the message before was freed.
        let _before = self.0.remove(&key);
        let mark = number(MARK).filter(|mark| *mark != 0);
        let (Some(mark), Some(sender), Some(tag)) = (mark, number(SENDER), number(TAG)) else {
            return false;
        };
        if self.0.len() >= MAX_MESSAGES {
            return true;
        }
        let _none = self.0.insert(key, TaggedMessage { sender, tag, mark });
        false
    }

    /// The marked message that is received with this call, if it is one.
    pub(super) fn received(&mut self, it: &CallRecord) -> Option<TaggedMessage> {
        self.0.remove(&(it.pid, number(it, SELECTED)?))
    }
}

fn number(it: &CallRecord, name: &str) -> Option<i64> {
    let place = it.plan.values.iter().position(|traced| traced.name == name)?;
    let raw = it.values.get(place)?.raw?;
    // All of them are an `int`.
    Some(i64::from(raw as u32 as i32))
}
