//! Queues of System V (svipc(7)): the kernel lets them be read without taking anything.
//!
//! In: a process. Out: the messages of the queue from which it received last. They are named by
//! numbers that are the same for all in a namespace, so the process must be in ours.

use super::queue::{
    MAX_CONTENT_BYTES, MAX_MESSAGES, QueueDetail, QueuedMessage, Result, add, unavailable,
};
use monitor_model::Pid;
use monitor_symbols::error::SymbolError;
use monitor_sys::ipc;
use std::{os::unix::fs::MetadataExt as _, path::Path};

/// The type of a message that is put in: nothing says another one.
const TYPE: i64 = 1;

/// Numbers of the queues that a process was the last to read.
pub fn last_read_queues(proc: &Path, pid: Pid) -> Result<Vec<i32>> {
    // A kernel may have been built without them.
    let text = std::fs::read_to_string(proc.join("sysvipc/msg")).unwrap_or_default();
    let queues: Vec<i32> = text.lines().filter_map(|line| queue_read_by(line, pid)).collect();
    if queues.is_empty() || is_in_our_namespace(proc, pid)? { Ok(queues) } else { Ok(Vec::new()) }
}

/// The messages of the queue that a process reads.
pub fn messages(proc: &Path, pid: Pid, depth: QueueDetail) -> Result<Vec<QueuedMessage>> {
    let queue = single_queue(proc, pid)?;
    let room = if depth == QueueDetail::Contents { MAX_CONTENT_BYTES } else { 0 };
    let room = usize::try_from(room).unwrap_or(0);
    let (mut found, mut total) = (Vec::new(), 0);
    for position in 0..MAX_MESSAGES {
        let copy = ipc::copy_message(queue, position, room);
        let copy = copy.map_err(|source| refused("msgrcv", queue, source))?;
        let Some((tag, mut content)) = copy else { break };
        // A copy into less room is cut, and does not say how long the message is: sizes take a
        // copy of the whole.
        let bytes = content.len() as u64;
        if depth == QueueDetail::Headers {
            content.clear();
        }
        let message = QueuedMessage { sender: None, tag, bytes, content, mark: None };
        add(message, &mut found, &mut total)?;
    }
    Ok(found)
}

/// Puts a message at the end of the queue.
pub fn put(proc: &Path, pid: Pid, content: &[u8]) -> Result<()> {
    let queue = single_queue(proc, pid)?;
    ipc::send_message(queue, TYPE, content).map_err(|source| refused("msgsnd", queue, source))
}

/// Takes the message at a position out of the queue, if it is the first of its type: the kernel
/// gives out no other.
pub fn take(proc: &Path, pid: Pid, position: usize) -> Result<()> {
    let queue = single_queue(proc, pid)?;
    let all = messages(proc, pid, QueueDetail::Headers)?;
    let Some(wanted) = all.get(position) else {
        return Err(SymbolError::NoPosition { position, length: all.len() });
    };
    if all[..position].iter().any(|it| it.tag == wanted.tag) {
        return Err(unavailable(
            "way to take this message alone",
            "the kernel gives out the first of each type only; take those before it first",
        ));
    }
    ipc::take_message(queue, wanted.tag).map_err(|source| refused("msgrcv", queue, source))
}

fn single_queue(proc: &Path, pid: Pid) -> Result<i32> {
    match last_read_queues(proc, pid)?[..] {
        [queue] => Ok(queue),
        [] => Err(unavailable(
            "queue of System V",
            "the process was not the last to read any, or is in another namespace",
        )),
        [..] => Err(unavailable(
            "single queue of System V",
            "the process was the last to read several, and no service says which is meant",
        )),
    }
}

/// The queue of a line of `/proc/sysvipc/msg`, if this process read it last.
fn queue_read_by(line: &str, pid: Pid) -> Option<i32> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let last_reader: u32 = words.get(6)?.parse().ok()?;
    (last_reader == pid.0).then(|| words.get(1)?.parse().ok())?
}

fn is_in_our_namespace(proc: &Path, pid: Pid) -> Result<bool> {
    let space = |process: String| {
        let path = proc.join(process).join("ns/ipc");
        let facts = std::fs::metadata(&path);
        facts.map(|it| it.ino()).map_err(|source| SymbolError::File { call: "stat", path, source })
    };
    Ok(space(pid.0.to_string())? == space("self".to_owned())?)
}

fn refused(call: &'static str, queue: i32, source: std::io::Error) -> SymbolError {
    SymbolError::File { call, path: format!("message queue {queue}").into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_belongs_to_its_last_reader() {
        let line = "         0          3   600          14          2   77   88     0     0     \
                    0     0 1763660000 1763660001 1763659999";
        assert_eq!(queue_read_by(line, Pid(88)), Some(3));
        assert_eq!(queue_read_by(line, Pid(77)), None);
        let head = "       key      msqid perms      cbytes       qnum lspid lrpid   uid";
        assert_eq!(queue_read_by(head, Pid(88)), None);
    }
}
