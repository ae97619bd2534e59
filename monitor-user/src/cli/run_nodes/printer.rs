//! What the nodes write, on the standard output and error of this command.
//!
//! In: bytes of the programs of nodes. Out: lines with the name of their node before them; or, when
//! output is folded, what is left until all have ended. A thread writes, so that a slow reader of
//! the output holds up no signal; it is sent a bounded number of parts.

use crate::cli::exit::Failure;
use crate::cli::node_blocks::blocks;
use crate::cli::output::{self, Output, OutputState};
use crate::cli::prefixed_lines::PrefixedLines;
use std::io::Write as _;
use std::thread::JoinHandle;
use tokio::sync::mpsc;

/// Parts that wait to be written.
const PARTS: usize = 64;
/// Bytes of a node that are kept to be folded; a node that writes more has its lines printed.
const FOLDED_BYTES: usize = 1 << 20;

/// The streams of this command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrintStream {
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
}

/// How the output of nodes is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrintForm {
    /// By lines, as they arrive.
    Lines,
    /// Equal output once, at the end.
    Folded,
}

type Part = (PrintStream, Vec<u8>);

/// The thread that writes.
#[derive(Debug)]
pub struct Printer {
    parts: mpsc::Sender<Part>,
    thread: JoinHandle<Result<OutputState, Failure>>,
}

/// The reader of the output has closed it.
#[derive(Debug)]
pub struct OutputClosed;

/// A stream of a node.
#[derive(Debug)]
pub struct NodeStream {
    stream: PrintStream,
    parts: mpsc::Sender<Part>,
    lines: PrefixedLines,
    /// What it has written, while that is kept.
    kept: Option<Vec<u8>>,
}

impl Printer {
    /// Starts the thread.
    pub fn start() -> Self {
        let (parts, received) = mpsc::channel(PARTS);
        let thread = std::thread::spawn(move || write_all(received));
        Self { parts, thread }
    }

    /// The streams of a node.
    pub fn streams(&self, node: &str, form: PrintForm) -> [NodeStream; 2] {
        [PrintStream::Output, PrintStream::Errors].map(|stream| NodeStream {
            stream,
            parts: self.parts.clone(),
            lines: PrefixedLines::new(format!("{node}: ")),
            kept: (form == PrintForm::Folded && stream == PrintStream::Output).then(Vec::new),
        })
    }

    /// Ready when nothing can be written any longer.
    pub async fn closed(&self) {
        self.parts.closed().await;
    }

    /// Writes what is left, and returns whether the output was open to the end.
    ///
    /// # Errors
    ///
    /// When standard output could not be written.
    pub fn finish(self) -> Result<OutputState, Failure> {
        drop(self.parts);
        let ended = || Err(Failure::failed("the thread that prints has ended"));
        self.thread.join().unwrap_or_else(|_| ended())
    }
}

fn write_all(mut parts: mpsc::Receiver<Part>) -> Result<OutputState, Failure> {
    let mut out = Output::Stream;
    while let Some((stream, bytes)) = parts.blocking_recv() {
        match stream {
            PrintStream::Output if out.put(&bytes)? == OutputState::Closed => {
                return Ok(OutputState::Closed);
            }
            PrintStream::Output => {}
            // A closed standard error is ignored, as everywhere.
            PrintStream::Errors => drop(std::io::stderr().lock().write_all(&bytes)),
        }
    }
    Ok(OutputState::Open)
}

impl NodeStream {
    /// Prints or keeps what the program has written.
    ///
    /// # Errors
    ///
    /// When the output is closed.
    pub async fn add(&mut self, bytes: &[u8]) -> Result<(), OutputClosed> {
        let text = match &mut self.kept {
            Some(kept) if kept.len() + bytes.len() <= FOLDED_BYTES => {
                kept.extend_from_slice(bytes);
                return Ok(());
            }
            _ => {
                let kept = self.kept.take().unwrap_or_default();
                let mut text = self.lines.add(&kept);
                text.extend_from_slice(&self.lines.add(bytes));
                text
            }
        };
        self.print(text).await
    }

    /// Prints a line without its end. Returns what is to be folded.
    ///
    /// # Errors
    ///
    /// When the output is closed.
    pub async fn finish(mut self) -> Result<Vec<u8>, OutputClosed> {
        let rest = self.lines.rest();
        self.print(rest).await?;
        Ok(self.kept.unwrap_or_default())
    }

    async fn print(&self, text: Vec<u8>) -> Result<(), OutputClosed> {
        if text.is_empty() {
            return Ok(());
        }
        self.parts.send((self.stream, text)).await.map_err(|_| OutputClosed)
    }
}

/// Prints equal outputs once, under the names of their nodes, in the order of the first of each.
///
/// # Errors
///
/// When standard output cannot be written.
pub fn print_folded(outputs: &[(String, Vec<u8>)]) -> Result<(), Failure> {
    output::print(&folded(outputs)).map(drop)
}

fn folded(outputs: &[(String, Vec<u8>)]) -> Vec<u8> {
    let written = outputs.iter().filter(|it| !it.1.is_empty());
    let mut text = Vec::new();
    for block in blocks(written.map(|(node, output)| (node.as_str(), output.as_slice()))) {
        text.extend_from_slice(block.heading().as_bytes());
        text.extend_from_slice(block.text);
        if block.text.last() != Some(&b'\n') {
            text.push(b'\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_outputs_are_printed_once() {
        let output = |node: &str, text: &str| (node.to_owned(), text.as_bytes().to_vec());
        let all = [output("n1", "a\n"), output("n2", "b"), output("n3", "a\n"), output("n4", "")];
        let want = "---------------\nn[1,3] (2)\n---------------\na\n\
                    ---------------\nn2\n---------------\nb\n";
        assert_eq!(String::from_utf8(folded(&all)).as_deref(), Ok(want));
    }

    /// What a stream prints of these parts, and what it keeps.
    fn printed(form: PrintForm, parts: &[&[u8]]) -> (Vec<u8>, Vec<u8>) {
        let (sender, mut received) = mpsc::channel(PARTS);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let thread = std::thread::spawn(|| Ok(OutputState::Open));
            let printer = Printer { parts: sender, thread };
            let [mut output, _errors] = printer.streams("n1", form);
            for part in parts {
                output.add(part).await.expect("open");
            }
            let kept = output.finish().await.expect("open");
            let mut text = Vec::new();
            while let Ok((_, part)) = received.try_recv() {
                text.extend_from_slice(&part);
            }
            (text, kept)
        })
    }

    #[test]
    fn a_node_that_writes_more_than_is_kept_is_printed_by_lines() {
        assert_eq!(printed(PrintForm::Lines, &[b"a\nb"]), (b"n1: a\nn1: b\n".to_vec(), vec![]));
        assert_eq!(printed(PrintForm::Folded, &[b"a\n", b"b"]), (vec![], b"a\nb".to_vec()));
        let large = vec![b'x'; FOLDED_BYTES];
        let (text, kept) = printed(PrintForm::Folded, &[b"a\n", &large, b"\nb\n"]);
        assert!(text.starts_with(b"n1: a\nn1: xx") && text.ends_with(b"n1: b\n"));
        assert!(kept.is_empty());
    }
}
