//! Where in a recording the page is: a hand that goes by itself, and that a viewer puts elsewhere.
//!
//! In: the query of an address. Out: a time of the recording. Who reads the recording (above) and
//! who shows it look at the same dial; neither knows the other.

use super::live::value;
use monitor_model::id::Ns;
use monitor_recording::Span;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// How many times as fast as it was, at most.
const FASTEST: f64 = 1000.0;

/// A dial.
pub struct Dial {
    path: PathBuf,
    first: Ns,
    last: Ns,
    hand: Mutex<Hand>,
    /// How often it had been put elsewhere, and the sample that was read last, by its time.
    reached: Mutex<(u64, Ns)>,
}

/// Its hand.
#[derive(Clone, Copy)]
struct Hand {
    /// Where it was put, and when.
    from: Ns,
    since: Instant,
    /// How many times as fast as the clock it goes; 0, if it stands still.
    speed: f64,
    /// How often it was put elsewhere.
    turned: u64,
}

impl Dial {
    /// Over a recording that is there, from this time of it on.
    pub fn new(path: &Path, span: &Span, (from, speed): (Ns, f64)) -> Self {
        let (first, last) = (span.first.unix, span.last.unix);
        let hand = Hand { from, since: Instant::now(), speed, turned: 0 };
        let (hand, reached) = (Mutex::new(hand), Mutex::default());
        Self { path: path.to_owned(), first, last, hand, reached }
    }

    /// The recording.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The time of the recording that is now, and how often it was put elsewhere.
    pub fn now(&self) -> (Ns, u64) {
        let hand = *held(&self.hand);
        (self.at(hand), hand.turned)
    }

    fn at(&self, hand: Hand) -> Ns {
        let gone = hand.since.elapsed().as_nanos() as f64 * hand.speed;
        Ns(hand.from.0.saturating_add(gone as u64)).clamp(self.first, self.last)
    }

    /// This sample was read, at that turn of the hand.
    pub fn reach(&self, turned: u64, at: Ns) {
        *held(&self.reached) = (turned, at);
    }

    /// What was read last.
    pub fn reached(&self) -> (u64, Ns) {
        *held(&self.reached)
    }

    /// Puts it elsewhere: `to=` nanoseconds since 1970, `by=` nanoseconds; `speed=` times as fast.
    pub fn turn(&self, query: &str) -> Result<(), String> {
        let (to, by) = (number::<u64>(query, "to")?, number::<i64>(query, "by")?);
        let speed = number::<f64>(query, "speed")?;
        if speed.is_some_and(|it| !(0.0..=FASTEST).contains(&it)) {
            return Err(format!("speed: from 0, which stands still, to {FASTEST}"));
        }
        let mut hand = held(&self.hand);
        let now = self.at(*hand);
        let from = to.unwrap_or(now.0.saturating_add_signed(by.unwrap_or(0)));
        hand.turned += u64::from(to.or(by.map(|_| 0)).is_some());
        hand.from = Ns(from).clamp(self.first, self.last);
        hand.speed = speed.unwrap_or(hand.speed);
        hand.since = Instant::now();
        Ok(())
    }

    /// What a page shows of it.
    pub fn place(&self) -> String {
        let hand = *held(&self.hand);
        let (at, first, last) = (self.at(hand).0, self.first.0, self.last.0);
        let ms = |ns: u64| ns / 1_000_000;
        json!({
            "at_ms": ms(at), "first_ms": ms(first), "last_ms": ms(last),
            "speed": hand.speed, "turned": hand.turned,
        })
        .to_string()
    }
}

fn held<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is whole, whatever became of who made it.
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number<T: std::str::FromStr>(query: &str, name: &str) -> Result<Option<T>, String> {
    let Some(text) = value(query, name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| format!("{name}={text:?}: a number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::sample::Instant as At;

    fn still() -> Dial {
        let at = |unix| At { unix: Ns(unix), ..At::default() };
        let span = Span { first: at(1_000_000_000), last: at(9_000_000_000), samples: 9 };
        Dial::new("r".as_ref(), &span, (Ns(2_000_000_000), 0.0))
    }

    #[test]
    fn it_stands_where_it_was_put_and_never_beside_the_recording() {
        let dial = still();
        assert_eq!(dial.now(), (Ns(2_000_000_000), 0));
        dial.turn("by=1500000000").unwrap();
        assert_eq!(dial.now(), (Ns(3_500_000_000), 1));
        dial.turn("to=5").unwrap();
        assert_eq!(dial.now(), (Ns(1_000_000_000), 2));
        dial.turn("by=-1").unwrap();
        dial.turn("to=99000000000").unwrap();
        assert_eq!(dial.now(), (Ns(9_000_000_000), 4));
    }

    #[test]
    fn another_speed_is_no_other_place() {
        let dial = still();
        dial.turn("speed=1000").unwrap();
        assert_eq!(dial.now().1, 0);
        while dial.now().0 == Ns(2_000_000_000) {
            std::thread::yield_now();
        }
        assert!(dial.turn("speed=-1").is_err() && dial.turn("to=x").is_err());
    }
}
