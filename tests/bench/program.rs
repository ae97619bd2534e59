//! A program measured from outside: starts it, reads its costs from `/proc`, ends it.
//!
//! CPU includes all running threads and descendants; none of the measured programs ends threads or
//! children during a measurement.

use crate::load::ids;
use monitor_sys::fd_limit;
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

/// Timeout for a program to exit after SIGTERM.
const EXIT_TIMEOUT: Duration = Duration::from_secs(3);

/// A started program; ended on drop.
pub struct Program {
    child: Child,
    readers: Vec<JoinHandle<()>>,
}

impl Program {
    /// Starts a program and reads its output, because it would block on a full pipe.
    pub fn start(command: &mut Command) -> std::io::Result<Self> {
        fd_limit::restore_in(command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let readers = child.stdout.take().map(drain).into_iter();
        let readers = readers.chain(child.stderr.take().map(drain)).collect();
        Ok(Self { child, readers })
    }

    /// Starts a program on a new terminal of 120 columns and 40 lines; passes its output to
    /// `on_output`.
    pub fn on_terminal(
        command: &mut Command,
        on_output: impl FnMut(&[u8]) + Send + 'static,
    ) -> std::io::Result<Self> {
        fd_limit::restore_in(command);
        let (master, other) = terminal()?;
        let end = || other.try_clone().map(Stdio::from);
        command.stdin(end()?).stdout(end()?).stderr(end()?);
        command.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR");
        let child = command.spawn()?;
        // The command keeps its descriptors open until they are replaced.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let readers = vec![spawn(move || watch(master, on_output))];
        Ok(Self { child, readers })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it is still running.
    pub fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// CPU nanoseconds of all threads of all its processes.
    pub fn cpu_ns(&self) -> f64 {
        self.family().into_iter().map(cpu_ns).sum()
    }

    /// A line of `status`, summed over its processes, in bytes.
    pub fn bytes(&self, key: &str) -> f64 {
        let bytes = |pid| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let line = status.lines().find(|line| line.starts_with(key))?;
            Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? * 1024.0)
        };
        self.family().into_iter().filter_map(bytes).sum()
    }

    /// The process and its descendants.
    fn family(&self) -> Vec<u32> {
        let mut family = vec![self.pid()];
        let mut next = 0;
        while let Some(&pid) = family.get(next) {
            let tasks = format!("/proc/{pid}/task");
            let children = |tid| std::fs::read_to_string(format!("{tasks}/{tid}/children")).ok();
            for children in ids(&tasks).filter_map(children) {
                family.extend(children.split_whitespace().filter_map(|it| it.parse::<u32>().ok()));
            }
            next += 1;
        }
        family
    }
}

impl Drop for Program {
    /// SIGTERM first, so that it can clean up. Children are signalled before the parent is waited
    /// for: later their ids could be reused.
    fn drop(&mut self) {
        for pid in self.family() {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
        }
        let end = Instant::now() + EXIT_TIMEOUT;
        while self.lives() && Instant::now() < end {
            sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
    }
}

fn drain(mut output: impl Read + Send + 'static) -> JoinHandle<()> {
    spawn(move || {
        let _ = std::io::copy(&mut output, &mut std::io::sink());
    })
}

/// Reads the output of the terminal until it is closed.
fn watch(mut master: File, mut on_output: impl FnMut(&[u8])) {
    let mut buffer = [0; 1 << 16];
    while let Ok(n @ 1..) = master.read(&mut buffer) {
        on_output(&buffer[..n]);
    }
}

/// Both ends of a new terminal.
fn terminal() -> std::io::Result<(File, OwnedFd)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let size = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&master, size)?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let other = open(ptsname(&master, Vec::new())?, flags, Mode::empty())?;
    Ok((File::from(master), other))
}

/// CPU nanoseconds of all threads of a process.
pub fn cpu_ns(pid: u32) -> f64 {
    let tasks = format!("/proc/{pid}/task");
    let ran = |tid| {
        let text = std::fs::read_to_string(format!("{tasks}/{tid}/schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    };
    ids(&tasks).filter_map(ran).sum()
}
