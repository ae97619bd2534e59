//! A backend that plays a recording: a read returns the sample at the time of the playback clock.
//!
//! In: a playback clock. Out: samples as from a live backend, so that a daemon can serve the
//! recording. After a seek it returns the previous sample first for a moment, so that periodic
//! readers have rates at once, also while playback is paused.

use monitor_backend::{Backend, Error};
use monitor_model::id::Ns;
use monitor_model::probe::Probe;
use monitor_model::read_spec::ReadSpec;
use monitor_model::sample::{BackendKind, Process, Sample};
use monitor_recording as record;
use monitor_recording::{Recording, Replay};
use monitor_server::http::PlaybackClock;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the previous sample is returned after a seek: less than a reading interval.
const PREVIOUS_FOR: Duration = Duration::from_millis(150);

/// The backend.
pub struct PlaybackBackend {
    replay: Replay,
    clock: Arc<PlaybackClock>,
    /// The number of seeks when these samples were read.
    seeks: Option<u64>,
    since: Instant,
    /// The previous, the current and the next sample.
    before: Option<Sample>,
    current: Option<Sample>,
    next: Option<Sample>,
}

impl PlaybackBackend {
    /// Plays a recording at the time of the clock.
    pub fn new(recording: Recording, clock: Arc<PlaybackClock>) -> Self {
        let (before, current, next) = (None, None, None);
        let (replay, since) = (Replay::new(recording), Instant::now());
        Self { replay, clock, seeks: None, since, before, current, next }
    }

    /// Moves to the sample of this time.
    fn seek(&mut self, (now, seeks): (Ns, u64)) -> Result<(), record::Error> {
        let recording = self.replay.recording_mut();
        if self.seeks.replace(seeks) != Some(seeks) {
            recording.seek(now)?;
            self.current = recording.next()?;
            // Seek to the previous sample, then read forward again.
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

impl Backend for PlaybackBackend {
    fn kind(&self) -> BackendKind {
        self.replay.kind()
    }

    fn probes(&mut self) -> Vec<Probe> {
        self.replay.probes()
    }

    fn read(&mut self, want: &ReadSpec) -> Result<Sample, Error> {
        let (now, seeks) = self.clock.now();
        let what = self.clock.path().display().to_string();
        self.seek((now, seeks)).map_err(|error| {
            let want = format!("a readable recording: {error}");
            Error::Malformed { what: what.clone(), want }
        })?;
        let is_new = self.since.elapsed() < PREVIOUS_FOR;
        let chosen = self.before.as_ref().filter(|_| is_new).or(self.current.as_ref());
        let Some(sample) = chosen.cloned() else {
            return Err(Error::EndOfRecording { what, missing: Vec::new() });
        };
        self.clock.set_reached(seeks, sample.at.unix);
        Ok(self.replay.select(sample, want))
    }

    fn describe(&mut self, processes: &mut [Process], want: &ReadSpec) {
        self.replay.describe(processes, want);
    }
}
