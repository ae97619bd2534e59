//! A message queue as it is reported, and how its memory is read while its process runs.

use monitor_control::StoppedBatch;
use monitor_symbols::error::SymbolError;
use monitor_symbols::memory::ProcessMemory;

/// Most messages of a queue that are told.
pub const MAX_MESSAGES: usize = 65_536;
/// Most bytes of the contents of one message.
pub const MAX_CONTENT_BYTES: u64 = 1 << 20;

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuedMessage {
    /// Who sent it, as the library numbers them: a task of PVM, a rank; none where nobody knows.
    pub sender: Option<i64>,
    /// Its tag; of System V its type.
    pub tag: i64,
    /// How long it is.
    pub bytes: u64,
    /// What is in it, if that was asked for.
    pub content: Vec<u8>,
    /// What a monitor has marked it with.
    pub mark: Option<i32>,
}

/// How a queue is changed.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueChange {
    /// The system did it.
    Done,
    /// By this, in the process itself.
    InProcess(StoppedBatch),
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueContent {
    /// In order of arrival.
    Messages(Vec<QueuedMessage>),
    /// Only how many there are: to read one is to take it.
    Length(u64),
}

/// What of a queue is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueDetail {
    /// Who sent what, and how long it is.
    Headers,
    /// What is in it, too.
    Contents,
}

/// Reads a list that its owner may change meanwhile, until two readings agree.
pub fn read_stable<T: PartialEq>(
    mut read: impl FnMut() -> Result<T, SymbolError>,
) -> Result<T, SymbolError> {
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
    mut visit: impl FnMut(u64) -> Result<(), SymbolError>,
) -> Result<(), SymbolError> {
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
