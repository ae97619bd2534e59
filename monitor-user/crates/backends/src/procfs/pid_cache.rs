//! State of a process cached between readings.
//!
//! In: the parsed files of a process. Out: totals that never decrease, whether `io` must be read
//! again, and whether a pid was reused. Reads no files itself.
//!
//! `cpu_ns` is the maximum of three values, none of which exceeds the truth: user and system time
//! of
//! `stat` (all threads, including ended ones, each rounded down to a tick), exact time of
//! `schedstat` summed over the threads seen, and the previous value. It is exact while no thread
//! has ended unseen, and otherwise less than two ticks short.
//!
//! When a thread other than the leader executes a file, it takes the leader's id and keeps its own
//! counters. What was counted for it before must not be counted again.

use super::{descriptors::Files, sums::Sums, thread::Threads, zombie::Exited};
use monitor_proc::{io::Io, schedstat::Schedstat, stat::Stat, status::Status};
use std::os::fd::OwnedFd;

/// Cached state of a process.
#[derive(Debug, Default)]
pub struct PidEntry {
    /// `/proc/<pid>`, if the budget allows keeping it open.
    pub dir: Option<OwnedFd>,
    /// Its files.
    pub files: Files,
    start_ticks: u64,
    image: u64,
    uid: u64,
    /// Its threads.
    pub threads: Threads,
    /// The highest totals so far.
    totals: Sums,
    /// What is not read again while the process does not run.
    pub idle: Option<Idle>,
    /// How it ended, if it has.
    pub exited: Option<Exited>,
    /// Changes with each exec.
    pub generation: u32,
    /// Whether threads may have ended unseen: then its time is known to two ticks only.
    pub is_rounded: bool,
    /// Whether its time has grown since the reading before.
    pub has_run: bool,
    /// Number of the last reading that contained it.
    pub round: u64,
}

/// The contents of `io`, and those of `schedstat` just before.
///
/// I/O is counted for the running task. While `schedstat` of a single-threaded process is unchanged
/// it has not run, so `io` is unchanged and need not be read: a tenth of the cost.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    start_ticks: u64,
    sched: Schedstat,
    /// Contents of `io`.
    pub io: Io,
}

/// The parsed files of a process.
#[derive(Clone, Copy)]
pub struct ProcTexts {
    /// `stat`.
    pub stat: Stat,
    /// `status`.
    pub status: Option<Status>,
    /// `io`.
    pub io: Option<Io>,
    /// `schedstat`, of the leader alone.
    pub sched: Option<Schedstat>,
}

impl ProcTexts {
    /// Counters of the leader.
    fn leader(&self) -> Sums {
        Sums {
            sched: self.sched.unwrap_or_default(),
            switches: self.status.map(|status| status.switches).unwrap_or_default(),
        }
    }
}

impl Idle {
    /// The state to compare with at the next reading.
    fn from_texts(texts: &ProcTexts) -> Option<Self> {
        let (Some(sched), Some(io)) = (texts.sched, texts.io) else { return None };
        let start_ticks = texts.stat.start_ticks;
        (texts.stat.threads == 1).then_some(Self { start_ticks, sched, io })
    }

    /// Whether it has not run since. The `schedstat` of a running process may be up to a tick old.
    pub fn holds(&self, stat: &Stat, sched: Option<Schedstat>) -> bool {
        let same = stat.start_ticks == self.start_ticks && sched == Some(self.sched);
        same && stat.threads == 1 && stat.state != b'R'
    }
}

impl PidEntry {
    /// Updates its identity; without an open descriptor the pid may have been reused.
    pub fn update_identity(&mut self, texts: &ProcTexts) {
        let stat = &texts.stat;
        if self.start_ticks != stat.start_ticks {
            self.start_ticks = stat.start_ticks;
            self.threads = Threads::default();
            self.totals = Sums::default();
            self.is_rounded = false;
        } else if stat.executed_since(self.image) && !self.threads.is_empty() {
            self.threads = Threads::after_execution(self.totals.beyond(&texts.leader()));
        }
        if stat.image != 0 {
            self.image = stat.image;
        }
        self.idle = Idle::from_texts(texts);
        self.generation = stat.generation();
        if let Some(status) = texts.status.filter(|status| status.uid != self.uid) {
            self.uid = status.uid;
            self.files.retry_denied();
        }
    }

    /// Its totals, which never decrease.
    pub fn total(&mut self, texts: &ProcTexts, others: Sums, tick_ns: u64) -> &Sums {
        let before = self.totals.sched.exec_ns;
        let mut sums = others;
        sums.add(&texts.leader());
        let ticks = texts.stat.user_ticks.saturating_add(texts.stat.system_ticks);
        let in_ticks = ticks.saturating_mul(tick_ns);
        self.is_rounded |= texts.stat.threads > 1 || in_ticks > sums.sched.exec_ns;
        sums.sched.exec_ns = sums.sched.exec_ns.max(in_ticks);
        self.totals.raise_to(&sums);
        self.has_run = self.totals.sched.exec_ns > before;
        &self.totals
    }
}
