//! The threads of a process: their sums, and rows for them if asked for.
//!
//! In: a process with more than one thread. Out: what the threads beside the leader used, those
//! that ended since we first looked included, and a row for each thread, the leader among them.
//! What an ended thread used between our last look and its end is in no file of `/proc`.

use super::descriptors::{File, Files, open};
use super::pass::{Gone, Pass, Task};
use super::path::Path;
use super::process::named;
use super::row;
use super::sums::Sums;
use monitor_model::field::ProcessField;
use monitor_model::sample::Process;
use monitor_proc::io;
use monitor_proc::schedstat;
use monitor_proc::schedstat::Schedstat;
use monitor_proc::stat;
use monitor_proc::stat::Stat;
use monitor_proc::status;
use monitor_proc::status::Memory;
use std::os::fd::{AsFd, BorrowedFd};

/// Descriptors of a thread of which only the sums are read.
const DESCRIPTORS: usize = 2;

/// What is remembered of the threads between two readings.
#[derive(Debug, Default)]
pub struct Threads {
    live: Vec<Thread>,
    /// What the ended ones had used when they were last seen.
    ended: Sums,
}

#[derive(Debug)]
struct Thread {
    tid: u32,
    files: Files,
    last: Sums,
}

/// A process whose threads are read.
pub struct Group<'a> {
    /// Its id, which is that of its leader.
    pub pid: u32,
    /// Its directory.
    pub dir: BorrowedFd<'a>,
    /// Its own line.
    pub stat: &'a Stat,
    /// Whether it has a seat; its threads then may have some.
    pub kept: bool,
}

/// What was found.
#[derive(Default)]
pub struct Found {
    /// What all threads but the leader used.
    pub sums: Sums,
    /// Memory of the process, if the leader has ended and so shows none.
    pub memory: Option<Memory>,
    /// Rows, in the order of their identities.
    pub rows: Vec<Process>,
}

impl Threads {
    /// Those of a process that executed a file: the threads are gone, their sums are kept.
    pub fn after_execution(ended: Sums) -> Self {
        Self { live: Vec::new(), ended }
    }

    /// Whether there never was a thread beside the leader.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty() && self.ended == Sums::default()
    }

    /// Makes `live` those that are listed; what others used becomes `ended`.
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

    /// Moves what it used to the ended ones; its id may come back as that of a new thread.
    fn end(&mut self, leader: u32, ended: &mut Sums) {
        // The leader is summed with the process, not here.
        if self.tid != leader {
            ended.add(&self.last);
        }
        *self = Self::new(self.tid);
    }
}

impl Pass<'_> {
    /// Reads the threads of a process.
    pub fn threads(&mut self, group: &Group<'_>, threads: &mut Threads) -> Found {
        self.list(group, threads);
        let mut found = Found::default();
        for thread in &mut threads.live {
            match self.thread(group, thread, &mut found) {
                Ok(row) => found.rows.extend(row),
                Err(Gone) => thread.end(group.pid, &mut threads.ended),
            }
            if thread.tid != group.pid {
                found.sums.add(&thread.last);
            }
        }
        // Where executions cannot be seen, an ended thread may have become the leader.
        if group.stat.image == 0 && group.stat.state != b'Z' {
            threads.ended = Sums::default();
        }
        found.sums.add(&threads.ended);
        found.rows.sort_unstable_by_key(|row| row.id);
        found
    }

    fn list(&mut self, group: &Group<'_>, threads: &mut Threads) {
        let rows = self.want.threads;
        if group.stat.threads <= 1 && !rows {
            if !threads.live.is_empty() {
                threads.update(group.pid, std::iter::empty());
            }
            return;
        }
        let Ok(dir) = open(group.dir, c"task") else { return };
        // It fails only when the process has ended, which the next reading will see.
        let Ok(tids) = self.listing.read(dir.as_fd()) else { return };
        let listed = tids.iter().copied().filter(|&tid| rows || tid != group.pid);
        threads.update(group.pid, listed);
    }

    fn thread(
        &mut self,
        group: &Group<'_>,
        thread: &mut Thread,
        found: &mut Found,
    ) -> Result<Option<Process>, Gone> {
        let room = if self.want.threads { File::COUNT } else { DESCRIPTORS };
        if group.kept && thread.files.room() < room {
            thread.files = Files::with(self.budget.seat(room));
        }
        let path = Path::of_thread(thread.tid);
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
        group: &Group<'_>,
        found: &mut Found,
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
            // Every switch is booked: with the same books there was none, and `status` costs six
            // times as much as they do.
            last.switches
        } else {
            self.text(task, File::Status, status::switches)?.unwrap_or_default()
        };
        Ok(Sums { sched, switches })
    }

    fn row(&mut self, tid: u32, task: &mut Task<'_>, sums: &Sums) -> Result<Option<Process>, Gone> {
        let tick_ns = self.kernel.tick_ns;
        let Some(stat) = self.text(task, File::Stat, stat::parse)? else { return Ok(None) };
        let mut it = named(tid, &stat, tick_ns);
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
