//! Updates from a recording, played at its original period or another one.
//!
//! A seek reads the sample before the requested one as well, so that rates are available at once.
//! At the end, or while frozen, it waits for a seek, and reads the current sample again if a new
//! query needs more of it.

use super::feed_source::{FeedEvent, FeedSource, PlaybackPos, Update};
use super::{reader::ViewReader, view_query::ViewQuery};
use monitor_backend as backend;
use monitor_model::Ns;
use monitor_recording::{Error, Recording, Replay, Span};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep_until};

/// Samples of one seek step.
const STEP: u64 = 10;

/// A recording and its playback state.
pub struct ReplaySource {
    reader: ViewReader<Replay>,
    span: Span,
    /// The duration of one seek step.
    step: Ns,
    query: ViewQuery,
    /// A frame is due at once, independent of the period.
    frame_due: bool,
    ended: bool,
    due: Instant,
    /// The time of the last sample that was shown.
    at: Ns,
}

impl ReplaySource {
    /// A source that starts at the beginning of the recording.
    ///
    /// # Errors
    ///
    /// When the recording cannot be read.
    pub fn new(recording: Recording, query: &ViewQuery) -> Result<Self, Error> {
        let span = recording.span().unwrap_or_default();
        let step = Ns(recording.header().every_ns.max(1).saturating_mul(STEP));
        let mut it = Self {
            reader: ViewReader::replay(Replay::new(recording), query),
            at: span.first.unix,
            span,
            step,
            query: ViewQuery { frozen: false, ..query.clone() },
            frame_due: true,
            ended: false,
            due: Instant::now(),
        };
        it.seek_to(span.first.unix)?;
        Ok(it)
    }

    /// The time of the last sample that was shown.
    pub const fn at(&self) -> Ns {
        self.at
    }

    /// Goes to a time on the realtime clock.
    ///
    /// # Errors
    ///
    /// When the recording cannot be read.
    pub fn go_to(&mut self, unix: Ns) -> Result<(), Error> {
        self.at = Ns(unix.0.clamp(self.span.first.unix.0, self.span.last.unix.0));
        self.seek_to(self.at)
    }

    /// Makes the first sample at or after this time the next one, if there is one before it.
    fn seek_to(&mut self, to: Ns) -> Result<(), Error> {
        self.reader.seek().seek(Ns(to.0.saturating_sub(1)))?;
        // The sample before is needed only for rates.
        let _ = self.reader.read();
        (self.frame_due, self.ended) = (true, false);
        Ok(())
    }

    fn read(&mut self) -> FeedEvent {
        self.frame_due = false;
        self.due = Instant::now() + self.query.every;
        let update = match self.reader.read() {
            Ok(update) => update,
            Err(backend::Error::EndOfRecording { missing, .. }) => {
                self.ended = true;
                let missing: String = missing.iter().map(|it| format!("; {}", it.text)).collect();
                return FeedEvent::Message(format!("end of the recording: [ seeks back{missing}"));
            }
            Err(error) => return FeedEvent::Ended(error.to_string()),
        };
        self.at = update.rates.sample.at.unix;
        let first = self.span.first.unix;
        let since = |it: Ns| Duration::from_nanos(it.since(first).0);
        let playback = PlaybackPos {
            unix: self.at,
            elapsed: since(self.at),
            length: since(self.span.last.unix),
        };
        FeedEvent::Update(Arc::new(Update { playback: Some(playback), ..(*update).clone() }))
    }
}

impl FeedSource for ReplaySource {
    fn set_query(&mut self, query: &ViewQuery) {
        self.reader.set_query(query);
        let before = std::mem::replace(&mut self.query, query.clone());
        self.due = self.due.min(Instant::now() + query.every);
        let same_period = ViewQuery { every: query.every, frozen: query.frozen, ..before };
        let ended = self.ended;
        // If the current sample cannot be read again, the screen stays as it is.
        if (ended || query.frozen) && same_period != *query && self.seek_to(self.at).is_ok() {
            self.ended = ended;
        }
    }

    async fn next(&mut self) -> FeedEvent {
        if !self.frame_due {
            match self.query.frozen || self.ended {
                true => std::future::pending().await,
                false => sleep_until(self.due).await,
            }
        }
        self.read()
    }

    fn seek(&mut self, steps: i64) -> Result<(), String> {
        let far = self.step.0.saturating_mul(steps.unsigned_abs());
        let to =
            if steps < 0 { self.at.0.saturating_sub(far) } else { self.at.0.saturating_add(far) };
        let to = Ns(to.clamp(self.span.first.unix.0, self.span.last.unix.0));
        self.seek_to(to).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::fixture::{Fixture, samples};
    use monitor_recording::{Existing, Header, Writer};
    use std::path::PathBuf;

    /// A recording of the fixture, removed after the test.
    struct TestRecording(PathBuf);

    impl TestRecording {
        fn with_samples(count: usize) -> Self {
            let name = format!("monitor-top-{}-{count}", std::process::id());
            let it = Self(std::env::temp_dir().join(name));
            let header = Header { every_ns: 1_000_000_000, ..Header::default() };
            let mut writer = Writer::create(&it.0, Existing::Replace, &header).expect("a file");
            for sample in samples(count) {
                writer.append(&sample).expect("there is room");
            }
            let _bytes = writer.finish().expect("there is room");
            it
        }

        fn source(&self) -> ReplaySource {
            let query = Fixture::new(80, 24).state.view_query();
            let query = ViewQuery { every: Duration::ZERO, ..query };
            ReplaySource::new(Recording::open(&self.0).expect("a recording"), &query)
                .expect("a source")
        }
    }

    impl Drop for TestRecording {
        fn drop(&mut self) {
            let _it_may_be_gone = std::fs::remove_file(&self.0);
        }
    }

    fn next(source: &mut ReplaySource) -> FeedEvent {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("an event loop").block_on(async { source.next().await })
    }

    /// Checks the seconds since the beginning and the CPU of the busiest process.
    #[track_caller]
    fn check(event: &FeedEvent, second: u64, percent: f64) {
        let FeedEvent::Update(update) = event else { panic!("{event:?}") };
        let playback = update.playback.expect("a position");
        assert_eq!(
            (playback.elapsed, playback.length),
            (Duration::from_secs(second), Duration::from_secs(19))
        );
        let cpu = |it: &monitor_model::sample::Process| {
            it.row.get(monitor_model::field::ProcessField::CpuPercent).map_or(0.0, f64::from_bits)
        };
        let most = update.rates.sample.processes.iter().map(cpu).fold(0.0, f64::max);
        assert!((most - percent).abs() < 0.01, "{most}");
    }

    #[test]
    fn it_plays_to_the_end_and_seeks_back() {
        let recording = TestRecording::with_samples(20);
        let mut source = recording.source();
        for second in 1..20 {
            check(&next(&mut source), second, 98.0);
        }
        let FeedEvent::Message(text) = next(&mut source) else { panic!("expected a message") };
        assert_eq!(text, "end of the recording: [ seeks back");
        let id = samples(1)[0].processes[0].id;
        let focus = Some((id, crate::state::Tab::Overview));
        source.set_query(&ViewQuery { focus, ..source.query.clone() });
        let event = next(&mut source);
        check(&event, 19, 98.0);
        let FeedEvent::Update(update) = event else { panic!("{event:?}") };
        assert_eq!(update.focus.as_ref().map(|it| it.id), Some(id));
        source.seek(-1).expect("a seek back");
        check(&next(&mut source), 9, 98.0);
        source.seek(-10).expect("a seek to the beginning");
        check(&next(&mut source), 1, 98.0);
        source.seek(1).expect("a seek forward");
        check(&next(&mut source), 11, 98.0);
    }
}
