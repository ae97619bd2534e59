//! Where text goes: a stream, a screen that is drawn over, or a file.
//!
//! A frame is written at once. A reader that went away is no error: there is nobody left to tell.
//! A file that cannot take a whole frame is cut back to the frames before it, and is not touched
//! before there is a frame.

use super::exit::{Exit, Failure};
use super::replace::{self, replace};
use monitor_format::{Paint, Room};
use serde::Serialize;
use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Seek, Write};
use std::path::{Path, PathBuf};

/// Columns where there is no terminal to ask.
const COLUMNS: usize = 80;

/// Whether anybody still reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Yes.
    There,
    /// The pipe is closed.
    Gone,
}

/// Where frames go.
pub enum Output {
    /// Standard output, one after the other.
    Stream,
    /// Standard output, each over the one before.
    Screen(Screen),
    /// A file.
    File(PathBuf, File),
    /// A file that is opened and emptied by its first frame.
    Later(PathBuf),
    /// A file that has its one frame, or what it had before.
    Whole(PathBuf),
}

impl Output {
    /// A file, emptied.
    pub fn file(path: &Path) -> Result<Self, Failure> {
        let file = File::create(path).map_err(|error| refused(path, &error))?;
        Ok(Self::File(path.to_owned(), file))
    }

    /// A file that has what it had until its first frame. One that cannot be written is told now.
    pub fn later(path: &Path) -> Result<Self, Failure> {
        Self::kept(path, Self::Later)
    }

    /// The same with one frame.
    pub fn whole(path: &Path) -> Result<Self, Failure> {
        Self::kept(path, Self::Whole)
    }

    fn kept(path: &Path, then: fn(PathBuf) -> Self) -> Result<Self, Failure> {
        match std::fs::metadata(path) {
            // A pipe is opened once: its reader takes a second opening for the end.
            Ok(it) if !it.is_file() => Self::file(path),
            _ => match replace::possible(path) {
                Ok(()) => Ok(then(path.to_owned())),
                Err(error) => Err(refused(path, &error)),
            },
        }
    }

    /// Whether somebody sees it as it is written.
    pub fn is_seen(&self) -> bool {
        match self {
            Self::Stream | Self::Screen(_) => on_terminal(),
            Self::File(..) | Self::Later(_) | Self::Whole(_) => false,
        }
    }

    /// The room for a frame. A screen may change it between two.
    pub fn room(&self) -> Room {
        let stream = Room { columns: width(), lines: None };
        match self {
            Self::Screen(_) => size().map_or(stream, |(columns, lines)| {
                // The last line stays free for the cursor.
                Room { columns, lines: Some(lines.saturating_sub(1)) }
            }),
            _ => stream,
        }
    }

    /// Writes a frame.
    pub fn put(&mut self, frame: &[u8]) -> Result<Reader, Failure> {
        match self {
            Self::Stream => write_out(frame),
            Self::Screen(screen) => {
                let lines = size().map_or(usize::MAX, |(_, lines)| lines.saturating_sub(1));
                write_out(screen.drawn(frame, lines))
            }
            Self::File(path, file) => append(path, file, frame),
            Self::Later(path) => {
                *self = Self::file(path)?;
                self.put(frame)
            }
            Self::Whole(path) => replaced(path, frame),
        }
    }
}

fn write_out(bytes: &[u8]) -> Result<Reader, Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(Failure::failed(format!("cannot write to standard output: {error}"))),
    }
}

fn append(path: &Path, file: &mut File, frame: &[u8]) -> Result<Reader, Failure> {
    let whole = file.stream_position();
    match file.write_all(frame) {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => {
            // A device has no length to set; it keeps what it took.
            let _ = whole.and_then(|length| file.set_len(length));
            Err(refused(path, &error))
        }
    }
}

fn replaced(path: &Path, frame: &[u8]) -> Result<Reader, Failure> {
    match replace(path, frame) {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(refused(path, &error)),
    }
}

fn refused(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot write {}: {error}", path.display()))
}

/// A terminal that is drawn over; it is as it was when this is dropped.
pub struct Screen {
    buffer: Vec<u8>,
}

const HIDE_CURSOR: &[u8] = b"\x1b[?25l";
const SHOW_CURSOR: &[u8] = b"\x1b[?25h";
/// A line that is too long is cut: broken in two, it would push the others off the screen.
const CUT_LINES: &[u8] = b"\x1b[?7l";
const BREAK_LINES: &[u8] = b"\x1b[?7h";
const CLEAR: &[u8] = b"\x1b[2J";
const HOME: &[u8] = b"\x1b[H";
const CLEAR_LINE_END: &[u8] = b"\x1b[K";
const CLEAR_BELOW: &[u8] = b"\x1b[J";

impl Screen {
    /// Clears the terminal.
    pub fn open() -> Result<Self, Failure> {
        write_out(&[HIDE_CURSOR, CUT_LINES, CLEAR, HOME].concat())?;
        Ok(Self { buffer: Vec::new() })
    }

    /// The frame from the upper left corner, no longer than the screen.
    fn drawn(&mut self, frame: &[u8], lines: usize) -> &[u8] {
        self.buffer.clear();
        self.buffer.extend_from_slice(HOME);
        for line in frame.split_inclusive(|&byte| byte == b'\n').take(lines) {
            self.buffer.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
            self.buffer.extend_from_slice(CLEAR_LINE_END);
            self.buffer.push(b'\n');
        }
        self.buffer.extend_from_slice(CLEAR_BELOW);
        &self.buffer
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Whoever is gone needs no terminal.
        let _ = write_out(&[BREAK_LINES, SHOW_CURSOR].concat());
    }
}

/// Width of the terminal, or what `COLUMNS` says, or 80.
fn width() -> usize {
    let told = || std::env::var("COLUMNS").ok()?.parse().ok();
    size().map(|(columns, _)| columns).or_else(told).unwrap_or(COLUMNS)
}

/// Columns and lines of the terminal.
fn size() -> Option<(usize, usize)> {
    let stdout = std::io::stdout();
    let size = rustix::termios::tcgetwinsize(stdout).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then(|| (size.ws_col.into(), size.ws_row.into()))
}

/// Lines of the terminal, if there is one.
pub fn lines() -> Option<usize> {
    size().map(|(_, lines)| lines)
}

/// Whether standard output is a terminal.
pub fn on_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Colour, for a terminal that is not told otherwise (`NO_COLOR`, `CLICOLOR_FORCE`).
pub fn paint(output: &Output) -> Paint {
    let choice = anstream::AutoStream::choice(&std::io::stdout());
    match (output, choice) {
        (_, anstream::ColorChoice::Never) => Paint::Plain,
        (Output::Stream | Output::Screen(_), _) => Paint::Colour,
        _ => Paint::Plain,
    }
}

/// Prints a text that is known whole.
pub fn print(text: &[u8]) -> Result<Exit, Failure> {
    write_out(text).map(|_| Exit::Ok)
}

/// A line of JSON.
pub fn json(told: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(told).map(|text| text + "\n").map_err(Failure::failed)
}

/// Prints a report beside the data of somebody else. If nobody listens, nothing is lost.
pub fn report(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Says a line beside the data. If nobody listens, nothing is lost.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "monitor: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_drawn_from_the_corner_and_clears_what_was_there() {
        let mut screen = Screen { buffer: Vec::new() };
        assert_eq!(screen.drawn(b"a\nb\nc\n", 2), b"\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J");
        std::mem::forget(screen);
    }

    #[test]
    fn a_full_device_is_an_error_of_one_line() {
        let Ok(mut full) = Output::file(Path::new("/dev/full")) else { return };
        let error = full.put(b"{}\n").expect_err("it is full");
        assert_eq!(error.exit, Exit::Failed);
        assert!(error.message.starts_with("cannot write /dev/full: No space left on device"));
    }
}
