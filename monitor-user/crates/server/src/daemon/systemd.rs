//! Notifications to the service manager: ready, reloading, watchdog, stopping (sd_notify(3)).
//!
//! The watchdog covers the loop and the sampler thread: at each tick the thread is queried for its
//! usage, and without an answer no watchdog message is sent. Without a service manager, nothing is
//! sent.

use sd_notify::NotifyState;
use std::time::Duration;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

/// Longest time between two ticks.
const TICK: Duration = Duration::from_secs(5);
/// The run time of programs is counted in one of this number of ticks.
const COUNT_EVERY: u64 = 12;

/// Ticks for the watchdog and the budget.
pub struct Watchdog {
    interval: Interval,
    watchdog: Option<Duration>,
    /// When the sampler thread answered last.
    answered: Instant,
    /// Whether an answer is pending.
    is_pending: bool,
    ticks: u64,
}

/// What a tick requires.
pub enum WatchdogTick {
    /// Query the usage of the sampler thread.
    ReadUsage {
        /// Whether the run time of programs is counted until the next tick.
        count_run_time: bool,
    },
    /// Nothing: the previous query has not been answered.
    Pending,
}

impl Watchdog {
    /// Starts the ticks, often enough for the budget window and for the watchdog.
    pub fn new(window: Duration) -> Self {
        let watchdog = sd_notify::watchdog_enabled();
        let often = watchdog.map_or(TICK, |limit| limit / 4).min(window).min(TICK);
        let mut interval = interval(often.max(Duration::from_millis(10)));
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { interval, watchdog, answered: Instant::now(), is_pending: false, ticks: 0 }
    }

    /// Waits for the next tick.
    pub async fn tick(&mut self) -> WatchdogTick {
        let _now = self.interval.tick().await;
        self.notify_watchdog();
        if self.is_pending {
            return WatchdogTick::Pending;
        }
        self.is_pending = true;
        self.ticks += 1;
        WatchdogTick::ReadUsage { count_run_time: self.ticks % COUNT_EVERY == 1 }
    }

    /// Notes that the sampler thread answered.
    pub fn reader_answered(&mut self) {
        (self.answered, self.is_pending) = (Instant::now(), false);
    }

    fn notify_watchdog(&self) {
        let Some(limit) = self.watchdog else { return };
        if self.answered.elapsed() < limit {
            notify(&[NotifyState::Watchdog]);
        } else {
            tracing::error!("the sampler thread does not answer: no watchdog message is sent");
        }
    }
}

/// Reports that the daemon is ready, with a status line.
pub fn ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Reports a new status line.
pub fn status(status: &str) {
    notify(&[NotifyState::Status(status)]);
}

/// Reports that the configuration is being reloaded; `ready` follows.
pub fn reloading() {
    let now = NotifyState::monotonic_usec_now();
    let states = [NotifyState::Reloading].into_iter().chain(now.ok());
    notify(&states.collect::<Vec<_>>());
}

/// Reports that the daemon is stopping.
pub fn stopping() {
    notify(&[NotifyState::Stopping]);
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(why) = sd_notify::notify(states) {
        tracing::warn!("cannot notify the service manager: {why}");
    }
}
