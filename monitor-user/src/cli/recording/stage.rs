//! A recording on a stage: whoever reads is given what it has of the time that the dial shows.
//!
//! In: a dial. Out: samples as of a live backend, so a service over it serves the recording.
//! After the hand was put elsewhere the sample before comes first for a moment, so that those who
//! look again and again have rates at once, also where it stands still.

use monitor_backend::{Backend, Error};
use monitor_model::id::Ns;
use monitor_model::probe::Probe;
use monitor_model::sample::{Process, Sample, Source};
use monitor_model::want::Want;
use monitor_recording as record;
use monitor_recording::{Recording, Replay};
use monitor_server::http::Dial;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the sample before is given: less than from one reading to the next.
const BEFORE: Duration = Duration::from_millis(150);

/// The stage.
pub struct Stage {
    replay: Replay,
    dial: Arc<Dial>,
    /// How often the hand had been put elsewhere when these were read.
    turned: Option<u64>,
    since: Instant,
    /// The sample before, the one that it is, and the one after.
    before: Option<Sample>,
    current: Option<Sample>,
    next: Option<Sample>,
}

impl Stage {
    /// Of a recording, at the time of the dial.
    pub fn new(recording: Recording, dial: Arc<Dial>) -> Self {
        let (before, current, next) = (None, None, None);
        let (replay, since) = (Replay::new(recording), Instant::now());
        Self { replay, dial, turned: None, since, before, current, next }
    }

    /// Goes to the sample of this time.
    fn go(&mut self, (now, turned): (Ns, u64)) -> Result<(), record::Error> {
        let recording = self.replay.recording_mut();
        if self.turned.replace(turned) != Some(turned) {
            recording.seek(now)?;
            self.current = recording.next()?;
            // Two steps back for the one before, and forward again.
            let at = self.current.as_ref().map_or(now, |it| it.at.unix);
            recording.seek(Ns(at.0.saturating_sub(1)))?;
            self.before = recording.next()?;
            self.current = recording.next()?.or_else(|| self.before.clone());
            self.next = recording.next()?;
            self.since = Instant::now();
        }
        while self.next.as_ref().is_some_and(|it| it.at.unix <= now) {
            self.before = std::mem::replace(&mut self.current, self.next.take());
            self.next = recording.next()?;
        }
        Ok(())
    }
}

impl Backend for Stage {
    fn source(&self) -> Source {
        self.replay.source()
    }

    fn probes(&mut self) -> Vec<Probe> {
        self.replay.probes()
    }

    fn read(&mut self, want: &Want) -> Result<Sample, Error> {
        let (now, turned) = self.dial.now();
        let what = self.dial.path().display().to_string();
        self.go((now, turned)).map_err(|error| {
            let want = format!("a recording that can be read: {error}");
            Error::Malformed { what: what.clone(), want }
        })?;
        let is_new = self.since.elapsed() < BEFORE;
        let given = self.before.as_ref().filter(|_| is_new).or(self.current.as_ref());
        let Some(sample) = given.cloned() else {
            return Err(Error::Over { what, missing: Vec::new() });
        };
        self.dial.reach(turned, sample.at.unix);
        Ok(self.replay.wanted(sample, want))
    }

    fn describe(&mut self, processes: &mut [Process], want: &Want) {
        self.replay.describe(processes, want);
    }
}
