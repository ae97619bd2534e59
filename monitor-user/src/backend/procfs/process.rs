//! One process: which files are read, and what becomes of them.
//!
//! In: a pid and what is remembered of it. Out: a `Process`, or nothing if it ended. All files of
//! a reading are opened below one descriptor of `/proc/<pid>`, which never becomes that of a
//! later process with the same pid; so no row mixes two processes.
//!
//! `cpu_ns` is the greatest of three values, none of which can be more than the truth: user and
//! system time of `stat` (all threads, ended ones too, each rounded down to a tick), exact time of
//! `schedstat` summed over the threads seen, and the value before. It is exact while no thread
//! has ended unseen, and else less than two ticks short.

use super::descriptors::{File, Files, Missing, open, open_dir};
use super::io::{self, Io};
use super::pass::{Gone, Pass, Task};
use super::path::Path;
use super::schedstat::{self, Schedstat};
use super::stat::{self, Stat};
use super::status::{self, Status};
use super::sums::Sums;
use super::thread::{Group, Threads};
use super::{row, smaps};
use crate::model::field::ProcessField;
use crate::model::field::process::ProcessRow;
use crate::model::id::{Identity, Ns, Pid};
use crate::model::sample::Process;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Descriptors of one process: its directory and its files.
const DESCRIPTORS: usize = 1 + File::COUNT;

/// What is remembered of a process between two readings.
#[derive(Debug, Default)]
pub struct Entry {
    /// `/proc/<pid>`, if there is a seat for it.
    dir: Option<OwnedFd>,
    files: Files,
    start_ticks: u64,
    uid: u64,
    threads: Threads,
    /// The highest totals so far.
    totals: Sums,
    idle: Option<Idle>,
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
struct Idle {
    start_ticks: u64,
    books: Schedstat,
    io: Io,
}

/// What the files of a process say.
#[derive(Clone, Copy)]
struct Texts {
    stat: Stat,
    status: Option<Status>,
    io: Option<Io>,
    /// Of the leader.
    sched: Option<Schedstat>,
}

/// Why there is no row.
enum Without {
    /// It ended.
    Process,
    /// Its `stat` is counted as trouble.
    Stat,
}

impl From<Gone> for Without {
    fn from(_: Gone) -> Self {
        Self::Process
    }
}

impl Pass<'_> {
    /// Reads one process.
    pub fn process(&mut self, pid: u32, entry: &mut Entry) -> Option<Process> {
        if let Some(dir) = entry.dir.take() {
            match self.read(pid, dir.as_fd(), entry) {
                Err(Without::Process) => *entry = Entry::default(),
                other => {
                    entry.dir = Some(dir);
                    return other.ok();
                }
            }
        }
        // Not seen before, without a seat, or ended; in the last case its pid may be in use again.
        let dir = self.open(pid)?;
        if !entry.files.kept() {
            entry.files = Files::with(self.budget.seat(DESCRIPTORS));
        }
        let process = self.read(pid, dir.as_fd(), entry).ok();
        entry.dir = entry.files.kept().then_some(dir);
        process
    }

    fn open(&mut self, pid: u32) -> Option<OwnedFd> {
        match open_dir(self.proc, Path::of_process(pid).as_c_str()).map_err(Missing::from) {
            Ok(dir) => return Some(dir),
            Err(Missing::Gone) => {}
            Err(Missing::Denied) => self.trouble.hidden += 1,
            Err(Missing::Failed(errno)) => self.trouble.failed(pid, "", errno),
        }
        None
    }

    fn read(
        &mut self,
        pid: u32,
        dir: BorrowedFd<'_>,
        entry: &mut Entry,
    ) -> Result<Process, Without> {
        let tick_ns = self.kernel.tick_ns;
        let files = &mut entry.files;
        let mut task = Task { pid, dir, path: &Path::HERE, files, counted: true };
        let texts = self.texts(&mut task, entry.idle)?;
        entry.recognise(&texts);
        let mut process = named(pid, &texts.stat, tick_ns);
        row::set_stat(&mut process.row, &texts.stat, tick_ns);
        process.row.set(ProcessField::Threads, texts.stat.threads);
        if let Some(io) = &texts.io {
            row::set_io(&mut process.row, io);
        }
        let group = Group { pid, dir, stat: &texts.stat, kept: entry.files.kept() };
        let found = self.threads(&group, &mut entry.threads)?;
        process.threads = found.rows;
        let totals = entry.total(&texts, found.sums, tick_ns);
        set_totals(&mut process.row, &texts, totals);
        if let Some(mut status) = texts.status {
            // A leader that ended before its threads has no memory; theirs is the process's.
            status.memory = found.memory.unwrap_or(status.memory);
            row::set_status(&mut process.row, &status);
            self.share(&mut process, &status, dir);
        }
        Ok(process)
    }

    /// The files of every process.
    fn texts(&mut self, task: &mut Task<'_>, idle: Option<Idle>) -> Result<Texts, Without> {
        let stat = self.text(task, File::Stat, stat::parse)?.ok_or(Without::Stat)?;
        let status = self.text(task, File::Status, status::parse)?;
        // The id of a thread opens a directory as well, which speaks of its process.
        if status.is_some_and(|status| status.tgid != u64::from(task.pid)) {
            return Err(Without::Process);
        }
        let sched = match self.kernel.schedstat {
            true => self.text(task, File::Schedstat, schedstat::parse)?,
            false => None,
        };
        let io = match idle.filter(|idle| idle.holds(&stat, sched)) {
            Some(idle) => Some(idle.io),
            None if self.kernel.io => self.text(task, File::Io, io::parse)?,
            None => None,
        };
        Ok(Texts { stat, status, io, sched })
    }

    /// The proportional share, if it is wanted and there is any memory to share.
    fn share(&mut self, process: &mut Process, status: &Status, dir: BorrowedFd<'_>) {
        if !self.want.wants(ProcessField::Pss) || status.memory.rss.is_none() {
            return;
        }
        let pid = process.id.pid.0;
        let text = open(dir, c"smaps_rollup").and_then(|fd| self.buffer.read(&fd));
        match text.map(smaps::parse).map_err(Missing::from) {
            Ok(Ok(bytes)) => process.row.set(ProcessField::Pss, bytes),
            Ok(Err(error)) => self.trouble.malformed(pid, "smaps_rollup", error),
            // Its memory went before it did, or the kernel is older than 4.14.
            Err(Missing::Gone) => {}
            Err(Missing::Denied) => self.trouble.pss_denied += 1,
            Err(Missing::Failed(errno)) => self.trouble.failed(pid, "smaps_rollup", errno),
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
    fn holds(&self, stat: &Stat, sched: Option<Schedstat>) -> bool {
        let same = stat.start_ticks == self.start_ticks && sched == Some(self.books);
        same && stat.threads == 1 && stat.state != b'R'
    }
}

impl Entry {
    /// Takes note of who it is; without a descriptor its pid may have passed to another.
    fn recognise(&mut self, texts: &Texts) {
        let stat = &texts.stat;
        if self.start_ticks != stat.start_ticks {
            self.start_ticks = stat.start_ticks;
            self.threads = Threads::default();
            self.totals = Sums::default();
        }
        self.idle = Idle::of(texts);
        self.generation = stat.generation();
        if let Some(status) = texts.status.filter(|status| status.uid != self.uid) {
            self.uid = status.uid;
            self.files.retry_denied();
        }
    }

    /// Its totals, which never go backwards.
    fn total(&mut self, texts: &Texts, others: Sums, tick_ns: u64) -> &Sums {
        let mut sums = others;
        sums.add(&Sums {
            sched: texts.sched.unwrap_or_default(),
            switches: texts.status.map(|status| status.switches).unwrap_or_default(),
        });
        let ticks = texts.stat.user_ticks.saturating_add(texts.stat.system_ticks);
        sums.sched.exec_ns = sums.sched.exec_ns.max(ticks.saturating_mul(tick_ns));
        self.totals.raise_to(&sums);
        &self.totals
    }
}

fn set_totals(row: &mut ProcessRow, texts: &Texts, totals: &Sums) {
    row.set(ProcessField::CpuTime, totals.sched.exec_ns);
    if texts.sched.is_some() {
        row::set_delay(row, totals);
    }
    if texts.status.is_some() {
        row::set_switches(row, totals);
    }
}

/// A process or thread with its identity and name.
pub fn named(id: u32, stat: &Stat, tick_ns: u64) -> Process {
    let start = Ns(stat.start_ticks.saturating_mul(tick_ns));
    let mut it =
        Process { id: Identity { pid: Pid(id), start }, comm: stat.comm, ..Process::default() };
    it.row.set(ProcessField::Pid, u64::from(id));
    it
}
