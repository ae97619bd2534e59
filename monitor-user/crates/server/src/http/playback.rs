//! The playback clock of a recording: it runs by itself, and viewers seek and set its speed.
//!
//! In: the query of a URL. Out: a time in the recording. The reader of the recording (above) and
//! the feed share the clock and do not know each other.

use super::message::value;
use crate::lock::lock;
use monitor_model::Ns;
use monitor_recording::Span;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::{sync::Mutex, time::Instant};

/// Highest speed, relative to the recording.
const FASTEST: f64 = 1000.0;

/// The clock.
pub struct PlaybackClock {
    path: PathBuf,
    first: Ns,
    last: Ns,
    playhead: Mutex<Playhead>,
    /// The number of seeks before the last sample was read, and the time of that sample.
    reached: Mutex<(u64, Ns)>,
}

/// The position of the clock at a moment, and its speed.
#[derive(Clone, Copy)]
struct Playhead {
    /// The position, and when it was set.
    from: Ns,
    since: Instant,
    /// The speed relative to real time; 0 is paused.
    speed: f64,
    /// The number of seeks.
    seeks: u64,
}

impl PlaybackClock {
    /// A clock for the span of a recording, which starts at `from` with `speed`.
    pub fn new(path: &Path, span: &Span, (from, speed): (Ns, f64)) -> Self {
        let (first, last) = (span.first.unix, span.last.unix);
        let playhead = Playhead { from, since: Instant::now(), speed, seeks: 0 };
        let (playhead, reached) = (Mutex::new(playhead), Mutex::default());
        Self { path: path.to_owned(), first, last, playhead, reached }
    }

    /// The path of the recording.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The current position, and the number of seeks.
    pub fn now(&self) -> (Ns, u64) {
        let playhead = *lock(&self.playhead);
        (self.time_at(playhead), playhead.seeks)
    }

    fn time_at(&self, playhead: Playhead) -> Ns {
        let elapsed = playhead.since.elapsed().as_nanos() as f64 * playhead.speed;
        Ns(playhead.from.0.saturating_add(elapsed as u64)).clamp(self.first, self.last)
    }

    /// Notes that the sample of this time was read, after this number of seeks.
    pub fn set_reached(&self, seeks: u64, at: Ns) {
        *lock(&self.reached) = (seeks, at);
    }

    /// The number of seeks before the last sample that was read, and its time.
    pub fn reached(&self) -> (u64, Ns) {
        *lock(&self.reached)
    }

    /// Seeks: `to=` nanoseconds since 1970, `by=` nanoseconds; sets the speed: `speed=` a factor.
    ///
    /// # Errors
    ///
    /// When a value is not a number, or the speed is out of range.
    pub fn seek(&self, query: &str) -> Result<(), String> {
        let (to, by) = (number::<u64>(query, "to")?, number::<i64>(query, "by")?);
        let speed = number::<f64>(query, "speed")?;
        if speed.is_some_and(|it| !(0.0..=FASTEST).contains(&it)) {
            return Err(format!("speed: expected a number from 0 (paused) to {FASTEST}"));
        }
        let mut playhead = lock(&self.playhead);
        let now = self.time_at(*playhead);
        let from = to.unwrap_or(now.0.saturating_add_signed(by.unwrap_or(0)));
        playhead.seeks += u64::from(to.or(by.map(|_| 0)).is_some());
        playhead.from = Ns(from).clamp(self.first, self.last);
        playhead.speed = speed.unwrap_or(playhead.speed);
        playhead.since = Instant::now();
        Ok(())
    }

    /// The state for the page, as JSON.
    pub fn state_json(&self) -> String {
        let playhead = *lock(&self.playhead);
        let (at, first, last) = (self.time_at(playhead).0, self.first.0, self.last.0);
        let ms = |ns: u64| ns / 1_000_000;
        json!({
            "at_ms": ms(at), "first_ms": ms(first), "last_ms": ms(last),
            "speed": playhead.speed, "turned": playhead.seeks,
        })
        .to_string()
    }
}

fn number<T: std::str::FromStr>(query: &str, name: &str) -> Result<Option<T>, String> {
    let Some(text) = value(query, name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| format!("{name}={text:?}: expected a number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::sample::Instant as At;

    fn paused() -> PlaybackClock {
        let at = |unix| At { unix: Ns(unix), ..At::default() };
        let span = Span { first: at(1_000_000_000), last: at(9_000_000_000), samples: 9 };
        PlaybackClock::new("r".as_ref(), &span, (Ns(2_000_000_000), 0.0))
    }

    #[test]
    fn a_seek_stays_within_the_recording() {
        let clock = paused();
        assert_eq!(clock.now(), (Ns(2_000_000_000), 0));
        clock.seek("by=1500000000").unwrap();
        assert_eq!(clock.now(), (Ns(3_500_000_000), 1));
        clock.seek("to=5").unwrap();
        assert_eq!(clock.now(), (Ns(1_000_000_000), 2));
        clock.seek("by=-1").unwrap();
        clock.seek("to=99000000000").unwrap();
        assert_eq!(clock.now(), (Ns(9_000_000_000), 4));
    }

    #[test]
    fn a_change_of_speed_is_not_a_seek() {
        let clock = paused();
        clock.seek("speed=1000").unwrap();
        assert_eq!(clock.now().1, 0);
        while clock.now().0 == Ns(2_000_000_000) {
            std::thread::yield_now();
        }
        assert!(clock.seek("speed=-1").is_err() && clock.seek("to=x").is_err());
    }
}
