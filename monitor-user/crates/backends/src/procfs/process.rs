//! One process: which files are read, and what becomes of them.
//!
//! In: a pid and what is remembered of it. Out: a `Process`, or nothing if it ended. All files of
//! a reading are opened below one descriptor of `/proc/<pid>`, which never becomes that of a
//! later process with the same pid; so no row mixes two processes.

use super::descriptors::{File, Files, Missing, open, open_dir};
use super::entry::{Entry, Idle, Texts};
use super::pass::{Gone, Pass, Task};
use super::path::Path;
use super::row;
use super::sums::Sums;
use super::thread::Group;
use monitor_model::field::ProcessField;
use monitor_model::field::process::ProcessRow;
use monitor_model::id::{Identity, Ns, Pid};
use monitor_model::sample::Process;
use monitor_proc::stat;
use monitor_proc::stat::Stat;
use monitor_proc::status;
use monitor_proc::status::Status;
use monitor_proc::{io, schedstat, smaps};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Descriptors of one process: its directory and its files.
const DESCRIPTORS: usize = 1 + File::COUNT;

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
        let found = self.threads(&group, &mut entry.threads);
        process.threads = found.rows;
        let totals = entry.total(&texts, found.sums, tick_ns);
        set_totals(&mut process.row, &texts, totals);
        if let Some(mut status) = texts.status {
            // A leader that ended before its threads has no memory; theirs is the process's.
            status.memory = found.memory.unwrap_or(status.memory);
            row::set_status(&mut process.row, &status);
            process.unlent = status.plain && dumpable(dir, status.uid);
            self.share(&mut process, &status, dir);
        }
        Ok(process)
    }

    /// The files of every process. The line that tells of an execution is read after the counters
    /// of the leader, which an execution by another thread replaces.
    fn texts(&mut self, task: &mut Task<'_>, idle: Option<Idle>) -> Result<Texts, Without> {
        let sched = match self.kernel.schedstat {
            true => self.text(task, File::Schedstat, schedstat::parse)?,
            false => None,
        };
        let status = self.text(task, File::Status, status::parse)?;
        // The id of a thread opens a directory as well, which speaks of its process.
        if status.is_some_and(|status| status.tgid != u64::from(task.pid)) {
            return Err(Without::Process);
        }
        let stat = self.text(task, File::Stat, stat::parse)?.ok_or(Without::Stat)?;
        let io = match idle.filter(|idle| idle.holds(&stat, sched)) {
            Some(idle) => Some(idle.io),
            None if self.kernel.io => self.text(task, File::Io, io::parse)?,
            None => None,
        };
        Ok(Texts { stat, status, io, sched })
    }

    /// The proportional share, if it is wanted and there is any memory to share.
    fn share(&mut self, process: &mut Process, status: &Status, dir: BorrowedFd<'_>) {
        if !self.want.wants(ProcessField::Pss)
            || status.memory.rss.is_none()
            || !self.want.pss_of.means(process)
        {
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

/// Whether it may be dumped: then the files that only its owner reads are his, else they are
/// root's (`task_dump_owner` of fs/proc/base.c).
fn dumpable(dir: BorrowedFd<'_>, uid: u64) -> bool {
    let owner = rustix::fs::statat(dir, c"io", rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
    owner.is_ok_and(|it| u64::from(it.st_uid) == uid)
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
