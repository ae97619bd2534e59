//! The standard input of this command, for the programs of all nodes.
//!
//! In: bytes of standard input. Out: each part to each node. The next part is read when all nodes
//! have room for it, so that memory stays bounded; the slowest program decides how fast that is.

use bytes::Bytes;
use std::io::Read;
use tokio::sync::mpsc;

/// Most bytes of a part, and parts that wait for a node.
const PART_BYTES: usize = 32 << 10;
const PARTS: usize = 2;

/// Where standard input goes, one for each node.
#[derive(Debug, Default)]
pub struct InputSenders(Vec<mpsc::Sender<Bytes>>);

impl InputSenders {
    /// That of another node.
    pub fn add(&mut self) -> mpsc::Receiver<Bytes> {
        let (sender, receiver) = mpsc::channel(PARTS);
        self.0.push(sender);
        receiver
    }

    /// Reads standard input to its end on a thread, which ends with this process.
    pub fn start(self) {
        let _reads = std::thread::spawn(move || self.send_all(&mut std::io::stdin().lock()));
    }

    fn send_all(mut self, input: &mut impl Read) {
        let mut bytes = vec![0; PART_BYTES];
        while !self.0.is_empty() {
            match input.read(&mut bytes) {
                // What cannot be read is at its end for the programs.
                Ok(0) | Err(_) => return,
                Ok(n) => {
                    let part = Bytes::copy_from_slice(&bytes[..n]);
                    // A program that has ended reads no longer.
                    self.0.retain(|it| it.blocking_send(part.clone()).is_ok());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_all_of_it_and_one_that_has_ended_holds_up_none() {
        let mut senders = InputSenders::default();
        let (mut first, gone) = (senders.add(), senders.add());
        drop(gone);
        let text = vec![b'x'; PART_BYTES * 5];
        let thread = std::thread::spawn({
            let text = text.clone();
            move || senders.send_all(&mut &text[..])
        });
        let mut got = Vec::new();
        while let Some(part) = first.blocking_recv() {
            got.extend_from_slice(&part);
        }
        thread.join().expect("no panic");
        assert_eq!(got, text);
    }
}
