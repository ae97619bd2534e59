//! A terminal for a test: a pair of devices, the program at one end, the test at the other.
//!
//! What the program writes is kept as a terminal would show it. Ended when dropped.

use crate::deadline::until;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Interval at which the reader checks whether to end.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// A terminal with a program on it.
pub struct Terminal {
    child: Child,
    master: Option<File>,
    shown: Arc<Mutex<vt100::Parser>>,
    closed: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    /// Starts `monitor` with these words on a terminal of this size. It is the terminal of the
    /// program's session, so that its end is reported by a signal.
    pub fn start(words: &[&str], size: (u16, u16)) -> Self {
        let mut command = Command::new("setsid");
        Self::run(command.arg("--ctty").arg(env!("CARGO_BIN_EXE_monitor")).args(words), size)
    }

    /// The same of a command that begins a session.
    pub fn run(command: &mut Command, size: (u16, u16)) -> Self {
        let (columns, lines) = cells(size);
        let (master, other) = pair();
        set_size(&master, size);
        let end = || Stdio::from(other.try_clone().expect("a copy"));
        command.stdin(end()).stdout(end()).stderr(end());
        command.env("LC_ALL", "C.UTF-8").env("TERM", "xterm-256color");
        command.env_remove("NO_COLOR").env_remove("MONITOR_BACKEND");
        let child = command.spawn().expect("the program runs");
        // The command keeps its copies until the next one is set.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let shown = Arc::new(Mutex::new(vt100::Parser::new(lines, columns, 0)));
        let closed = Arc::new(AtomicBool::new(false));
        let reader = {
            let (from, into) = (master.try_clone().expect("a copy"), Arc::clone(&shown));
            let closed = Arc::clone(&closed);
            std::thread::spawn(move || keep(from, &into, &closed))
        };
        Self { child, master: Some(master), shown, closed, reader: Some(reader) }
    }

    /// Types.
    pub fn types(&self, keys: &str) {
        let mut master = self.master.as_ref().expect("it is open");
        master.write_all(keys.as_bytes()).expect("the program reads");
    }

    /// Gives it another size.
    pub fn resize(&self, size: (u16, u16)) {
        let (columns, lines) = cells(size);
        self.shown.lock().unwrap().screen_mut().set_size(lines, columns);
        set_size(self.master.as_ref().expect("it is open"), size);
    }

    /// What is seen now.
    pub fn text(&self) -> String {
        self.shown.lock().unwrap().screen().contents()
    }

    /// The same with its colours, as a terminal gets them, down to the last line with a letter.
    pub fn drawn(&self) -> String {
        let shown = self.shown.lock().unwrap();
        let screen = shown.screen();
        let lines = screen.contents().lines().count();
        let rows = screen.rows_formatted(0, screen.size().1.get()).take(lines);
        let rows = rows.map(|row| spaced(&row) + "\x1b[0m");
        rows.collect::<Vec<_>>().join("\n")
    }

    /// Waits until this is seen.
    #[track_caller]
    pub fn shows(&self, wanted: &str) -> String {
        until(|| Some(self.text()).filter(|text| text.contains(wanted)))
    }

    /// The program's id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end.
    #[track_caller]
    pub fn ends(&mut self) -> ExitStatus {
        until(|| self.child.try_wait().expect("it is ours"))
    }

    /// Waits until the terminal is as it was: its first screen, a cursor, no mouse.
    #[track_caller]
    pub fn restored(&self) {
        until(|| {
            let shown = self.shown.lock().unwrap();
            let screen = shown.screen();
            let as_before = !screen.alternate_screen()
                && !screen.hide_cursor()
                && screen.mouse_protocol_mode() == vt100::MouseProtocolMode::None;
            as_before.then_some(())
        });
    }

    /// Whether anything that is seen has a colour.
    pub fn is_coloured(&self) -> bool {
        let shown = self.shown.lock().unwrap();
        let screen = shown.screen();
        let (lines, columns) = screen.size();
        let coloured = |line, column| {
            let cell = screen.cell(line, column);
            cell.is_some_and(|cell| cell.fgcolor() != vt100::Color::Default)
        };
        (0..lines.get()).any(|line| (0..columns.get()).any(|column| coloured(line, column)))
    }

    /// Takes the terminal away from the program.
    pub fn close(&mut self) {
        self.closed.store(true, Ordering::Release);
        self.reader.take().map(JoinHandle::join);
        self.master = None;
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.close();
    }
}

/// A row with spaces where it only moves the cursor on (CUF, `CSI n C`).
fn spaced(row: &str) -> String {
    let mut parts = row.split("\x1b[");
    let mut spaced = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (number, rest) = part.split_at(part.find(|it: char| !it.is_ascii_digit()).unwrap_or(0));
        match rest.strip_prefix('C') {
            Some(rest) => {
                spaced.extend(std::iter::repeat_n(' ', number.parse().unwrap_or(1)));
                spaced += rest;
            }
            None => spaced += &format!("\x1b[{part}"),
        }
    }
    spaced
}

/// Both ends of a new terminal.
fn pair() -> (File, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).expect("a terminal");
    grantpt(&master).and_then(|()| unlockpt(&master)).expect("its other end");
    let name = ptsname(&master, Vec::new()).expect("its name");
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    (File::from(master), open(&name, flags, Mode::empty()).expect("its other end"))
}

fn cells((columns, lines): (u16, u16)) -> (NonZeroU16, NonZeroU16) {
    let some = |cells| NonZeroU16::new(cells).expect("a terminal has cells");
    (some(columns), some(lines))
}

fn set_size(terminal: &File, (ws_col, ws_row): (u16, u16)) {
    let size = Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).expect("it has a size");
}

/// Keeps what the program writes, until the terminal is closed at either end.
fn keep(mut from: File, into: &Mutex<vt100::Parser>, closed: &AtomicBool) {
    let mut buffer = [0; 4096];
    while !closed.load(Ordering::Acquire) {
        let mut fds = [PollFd::new(&from, PollFlags::IN)];
        if !matches!(poll(&mut fds, Some(&LOOK)), Ok(1..)) {
            continue;
        }
        match from.read(&mut buffer) {
            Ok(n @ 1..) => into.lock().unwrap().process(&buffer[..n]),
            _ => return,
        }
    }
}
