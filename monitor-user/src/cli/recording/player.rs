//! Plays a recording at its original speed, or a multiple of it.
//!
//! In: a pipeline over a recording. Out: frames. A frame is formatted before it is due.

use super::args::Speed;
use super::progress::ReadProgress;
use super::time_range::TimeRange;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{Output, OutputState, notice};
use crate::cli::pipeline::Pipeline;
use crate::cli::run_loop::{LoopEnd, PeriodicTask};
use monitor_model::id::Ns;
use monitor_model::sample::{Instant, Note};

/// Plays a recording.
pub struct Player {
    pipeline: Pipeline,
    output: Output,
    speed: Speed,
    range: TimeRange,
    /// Remaining samples.
    left: u64,
    /// Time of the first shown sample.
    first: Option<Ns>,
    /// The next frame, and when it is due.
    ready: Option<(Ns, Vec<u8>)>,
    /// Shows progress if the output does not.
    progress: Option<ReadProgress>,
    exit: Exit,
}

impl Player {
    /// Plays from the current position, and shows the samples in the range.
    pub fn new(
        pipeline: Pipeline,
        output: Output,
        (speed, between, count): (Speed, TimeRange, Option<u64>),
        passage: ReadProgress,
    ) -> Result<Self, Failure> {
        let left = count.unwrap_or(u64::MAX);
        let (first, ready, exit) = (None, None, Exit::Ok);
        let is_waited_for = speed == Speed::Max && !output.is_terminal();
        let passage = is_waited_for.then_some(passage);
        let mut player = Self {
            pipeline,
            output,
            speed,
            range: between,
            left,
            first,
            ready,
            progress: passage,
            exit,
        };
        player.prepare()?;
        Ok(player)
    }

    /// Formats the next frame, if there is one.
    fn prepare(&mut self) -> Result<(), Failure> {
        self.ready = None;
        while self.left > 0 {
            let room = self.output.room();
            let Some((at, frame)) = self.pipeline.next_recorded(room)? else {
                self.report_missing();
                return Ok(());
            };
            if at.unix > self.range.to {
                return Ok(());
            }
            if let Some(passage) = &self.progress {
                passage.update(at.unix);
            }
            if at.unix >= self.range.from {
                let frame = frame.to_vec();
                self.ready = Some((self.due_at(at), frame));
                return Ok(());
            }
        }
        Ok(())
    }

    fn due_at(&mut self, at: Instant) -> Ns {
        let first = *self.first.get_or_insert(at.boot);
        match self.speed {
            Speed::Max => Ns(0),
            Speed::Times(times) => Ns((at.boot.since(first).0 as f64 / times) as u64),
        }
    }

    fn report_missing(&mut self) {
        self.progress = None;
        for Note { text, .. } in self.pipeline.missing() {
            notice(text);
            self.exit = Exit::Partial;
        }
    }
}

impl PeriodicTask for Player {
    fn next_due(&self) -> Option<Ns> {
        self.ready.as_ref().map(|(due, _)| *due)
    }

    fn tick(&mut self) -> Result<OutputState, Failure> {
        let Some((_, frame)) = self.ready.take() else { return Ok(OutputState::Open) };
        let reader = self.output.put(&frame)?;
        self.left -= 1;
        self.prepare()?;
        Ok(reader)
    }

    fn finish(&mut self, ended: LoopEnd) -> Result<Exit, Failure> {
        self.progress = None;
        let end = self.pipeline.finish();
        if !end.is_empty() {
            // A closed output needs no end.
            let _reader = self.output.put(end)?;
        }
        Ok(match (ended, self.exit) {
            (LoopEnd::Interrupted, _) => Exit::Interrupted,
            (_, Exit::Ok) => self.pipeline.exit(),
            (_, exit) => exit,
        })
    }
}
