//! What is remembered of a process between two readings, and what it is good for.
//!
//! In: what the files of a process say. Out: totals that never go backwards, whether `io` must be
//! read again, and whether a pid has passed to another process. Reads nothing itself.
//!
//! `cpu_ns` is the greatest of three values, none of which can be more than the truth: user and
//! system time of `stat` (all threads, ended ones too, each rounded down to a tick), exact time of
//! `schedstat` summed over the threads seen, and the value before. It is exact while no thread
//! has ended unseen, and else less than two ticks short.
//!
//! When a thread that is not the leader executes a file, it takes the leader's id and brings its
//! own counters. What it was counted for before must not be counted again.

use super::descriptors::Files;
use super::sums::Sums;
use super::thread::Threads;
use monitor_proc::io::Io;
use monitor_proc::schedstat::Schedstat;
use monitor_proc::stat::Stat;
use monitor_proc::status::Status;
use std::os::fd::OwnedFd;

/// What is remembered of a process between two readings.
#[derive(Debug, Default)]
pub struct Entry {
    /// `/proc/<pid>`, if there is a seat for it.
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
    /// What need not be read again while it does not run.
    pub idle: Option<Idle>,
    /// Changes with each execution.
    pub generation: u32,
    /// The last reading that met it.
    pub round: u64,
}

/// What `io` said, and the scheduler's books just before.
///
/// I/O is counted to whoever runs. While the books of a process with one thread are the same it
/// has not run, so `io` still says the same and need not be read: a tenth of the cost.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    start_ticks: u64,
    books: Schedstat,
    /// What `io` said.
    pub io: Io,
}

/// What the files of a process say.
#[derive(Clone, Copy)]
pub struct Texts {
    /// `stat`.
    pub stat: Stat,
    /// `status`.
    pub status: Option<Status>,
    /// `io`.
    pub io: Option<Io>,
    /// `schedstat`, of the leader alone.
    pub sched: Option<Schedstat>,
}

impl Texts {
    /// What the leader used.
    fn leader(&self) -> Sums {
        Sums {
            sched: self.sched.unwrap_or_default(),
            switches: self.status.map(|status| status.switches).unwrap_or_default(),
        }
    }
}

impl Idle {
    /// What to compare with at the next reading.
    fn of(texts: &Texts) -> Option<Self> {
        let (Some(books), Some(io)) = (texts.sched, texts.io) else { return None };
        let start_ticks = texts.stat.start_ticks;
        (texts.stat.threads == 1).then_some(Self { start_ticks, books, io })
    }

    /// Whether it has not run since. One that runs now may have books up to a tick old.
    pub fn holds(&self, stat: &Stat, sched: Option<Schedstat>) -> bool {
        let same = stat.start_ticks == self.start_ticks && sched == Some(self.books);
        same && stat.threads == 1 && stat.state != b'R'
    }
}

impl Entry {
    /// Takes note of who it is; without a descriptor its pid may have passed to another.
    pub fn recognise(&mut self, texts: &Texts) {
        let stat = &texts.stat;
        if self.start_ticks != stat.start_ticks {
            self.start_ticks = stat.start_ticks;
            self.threads = Threads::default();
            self.totals = Sums::default();
        } else if stat.executed_since(self.image) && !self.threads.is_empty() {
            self.threads = Threads::after_execution(self.totals.beyond(&texts.leader()));
        }
        if stat.image != 0 {
            self.image = stat.image;
        }
        self.idle = Idle::of(texts);
        self.generation = stat.generation();
        if let Some(status) = texts.status.filter(|status| status.uid != self.uid) {
            self.uid = status.uid;
            self.files.retry_denied();
        }
    }

    /// Its totals, which never go backwards.
    pub fn total(&mut self, texts: &Texts, others: Sums, tick_ns: u64) -> &Sums {
        let mut sums = others;
        sums.add(&texts.leader());
        let ticks = texts.stat.user_ticks.saturating_add(texts.stat.system_ticks);
        sums.sched.exec_ns = sums.sched.exec_ns.max(ticks.saturating_mul(tick_ns));
        self.totals.raise_to(&sums);
        &self.totals
    }
}
