//! Outputs of frames: a stream, a screen that is redrawn, or a file.
//!
//! A frame is written at once. A closed pipe is not an error but a state. A file that cannot take a
//! whole frame is truncated to the frames before it; it is not touched before the first frame.

use super::exit::{Exit, Failure};
use super::replace::{self, replace};
use monitor_format::{Paint, Viewport, human};
use monitor_protocol::terminal::json_text;
use serde::Serialize;
use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Seek, Write};
use std::path::{Path, PathBuf};

/// Columns without a terminal.
const COLUMNS: usize = 80;

/// Whether the output still has a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputState {
    /// The output accepts more.
    Open,
    /// The pipe is closed.
    Closed,
}

/// The destination of frames.
pub enum Output {
    /// Standard output, frames one after the other.
    Stream,
    /// A terminal, each frame drawn over the one before.
    Screen(Screen),
    /// A file.
    File(PathBuf, File),
    /// A file that the first frame opens and truncates.
    Deferred(PathBuf),
    /// A file that one frame replaces as a whole.
    Replace(PathBuf),
}

impl Output {
    /// Creates or truncates a file.
    pub fn file(path: &Path) -> Result<Self, Failure> {
        let file = File::create(path).map_err(|error| cannot_write(path, &error))?;
        Ok(Self::File(path.to_owned(), file))
    }

    /// A file that keeps its content until the first frame. Fails now if it cannot be written.
    pub fn deferred(path: &Path) -> Result<Self, Failure> {
        Self::unchanged_until_written(path, Self::Deferred)
    }

    /// A file that one frame replaces. Fails now if it cannot be written.
    pub fn replacing(path: &Path) -> Result<Self, Failure> {
        Self::unchanged_until_written(path, Self::Replace)
    }

    fn unchanged_until_written(path: &Path, then: fn(PathBuf) -> Self) -> Result<Self, Failure> {
        match std::fs::metadata(path) {
            // A pipe is opened only once: its reader would take the first closing for the end.
            Ok(metadata) if !metadata.is_file() => Self::file(path),
            _ => match replace::possible(path) {
                Ok(()) => Ok(then(path.to_owned())),
                Err(error) => Err(cannot_write(path, &error)),
            },
        }
    }

    /// Whether it is a terminal.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Stream | Self::Screen(_) => on_terminal(),
            Self::File(..) | Self::Deferred(_) | Self::Replace(_) => false,
        }
    }

    /// The columns and lines for the next frame. A terminal may be resized between frames.
    pub fn room(&self) -> Viewport {
        let stream = Viewport { columns: width(), lines: None };
        match self {
            Self::Screen(_) => size().map_or(stream, |(columns, lines)| {
                // The last line is left to the cursor.
                Viewport { columns, lines: Some(lines.saturating_sub(1)) }
            }),
            _ => stream,
        }
    }

    /// Writes a frame.
    pub fn put(&mut self, frame: &[u8]) -> Result<OutputState, Failure> {
        match self {
            Self::Stream => write_out(frame),
            Self::Screen(screen) => {
                let lines = size().map_or(usize::MAX, |(_, lines)| lines.saturating_sub(1));
                write_out(screen.redraw(frame, lines))
            }
            Self::File(path, file) => append(path, file, frame),
            Self::Deferred(path) => {
                *self = Self::file(path)?;
                self.put(frame)
            }
            Self::Replace(path) => {
                state_after(replace(path, frame), |error| cannot_write(path, error))
            }
        }
    }
}

fn write_out(bytes: &[u8]) -> Result<OutputState, Failure> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    state_after(written, |error| {
        Failure::failed(format!("cannot write to standard output: {error}"))
    })
}

/// A closed pipe is a state, not an error.
fn state_after(
    written: std::io::Result<()>,
    failure: impl FnOnce(&std::io::Error) -> Failure,
) -> Result<OutputState, Failure> {
    match written {
        Ok(()) => Ok(OutputState::Open),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(OutputState::Closed),
        Err(error) => Err(failure(&error)),
    }
}

fn append(path: &Path, file: &mut File, frame: &[u8]) -> Result<OutputState, Failure> {
    let whole = file.stream_position();
    state_after(file.write_all(frame), |error| {
        // A device cannot be truncated.
        let _ = whole.and_then(|length| file.set_len(length));
        cannot_write(path, error)
    })
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot write {}: {error}", path.display()))
}

/// A terminal that is redrawn. Dropping it restores cursor and line wrapping.
pub struct Screen {
    buffer: Vec<u8>,
}

const HIDE_CURSOR: &[u8] = b"\x1b[?25l";
const SHOW_CURSOR: &[u8] = b"\x1b[?25h";
/// Long lines are cut: wrapped, they would push others off the screen.
const CUT_LINES: &[u8] = b"\x1b[?7l";
const BREAK_LINES: &[u8] = b"\x1b[?7h";
const CLEAR: &[u8] = b"\x1b[2J";
const HOME: &[u8] = b"\x1b[H";
const CLEAR_LINE_END: &[u8] = b"\x1b[K";
const CLEAR_BELOW: &[u8] = b"\x1b[J";

impl Screen {
    /// Clears the terminal and hides the cursor.
    pub fn open() -> Result<Self, Failure> {
        write_out(&[HIDE_CURSOR, CUT_LINES, CLEAR, HOME].concat())?;
        Ok(Self { buffer: Vec::new() })
    }

    /// The frame, drawn from the upper left corner and cut to `lines`.
    fn redraw(&mut self, frame: &[u8], lines: usize) -> &[u8] {
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
        // A closed terminal needs no restoring.
        let _ = write_out(&[BREAK_LINES, SHOW_CURSOR].concat());
    }
}

/// Width of the terminal, else `COLUMNS`, else 80.
fn width() -> usize {
    let from_env = || std::env::var("COLUMNS").ok()?.parse().ok();
    size().map(|(columns, _)| columns).or_else(from_env).unwrap_or(COLUMNS)
}

/// Columns and lines of the terminal.
fn size() -> Option<(usize, usize)> {
    let stdout = std::io::stdout();
    let size = rustix::termios::tcgetwinsize(stdout).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then(|| (size.ws_col.into(), size.ws_row.into()))
}

/// Lines of the terminal; `None` without one.
pub fn lines() -> Option<usize> {
    size().map(|(_, lines)| lines)
}

/// Whether standard output is a terminal.
pub fn on_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Colour for a terminal, unless `NO_COLOR` or `CLICOLOR_FORCE` say otherwise.
pub fn paint(output: &Output) -> Paint {
    let choice = anstream::AutoStream::choice(&std::io::stdout());
    match (output, choice) {
        (_, anstream::ColorChoice::Never) => Paint::Plain,
        (Output::Stream | Output::Screen(_), _) => Paint::Colour,
        _ => Paint::Plain,
    }
}

/// Prints a whole text to standard output.
pub fn print(text: &[u8]) -> Result<Exit, Failure> {
    write_out(text).map(|_| Exit::Ok)
}

/// Formats a value as one line of JSON.
pub fn json(value: &impl Serialize) -> Result<String, Failure> {
    json_text(value).map(|text| text + "\n").map_err(Failure::failed)
}

/// Prints a value as JSON, or as the text that `table` makes.
pub fn report<T: Serialize>(
    value: &T,
    is_json: bool,
    table: impl FnOnce(&T) -> String,
) -> Result<Exit, Failure> {
    let text = if is_json { json(value)? } else { human::escaped_lines(&table(value)) };
    print(text.as_bytes())
}

/// Prints a text to standard error. A closed standard error is ignored.
pub fn print_to_stderr(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Prints a message line to standard error, with the control characters of names escaped.
/// A closed standard error is ignored.
pub fn notice(line: &str) {
    // In one write: others write to the same place.
    let line = format!("monitor: {}\n", human::escaped_text(line));
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_drawn_from_the_corner_and_clears_the_rest() {
        let mut screen = Screen { buffer: Vec::new() };
        assert_eq!(screen.redraw(b"a\nb\nc\n", 2), b"\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J");
        std::mem::forget(screen);
    }

    #[test]
    fn a_full_device_is_an_error_of_one_line() {
        let Ok(mut full) = Output::file(Path::new("/dev/full")) else { return };
        let error = full.put(b"{}\n").expect_err("the device is full");
        assert_eq!(error.exit, Exit::Failed);
        assert!(error.message.starts_with("cannot write /dev/full: No space left on device"));
    }
}
