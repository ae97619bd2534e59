//! One tool at a time at the PMIx server of a job, and a pause after each.
//!
//! In: the folder of the server. Out: the turn of this tool, until the value is dropped. PRRTE ends
//! only when its tools have left, and libpmix reports connections that are lost within a second as
//! one event, with the first of them as its source (`PMIX_REPORT_EVENT` of `pmix_event.h`,
//! `lost_connection_hdlr` of PRRTE 3.0): after two that are lost together, `mpirun` waits for ever
//! for the second. Ranks that end without `PMIx_Finalize` count, too.

use monitor_model::Identity;
use monitor_sys::pidfd::PidFd;
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The file with the turn; the server removes it with its folder.
const FILE: &str = "monitor.tool-turn";
/// How long libpmix puts lost connections together (`pmix_event_caching_window`, 1 s), and more.
const TOGETHER: Duration = Duration::from_millis(1500);
/// How long a tool waits for its turn.
const LIMIT: Duration = Duration::from_secs(30);
/// How often it looks.
const PERIOD: Duration = Duration::from_millis(20);
/// The byte of the file while a tool is connected.
const CONNECTED: u8 = b'c';
/// The byte of the file, written when the last one left. A new file is empty.
const LEFT: u8 = b'l';

/// The turn of this process: no other tool of this program connects, and none has left just now.
pub struct ToolTurn(File);

impl ToolTurn {
    /// Waits for the turn at the server with this folder.
    ///
    /// # Errors
    /// If the folder is not writable, or other tools do not leave in time (`TimedOut`).
    pub fn take(folder: &Path) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let path = folder.join(FILE);
        let file = File::from(openat(CWD, &path, flags, Mode::RUSR | Mode::WUSR)?);
        let until = Instant::now() + LIMIT;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                    let why = format!("other tools did not leave within {LIMIT:?}");
                    return Err(io::Error::new(io::ErrorKind::TimedOut, why));
                }
                Err(TryLockError::WouldBlock) => sleep(PERIOD),
            }
        }
        sleep(pause_after(&file)?);
        file.write_all_at(&[CONNECTED], 0)?;
        Ok(Self(file))
    }
}

/// The tool has left.
impl Drop for ToolTurn {
    fn drop(&mut self) {
        // If it fails, this tool counts as one that was killed: the next one waits longer.
        let _marked = self.0.write_all_at(&[LEFT], 0);
    }
}

/// How long the next tool waits. When one that was killed has left is not known.
fn pause_after(file: &File) -> io::Result<Duration> {
    let mut last = [0];
    if file.read_at(&mut last, 0)? == 0 {
        return Ok(Duration::ZERO);
    }
    if last == [CONNECTED] {
        return Ok(TOGETHER);
    }
    // A time to come is that of a clock that was set back since.
    let since = file.metadata()?.modified()?.elapsed().unwrap_or_default();
    Ok(TOGETHER.saturating_sub(since))
}

/// The processes of a job while a tool is connected.
pub struct JobProcesses {
    processes: Vec<PidFd>,
    /// How many had ended at the last pause.
    ended: usize,
}

impl JobProcesses {
    /// Those that have not ended yet.
    pub fn open<'p>(processes: impl Iterator<Item = &'p Identity>) -> Self {
        let processes = processes.filter_map(|it| PidFd::open(it.pid).ok()).collect();
        Self { processes, ended: 0 }
    }

    /// Waits until no other one has ended for long enough: their connections may have been lost
    /// just now. The server ends the others after one, some of them seconds later.
    pub fn pause(&mut self) {
        loop {
            let ended = self.processes.iter().filter(|it| it.has_ended()).count();
            if ended == self.ended {
                return;
            }
            self.ended = ended;
            sleep(TOGETHER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::{Ns, Pid};
    use std::time::SystemTime;

    fn file(name: &str) -> File {
        let path = std::env::temp_dir().join(format!("tool-turn.{name}.{}", std::process::id()));
        let file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }

    #[track_caller]
    fn check_pause(name: &str, last: u8, modified: SystemTime, want: Duration) {
        let file = file(name);
        file.write_all_at(&[last], 0).unwrap();
        file.set_modified(modified).unwrap();
        assert_eq!(pause_after(&file).unwrap(), want);
    }

    #[test]
    fn the_first_tool_does_not_wait() {
        assert_eq!(pause_after(&file("new")).unwrap(), Duration::ZERO);
    }

    #[test]
    fn a_tool_waits_until_the_last_one_has_left_for_long_enough() {
        let now = SystemTime::now();
        check_pause("left", LEFT, now - TOGETHER, Duration::ZERO);
        check_pause("clock", LEFT, now + 60 * TOGETHER, TOGETHER);
        check_pause("killed", CONNECTED, now - 60 * TOGETHER, TOGETHER);
        let file = file("now");
        drop(ToolTurn(file.try_clone().unwrap()));
        assert!(pause_after(&file).unwrap() > Duration::ZERO);
    }

    #[test]
    fn a_tool_waits_after_a_process_of_the_job_has_ended() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let id = Identity { pid: Pid(child.id()), start: Ns(0) };
        let mut processes = JobProcesses::open(std::iter::once(&id));
        processes.pause();
        child.kill().unwrap();
        let _status = child.wait().unwrap();
        let begun = Instant::now();
        processes.pause();
        assert!(begun.elapsed() >= TOGETHER);
    }

    #[test]
    fn one_tool_has_the_turn() {
        let folder = std::env::temp_dir().join(format!("tool-turn.one.{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let turn = ToolTurn::take(&folder).unwrap();
        let other = File::open(folder.join(FILE)).unwrap();
        assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)));
        drop(turn);
        other.try_lock().unwrap();
        std::fs::remove_dir_all(folder).unwrap();
    }
}
