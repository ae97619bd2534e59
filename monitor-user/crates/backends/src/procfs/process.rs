//! Reads one process: its files, and the fields set from them.
//!
//! In: a pid and its cached state. Out: a `Process`, or none if it ended. All files of a reading
//! are opened below one descriptor of `/proc/<pid>`, which never refers to a later process with the
//! same pid; so no row mixes two processes.

use super::descriptors::{Files, ReadFailure, open, open_dir};
use super::pass::{Gone, ReadPass, Task};
use super::path::{File, Path};
use super::pid_cache::{Idle, PidEntry, ProcTexts};
use super::zombie::{self, Exited, Processor};
use super::{row, sums::Sums, thread::ThreadGroup};
use monitor_model::{Process, ProcessField, ProcessRow};
use monitor_proc::status::{self, Status};
use monitor_proc::{io, schedstat, smaps, stat};
use monitor_sys::pidfd;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Descriptors of one process: its directory and its files.
const DESCRIPTORS: usize = 1 + File::COUNT;

/// Why there is no row.
enum NoRow {
    /// It ended.
    Process,
    /// Its `stat` could not be read, which is counted as an error.
    Stat,
}

impl From<Gone> for NoRow {
    fn from(_: Gone) -> Self {
        Self::Process
    }
}

impl ReadPass<'_> {
    /// Reads one process.
    pub fn process(&mut self, pid: u32, entry: &mut PidEntry) -> Option<Process> {
        if let Some(dir) = entry.dir.take() {
            match self.read(pid, dir.as_fd(), entry) {
                Err(NoRow::Process) => *entry = PidEntry::default(),
                other => {
                    entry.dir = Some(dir);
                    return other.ok();
                }
            }
        }
        // New, without a slot, or ended; in the last case its pid may have been reused.
        let dir = self.open(pid)?;
        if !entry.files.kept() {
            entry.files = Files::with(self.budget.reserve(DESCRIPTORS));
        }
        let process = self.read(pid, dir.as_fd(), entry).ok();
        entry.dir = entry.files.kept().then_some(dir);
        process
    }

    fn open(&mut self, pid: u32) -> Option<OwnedFd> {
        match open_dir(self.proc, Path::from_pid(pid).as_c_str()).map_err(ReadFailure::from) {
            Ok(dir) => return Some(dir),
            Err(ReadFailure::Gone) => {}
            Err(ReadFailure::Denied) => self.errors.hidden += 1,
            Err(ReadFailure::Failed(errno)) => self.errors.failed(pid, "", errno),
        }
        None
    }

    fn read(
        &mut self,
        pid: u32,
        dir: BorrowedFd<'_>,
        entry: &mut PidEntry,
    ) -> Result<Process, NoRow> {
        let tick_ns = self.kernel.tick_ns;
        let files = &mut entry.files;
        let mut task = Task { pid, dir, path: &Path::HERE, files, counted: true };
        let mut texts = self.texts(&mut task, entry.idle)?;
        if texts.stat.is_zombie() {
            entry.exited = self.exited(&mut task, entry.exited, &mut texts)?;
        }
        entry.update_identity(&texts);
        let mut process = row::named(pid, &texts.stat, tick_ns);
        row::set_stat(&mut process.row, &texts.stat, tick_ns);
        zombie::set_end(&mut process.row, &texts.stat, entry.exited);
        process.row.set(ProcessField::Threads, texts.stat.threads);
        if let Some(io) = &texts.io {
            row::set_io(&mut process.row, io);
        }
        let group = ThreadGroup { pid, dir, stat: &texts.stat, kept: entry.files.kept() };
        let found = self.threads(&group, &mut entry.threads);
        process.threads = found.rows;
        let totals = entry.total(&texts, found.sums, tick_ns);
        set_totals(&mut process.row, &texts, totals);
        if let Some(mut status) = texts.status {
            // A leader that ended before its threads has no memory; theirs is that of the process.
            status.memory = found.memory.unwrap_or(status.memory);
            row::set_status(&mut process.row, &status);
            process.readable_by_owner = status.plain && dumpable(dir, status.uid);
            self.read_pss(&mut process, &status, dir);
        }
        Ok(process)
    }

    /// Reads the files of a process. `stat`, which shows an exec, is read after the counters of the
    /// leader, which an exec by another thread replaces.
    fn texts(&mut self, task: &mut Task<'_>, idle: Option<Idle>) -> Result<ProcTexts, NoRow> {
        let sched = match self.kernel.schedstat {
            true => self.text(task, File::Schedstat, schedstat::parse)?,
            false => None,
        };
        let status = self.text(task, File::Status, status::parse)?;
        // The id of a thread also has a directory, with values of its process.
        if status.is_some_and(|status| status.tgid != u64::from(task.pid)) {
            return Err(NoRow::Process);
        }
        let stat = self.text(task, File::Stat, stat::parse)?.ok_or(NoRow::Stat)?;
        let io = match idle.filter(|idle| idle.holds(&stat, sched)) {
            Some(idle) => Some(idle.io),
            None if self.kernel.io => self.text(task, File::Io, io::parse)?,
            None => None,
        };
        Ok(ProcTexts { stat, status, io, sched })
    }

    /// How a zombie ended; none while it is on a processor, where its counters still grow.
    fn exited(
        &mut self,
        task: &mut Task<'_>,
        known: Option<Exited>,
        texts: &mut ProcTexts,
    ) -> Result<Option<Exited>, NoRow> {
        let start_ticks = texts.stat.start_ticks;
        if known.is_some_and(|it| it.start_ticks == start_ticks) {
            return Ok(known);
        }
        let processor = zombie::processor(task.dir, self.buffer);
        if processor == Processor::On {
            return Ok(None);
        }
        if processor == Processor::Left {
            *texts = self.texts(task, None)?; // Its last switch may be later than the first texts.
        }
        let is_shown = processor == Processor::Left;
        let code = is_shown.then(|| pidfd::exit_code(texts.stat.exit_code));
        Ok(Some(Exited { start_ticks, code }))
    }

    /// Reads the PSS, if it is requested and the process has memory.
    fn read_pss(&mut self, process: &mut Process, status: &Status, dir: BorrowedFd<'_>) {
        if !self.want.wants(ProcessField::Pss)
            || status.memory.rss.is_none()
            || !self.want.pss_of.matches(process)
        {
            return;
        }
        let pid = process.id.pid.0;
        let text = open(dir, c"smaps_rollup").and_then(|fd| self.buffer.read(&fd));
        match text.map(smaps::parse).map_err(ReadFailure::from) {
            Ok(Ok(bytes)) => process.row.set(ProcessField::Pss, bytes),
            Ok(Err(error)) => self.errors.malformed(pid, "smaps_rollup", error),
            // It is exiting and has no memory, or the kernel is older than 4.14.
            Err(ReadFailure::Gone) => {}
            Err(ReadFailure::Denied) => self.errors.pss_denied += 1,
            Err(ReadFailure::Failed(errno)) => self.errors.failed(pid, "smaps_rollup", errno),
        }
    }
}

/// Whether it is dumpable: then its files belong to its user, otherwise to root (`task_dump_owner`
/// of fs/proc/base.c).
fn dumpable(dir: BorrowedFd<'_>, uid: u64) -> bool {
    let owner = rustix::fs::statat(dir, c"io", rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
    owner.is_ok_and(|it| u64::from(it.st_uid) == uid)
}

fn set_totals(row: &mut ProcessRow, texts: &ProcTexts, totals: &Sums) {
    row.set(ProcessField::CpuTime, totals.sched.exec_ns);
    if texts.sched.is_some() {
        row::set_delay(row, totals);
    }
    if texts.status.is_some() {
        row::set_switches(row, totals);
    }
}
