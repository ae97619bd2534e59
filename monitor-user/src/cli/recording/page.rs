//! `monitor replay FILE --page`: the daemon's web page, over a recording.
//!
//! In: a recording, and an address to listen on. Out: a page with a seek bar; its address is
//! printed. This process serves the page until it is interrupted, and creates no file. Its backend
//! returns the sample at the time of the playback clock; after a seek it returns the previous
//! sample first for a moment, so that periodic readers have rates at once, also while playback is
//! paused.

use super::args::{Speed, TimeRange};
use crate::cli::client::runtime;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::notice;
use monitor_backend::BackendChoice;
use monitor_backend::{Backend, Error};
use monitor_cluster::scope::Node;
use monitor_loader::select;
use monitor_model::id::Ns;
use monitor_model::probe::Probe;
use monitor_model::read_spec::ReadSpec;
use monitor_model::sample::{BackendKind, Process, Sample};
use monitor_recording as record;
use monitor_recording::{Recording, Replay, Span};
use monitor_server::daemon::{self, Endpoint, Settings};
use monitor_server::http::PlaybackClock;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Serves the page until interrupted.
pub fn show(
    recording: Recording,
    address: SocketAddr,
    (span, range, speed): (Span, TimeRange, Speed),
) -> Result<Exit, Failure> {
    let Speed::Times(times) = speed else {
        return Err(Failure::usage("--page needs a number for --speed: max does not apply"));
    };
    let failed = |why: std::io::Error| Failure::failed(format!("cannot serve the page: {why}"));
    let mut shown = span;
    shown.first.unix = range.from.max(span.first.unix);
    shown.last.unix = range.to.min(span.last.unix);
    let clock = PlaybackClock::new(recording.path(), &shown, (shown.first.unix, times));
    let clock = Arc::new(clock);
    let name = recording.header().node.clone();
    let node = Node { name, number: 0, aliases: Vec::new() };
    let opener = select::opener(BackendChoice::Auto);
    let mut settings = Settings::new(Endpoint::Page(announce), node, opener);
    settings.loaded.config.http.address = Some(address);
    settings.playback = Some(Arc::clone(&clock));
    let backend = Box::new(PlaybackBackend::new(recording, clock));
    runtime()?.block_on(daemon::serve(settings, backend, Vec::new())).map_err(failed)?;
    Ok(Exit::Ok)
}

/// Prints the address of the page.
fn announce(address: &str) {
    notice(&format!("{address}  (Ctrl-C to stop)"));
}

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
