//! A program that is measured from outside: started, looked at through `/proc`, ended.
//!
//! Its CPU is that of all its threads and of all it has started, as long as they live; none of the
//! programs measured here lets threads or children end while it is measured.

use crate::load::ids;
use monitor_sys::files;
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

/// How long a program may take to end after it was asked to.
const PATIENCE: Duration = Duration::from_secs(3);

/// A started program; ended when dropped.
pub struct Program {
    child: Child,
    readers: Vec<JoinHandle<()>>,
}

impl Program {
    /// Starts it, and reads whatever it prints: with a full pipe it would stand still.
    pub fn start(command: &mut Command) -> std::io::Result<Self> {
        files::leave_limit(command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let readers = child.stdout.take().map(drain).into_iter();
        let readers = readers.chain(child.stderr.take().map(drain)).collect();
        Ok(Self { child, readers })
    }

    /// Starts it on a terminal of its own of 120 columns and 40 lines; gives what it draws to
    /// somebody who looks at it.
    pub fn on_terminal(
        command: &mut Command,
        look: impl FnMut(&[u8]) + Send + 'static,
    ) -> std::io::Result<Self> {
        files::leave_limit(command);
        let (master, other) = terminal()?;
        let end = || other.try_clone().map(Stdio::from);
        command.stdin(end()?).stdout(end()?).stderr(end()?);
        command.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR");
        let child = command.spawn()?;
        // The command keeps its ends until others are set.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let readers = vec![spawn(move || watch(master, look))];
        Ok(Self { child, readers })
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended by itself.
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

    /// Itself and its descendants.
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
    /// First politely, so that it can undo what it has changed; children before their parent is
    /// waited for, because after that their ids could be anybody's.
    fn drop(&mut self) {
        for pid in self.family() {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
        }
        let end = Instant::now() + PATIENCE;
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

/// Reads what is drawn until nobody draws any more.
fn watch(mut master: File, mut look: impl FnMut(&[u8])) {
    let mut buffer = [0; 1 << 16];
    while let Ok(n @ 1..) = master.read(&mut buffer) {
        look(&buffer[..n]);
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

fn cpu_ns(pid: u32) -> f64 {
    let tasks = format!("/proc/{pid}/task");
    let ran = |tid| {
        let text = std::fs::read_to_string(format!("{tasks}/{tid}/schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    };
    ids(&tasks).filter_map(ran).sum()
}
