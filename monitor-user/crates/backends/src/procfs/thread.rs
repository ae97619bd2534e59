//! Threads of a process: their sums, and their rows if requested.
//!
//! In: a process with more than one thread. Out: the sums of the threads besides the leader,
//! including those that ended since the first reading, and a row for each thread, including the
//! leader. What an ended thread used after its last reading is not in `/proc`.

use super::descriptors::{Files, open};
use super::pass::{Gone, ReadPass, Task};
use super::path::{File, Path};
use super::{row, sums::Sums};
use monitor_model::{Process, ProcessField};
use monitor_proc::io;
use monitor_proc::schedstat::{self, Schedstat};
use monitor_proc::stat::{self, Stat};
use monitor_proc::status::{self, Memory};
use std::os::fd::{AsFd, BorrowedFd};

/// Descriptors of a thread of which only sums are read.
const DESCRIPTORS: usize = 2;

/// Cached state of the threads of a process.
#[derive(Debug, Default)]
pub struct Threads {
    live: Vec<Thread>,
    /// Sums of ended threads when they were last read.
    ended: Sums,
}

#[derive(Debug)]
struct Thread {
    tid: u32,
    files: Files,
    last: Sums,
}

/// A process whose threads are read.
pub struct ThreadGroup<'a> {
    /// Its pid, the id of the leader.
    pub pid: u32,
    /// Its directory.
    pub dir: BorrowedFd<'a>,
    /// Its parsed `stat`.
    pub stat: &'a Stat,
    /// Whether its descriptors stay open; then those of its threads may.
    pub kept: bool,
}

/// What was read.
#[derive(Default)]
pub struct ThreadsRead {
    /// Sums of all threads but the leader.
    pub sums: Sums,
    /// Memory of the process, if the leader has ended and has none.
    pub memory: Option<Memory>,
    /// Rows, in the order of their identities.
    pub rows: Vec<Process>,
}

impl Threads {
    /// State after an exec: the threads have ended, their sums are kept.
    pub fn after_execution(ended: Sums) -> Self {
        Self { live: Vec::new(), ended }
    }

    /// Whether there never was a thread besides the leader.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty() && self.ended == Sums::default()
    }

    /// Sets `live` to the listed threads; the sums of others are added to `ended`.
    fn update(&mut self, leader: u32, tids: impl Iterator<Item = u32>) {
        let mut old = std::mem::take(&mut self.live).into_iter().peekable();
        for tid in tids {
            while let Some(mut thread) = old.next_if(|thread| thread.tid < tid) {
                thread.end(leader, &mut self.ended);
            }
            let known = old.next_if(|thread| thread.tid == tid);
            self.live.push(known.unwrap_or_else(|| Thread::new(tid)));
        }
        for mut thread in old {
            thread.end(leader, &mut self.ended);
        }
    }
}

impl Thread {
    fn new(tid: u32) -> Self {
        Self { tid, files: Files::default(), last: Sums::default() }
    }

    /// Adds its sums to those of ended threads; its id may be reused by a new thread.
    fn end(&mut self, leader: u32, ended: &mut Sums) {
        // The leader is summed with the process, not here.
        if self.tid != leader {
            ended.add(&self.last);
        }
        *self = Self::new(self.tid);
    }
}

impl ReadPass<'_> {
    /// Reads the threads of a process.
    pub fn threads(&mut self, group: &ThreadGroup<'_>, threads: &mut Threads) -> ThreadsRead {
        self.list(group, threads);
        let mut found = ThreadsRead::default();
        for thread in &mut threads.live {
            match self.thread(group, thread, &mut found) {
                Ok(row) => found.rows.extend(row),
                Err(Gone) => thread.end(group.pid, &mut threads.ended),
            }
            if thread.tid != group.pid {
                found.sums.add(&thread.last);
            }
        }
        // If execs cannot be detected, an ended thread may have become the leader.
        if group.stat.image == 0 && group.stat.state != b'Z' {
            threads.ended = Sums::default();
        }
        found.sums.add(&threads.ended);
        found.rows.sort_unstable_by_key(|row| row.id);
        found
    }

    fn list(&mut self, group: &ThreadGroup<'_>, threads: &mut Threads) {
        let rows = self.want.threads;
        if group.stat.threads <= 1 && !rows {
            if !threads.live.is_empty() {
                threads.update(group.pid, std::iter::empty());
            }
            return;
        }
        let Ok(dir) = open(group.dir, c"task") else { return };
        // It fails only if the process has ended, which the next reading will detect.
        let Ok(tids) = self.listing.read(dir.as_fd()) else { return };
        let listed = tids.iter().copied().filter(|&tid| rows || tid != group.pid);
        threads.update(group.pid, listed);
    }

    fn thread(
        &mut self,
        group: &ThreadGroup<'_>,
        thread: &mut Thread,
        found: &mut ThreadsRead,
    ) -> Result<Option<Process>, Gone> {
        let capacity = if self.want.threads { File::COUNT } else { DESCRIPTORS };
        if group.kept && thread.files.capacity() < capacity {
            thread.files = Files::with(self.budget.reserve(capacity));
        }
        let path = Path::from_tid(thread.tid);
        let files = &mut thread.files;
        let mut task = Task { pid: group.pid, dir: group.dir, path: &path, files, counted: false };
        let sums = self.sums(&mut task, thread.last, group, found)?;
        let row = match self.want.threads {
            true => self.row(thread.tid, &mut task, &sums)?,
            false => None,
        };
        thread.last = sums;
        Ok(row)
    }

    fn sums(
        &mut self,
        task: &mut Task<'_>,
        last: Sums,
        group: &ThreadGroup<'_>,
        found: &mut ThreadsRead,
    ) -> Result<Sums, Gone> {
        let sched = match self.kernel.schedstat {
            true => self.text(task, File::Schedstat, schedstat::parse)?.unwrap_or_default(),
            false => Schedstat::default(),
        };
        let whole = group.stat.state == b'Z' && found.memory.is_none();
        let switches = if whole {
            let status = self.text(task, File::Status, status::parse)?.unwrap_or_default();
            found.memory = status.memory.rss.map(|_| status.memory);
            status.switches
        } else if sched.runs > 0 && sched == last.sched {
            // An unchanged `schedstat` means no switches, and `status` costs six times as much.
            last.switches
        } else {
            self.text(task, File::Status, status::switches)?.unwrap_or_default()
        };
        Ok(Sums { sched, switches })
    }

    fn row(&mut self, tid: u32, task: &mut Task<'_>, sums: &Sums) -> Result<Option<Process>, Gone> {
        let tick_ns = self.kernel.tick_ns;
        let Some(stat) = self.text(task, File::Stat, stat::parse)? else { return Ok(None) };
        let mut it = row::named(tid, &stat, tick_ns);
        it.row.set(ProcessField::Pid, u64::from(task.pid));
        it.row.set(ProcessField::Tid, u64::from(tid));
        row::set_stat(&mut it.row, &stat, tick_ns);
        row::set_switches(&mut it.row, sums);
        let ticks = stat.user_ticks.saturating_add(stat.system_ticks);
        it.row.set(ProcessField::CpuTime, sums.sched.exec_ns.max(ticks.saturating_mul(tick_ns)));
        if self.kernel.schedstat {
            row::set_delay(&mut it.row, sums);
        }
        if self.kernel.io {
            let io = self.text(task, File::Io, io::parse)?;
            io.iter().for_each(|io| row::set_io(&mut it.row, io));
        }
        Ok(Some(it))
    }
}
