//! Plays samples at the pace at which they were taken, or faster.
//!
//! A frame is made before it is due, so that it is shown when it is.

use super::progress::Passage;
use super::when::Between;
use super::words::Speed;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{Output, Reader, say};
use crate::cli::pace::{Ended, Work};
use crate::cli::pipeline::Pipeline;
use monitor_model::id::Ns;
use monitor_model::sample::{Instant, Note};

/// Plays a recording.
pub struct Player {
    pipeline: Pipeline,
    output: Output,
    speed: Speed,
    between: Between,
    /// Samples that are still to be shown.
    left: u64,
    /// When the first that is shown was taken.
    first: Option<Ns>,
    /// The next frame, and when it is due.
    ready: Option<(Ns, Vec<u8>)>,
    /// Says how far it is, where nothing else does.
    passage: Option<Passage>,
    exit: Exit,
}

impl Player {
    /// From where the recording stands, showing what is between.
    pub fn new(
        pipeline: Pipeline,
        output: Output,
        (speed, between, count): (Speed, Between, Option<u64>),
        passage: Passage,
    ) -> Result<Self, Failure> {
        let left = count.unwrap_or(u64::MAX);
        let (first, ready, exit) = (None, None, Exit::Ok);
        let is_waited_for = speed == Speed::Max && !output.is_seen();
        let passage = is_waited_for.then_some(passage);
        let mut it = Self { pipeline, output, speed, between, left, first, ready, passage, exit };
        it.prepare()?;
        Ok(it)
    }

    /// Makes the next frame, if there is one.
    fn prepare(&mut self) -> Result<(), Failure> {
        self.ready = None;
        while self.left > 0 {
            let room = self.output.room();
            let Some((at, frame)) = self.pipeline.next(room)? else {
                self.over();
                return Ok(());
            };
            if at.unix > self.between.to {
                return Ok(());
            }
            if let Some(passage) = &self.passage {
                passage.at(at.unix);
            }
            if at.unix >= self.between.from {
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

    fn over(&mut self) {
        self.passage = None;
        for Note { text, .. } in self.pipeline.missing() {
            say(text);
            self.exit = Exit::Partial;
        }
    }
}

impl Work for Player {
    fn due(&self) -> Option<Ns> {
        self.ready.as_ref().map(|(due, _)| *due)
    }

    fn turn(&mut self) -> Result<Reader, Failure> {
        let Some((_, frame)) = self.ready.take() else { return Ok(Reader::There) };
        let reader = self.output.put(&frame)?;
        self.left -= 1;
        self.prepare()?;
        Ok(reader)
    }

    fn finish(&mut self, ended: Ended) -> Result<Exit, Failure> {
        self.passage = None;
        let end = self.pipeline.finish();
        if !end.is_empty() {
            // Who has gone misses the end too.
            let _reader = self.output.put(end)?;
        }
        Ok(match (ended, self.exit) {
            (Ended::Interrupted, _) => Exit::Interrupted,
            (_, Exit::Ok) => self.pipeline.exit(),
            (_, exit) => exit,
        })
    }
}
