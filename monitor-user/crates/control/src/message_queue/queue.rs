//! A message queue as it is reported, and how its memory is read while its process runs.

use crate::StoppedBatch;
use monitor_symbols::{error::SymbolError, memory::ProcessMemory};
use serde::{Deserialize, Serialize};

/// A result of reading or changing the memory of a process.
pub type Result<T> = std::result::Result<T, SymbolError>;

/// Messages of a queue that are listed at most.
pub const MAX_MESSAGES: usize = 65_536;
/// Most bytes of the contents of one message.
pub const MAX_CONTENT_BYTES: u64 = 1 << 20;
/// Most bytes of the contents of all messages together: links can lead to the same bytes again.
const MAX_ALL_BYTES: usize = 4 << 20;

/// A message.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuedMessage {
    /// The sender, as the library numbers it: a task of PVM, a rank; none where it is unknown.
    pub sender: Option<i64>,
    /// Its tag; of System V its type.
    pub tag: i64,
    /// How long it is.
    pub bytes: u64,
    /// The content, if it was requested.
    pub content: Vec<u8>,
    /// What a monitor has marked it with.
    pub mark: Option<i32>,
}

/// What is to be done with a queue.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Hash)]
pub enum QueueQuery {
    /// What has arrived and was not received.
    Read(QueueDetail),
    /// Where the message is that is about to be sent, and how long it is so far.
    SendBuffer,
    /// Put a message at a position, or at the end.
    Insert(Option<usize>, Vec<u8>),
    /// Take the message at a position out.
    Remove(usize),
    /// Mark the message that is about to be sent, which is at this address or wherever it is.
    Mark(u64, i32),
}

/// What was found, or done.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub enum QueueAnswer {
    /// What is in the queue.
    Content(QueueContent),
    /// Address and length of the message that is about to be sent.
    SendBuffer(u64, u64),
    /// The system has changed it.
    Done,
    /// It is changed by this batch, in the process itself.
    InProcess(StoppedBatch),
}

/// A queue.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub enum QueueContent {
    /// In order of arrival.
    Messages(Vec<QueuedMessage>),
    /// Only how many there are: to read one is to take it.
    Length(u64),
}

/// What of a queue is wanted.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueDetail {
    /// Senders, tags and lengths.
    Headers,
    /// What is in it, too.
    Contents,
}

/// Reads a list that its process may change meanwhile, until two readings agree.
pub fn read_stable<T: PartialEq>(mut read: impl FnMut() -> Result<T>) -> Result<T> {
    /// Readings before it is given up.
    const ATTEMPTS: usize = 16;
    let mut before = read();
    for _ in 0..ATTEMPTS {
        let now = read();
        if let (Ok(before), Ok(now)) = (&before, &now)
            && before == now
        {
            break;
        }
        match (&before, &now) {
            (Err(SymbolError::Gone { .. }), _) | (_, Err(SymbolError::Gone { .. })) => return now,
            _ => before = now,
        }
    }
    let last = read()?;
    if before.is_ok_and(|before| before == last) { Ok(last) } else { Err(SymbolError::Changing) }
}

/// Walks a ring of links from its head, each link once.
pub fn walk_ring(
    memory: &ProcessMemory,
    head: u64,
    link: u64,
    mut visit: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    let mut at = memory.word(head + link)?;
    for _ in 0..MAX_MESSAGES {
        if at == head {
            return Ok(());
        }
        visit(at)?;
        at = memory.word(at.wrapping_add(link))?;
    }
    Err(SymbolError::Changing)
}

/// Appends a message, unless the contents of all become too long.
pub fn add(
    message: QueuedMessage,
    found: &mut Vec<QueuedMessage>,
    total: &mut usize,
) -> Result<()> {
    *total += message.content.len();
    if *total > MAX_ALL_BYTES {
        return Err(unavailable(
            "room for the contents of these messages",
            "they have more than 4 MiB together; ask without the flag of contents",
        ));
    }
    found.push(message);
    Ok(())
}

/// The error that this process has no such thing, or that it cannot be had.
pub const fn unavailable(what: &'static str, why: &'static str) -> SymbolError {
    SymbolError::Unavailable { what, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_share_a_long_content_are_refused() {
        let content = vec![0; 1 << 20];
        let message = QueuedMessage { content, ..QueuedMessage::default() };
        let (mut found, mut total) = (Vec::new(), 0);
        for _ in 0..4 {
            add(message.clone(), &mut found, &mut total).expect("4 MiB are allowed");
        }
        let refused = add(message, &mut found, &mut total).expect_err("it is more than 4 MiB");
        assert!(refused.to_string().contains("more than 4 MiB together"), "{refused}");
        assert_eq!(found.len(), 4);
    }
}
