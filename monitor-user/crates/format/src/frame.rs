//! What a format writes: one sample with the rows to show, and the space for it.

use monitor_model::{Process, Rates, SampleEvent};

/// One sample to print.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The sample, its notes and its losses.
    pub rates: &'a Rates,
    /// The processes to show, in order.
    pub processes: &'a [Process],
    /// Number of processes or groups that matched the filter.
    pub matched: usize,
    /// The events of the selected processes.
    pub events: &'a [SampleEvent],
    /// The space for the output.
    pub viewport: Viewport,
}

/// The space for the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Viewport {
    /// Width of a line, in characters.
    pub columns: usize,
    /// Lines of a screen; `None` for a stream.
    pub lines: Option<usize>,
}

impl Viewport {
    /// Lines for the notes or the events of a screen: at most a third; `None` for a stream.
    pub(crate) fn lines_below(self) -> Option<usize> {
        self.lines.map(|lines| (lines / 3).max(1))
    }
}

/// Writes frames in one format.
pub trait FrameWriter {
    /// Appends a frame as whole lines, so that the output is valid after every frame.
    fn write(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>);

    /// Appends the frames of many nodes at one time; their rows have the name of their node if the
    /// layout says so.
    fn write_nodes(&mut self, frames: &[Frame<'_>], out: &mut Vec<u8>) {
        frames.iter().for_each(|frame| self.write(frame, out));
    }

    /// Appends the end of the output; empty for most formats.
    fn finish(&mut self, _: &mut Vec<u8>) {}
}
