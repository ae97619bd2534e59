//! The service as the service manager sees it: ready, reloading, alive, ending (sd_notify(3)).
//!
//! Alive is the loop, and the thread that reads: it is asked for the account once a beat, and
//! without its answer the watchdog is not fed. Where nobody watches, all of it is silent.

use sd_notify::NotifyState;
use std::time::Duration;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

/// From one question to the next, if nobody asks for more.
const BEAT: Duration = Duration::from_secs(5);
/// Run times of programs are counted in one of so many beats.
const COUNTED: u64 = 12;

/// The heart.
pub struct Heart {
    beat: Interval,
    watchdog: Option<Duration>,
    /// When the reader answered last.
    answered: Instant,
    /// Whether it owes an answer.
    asked: bool,
    beats: u64,
}

/// What a beat asks for.
pub enum Ask {
    /// An account; run times are counted until the next.
    Account {
        /// Whether they are.
        counted: bool,
    },
    /// Nothing: the last has not been answered.
    Nothing,
}

impl Heart {
    /// Begins to beat, often enough for the budget and for the watchdog.
    pub fn new(window: Duration) -> Self {
        let watchdog = sd_notify::watchdog_enabled();
        let often = watchdog.map_or(BEAT, |limit| limit / 4).min(window).min(BEAT);
        let mut beat = interval(often.max(Duration::from_millis(10)));
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { beat, watchdog, answered: Instant::now(), asked: false, beats: 0 }
    }

    /// Waits for the next beat.
    pub async fn beat(&mut self) -> Ask {
        let _now = self.beat.tick().await;
        self.feed();
        if self.asked {
            return Ask::Nothing;
        }
        self.asked = true;
        self.beats += 1;
        Ask::Account { counted: self.beats % COUNTED == 1 }
    }

    /// The reader answered.
    pub fn answered(&mut self) {
        (self.answered, self.asked) = (Instant::now(), false);
    }

    fn feed(&self) {
        let Some(limit) = self.watchdog else { return };
        if self.answered.elapsed() < limit {
            tell(&[NotifyState::Watchdog]);
        } else {
            tracing::error!("the thread that reads does not answer: the watchdog is not fed");
        }
    }
}

/// It serves, with this to say.
pub fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// What it has to say has changed.
pub fn say(status: &str) {
    tell(&[NotifyState::Status(status)]);
}

/// It reads its configuration again; `ready` follows.
pub fn reloading() {
    let now = NotifyState::monotonic_usec_now();
    let states = [NotifyState::Reloading].into_iter().chain(now.ok());
    tell(&states.collect::<Vec<_>>());
}

/// It ends.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(why) = sd_notify::notify(states) {
        tracing::warn!("the service manager cannot be told: {why}");
    }
}
