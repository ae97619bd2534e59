//! The terminal: set up for drawing while this exists, and restored afterwards, even after a panic.

use crossterm::cursor::{Hide, Show};
use crossterm::event::{self, Event};
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue, style::Print};
use ratatui::layout::{Rect, Size};
use ratatui::{Terminal, backend::CrosstermBackend, buffer::Buffer};
use std::io::{self, BufWriter, Stdout, Write};
use std::{mem::ManuallyDrop, sync::Once};
use tokio::sync::mpsc::{Receiver, channel};

/// Size of the write buffer in bytes.
const FRAME_BYTES: usize = 1 << 16;
/// Events that may wait.
const EVENTS: usize = 256;
/// Mouse buttons and wheel, with SGR coordinates (xterm, "Mouse Tracking"). Movements are not
/// reported, because each would wake the loop.
const MOUSE_ON: &str = "\x1b[?1000h\x1b[?1006h";
const MOUSE_OFF: &str = "\x1b[?1006l\x1b[?1000l";

/// A terminal in drawing mode.
pub struct Screen {
    /// Never dropped: its `drop` shows the cursor, which `restore` does, and prints to standard
    /// error if that fails, which panics if the terminal is closed.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<BufWriter<Stdout>>>>,
}

impl Screen {
    /// Sets up the terminal.
    ///
    /// # Errors
    ///
    /// When the terminal refuses.
    pub fn open() -> io::Result<Self> {
        restore_on_panic();
        enter()?;
        let writer = BufWriter::with_capacity(FRAME_BYTES, io::stdout());
        let terminal = Terminal::new(CrosstermBackend::new(writer)).inspect_err(|_| restore())?;
        Ok(Self { terminal: ManuallyDrop::new(terminal) })
    }

    /// Columns and lines.
    pub fn size(&self) -> io::Result<Size> {
        self.terminal.size()
    }

    /// Draws a frame into an empty buffer; what changed is written.
    pub fn draw(&mut self, frame: impl FnOnce(&mut Buffer)) -> io::Result<()> {
        self.terminal.draw(|terminal| frame(terminal.buffer_mut())).map(drop)
    }

    /// Makes the next frame be drawn as a whole.
    pub fn clear(&mut self) -> io::Result<()> {
        // Not `Terminal::clear`, which queries the cursor position: the answer would arrive among
        // the keys.
        let size = self.size()?;
        self.terminal.resize(Rect::new(0, 0, size.width, size.height))
    }

    /// Suspends to the shell (SIGTSTP), and sets up the terminal again afterwards.
    pub fn suspend(&mut self) -> io::Result<()> {
        restore();
        let stopped =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TSTP);
        enter()?;
        stopped?;
        self.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, Hide, Print(MOUSE_ON)).inspect_err(|_| restore())
}

/// Restores the terminal. Errors are ignored: the terminal may be closed.
fn restore() {
    let mut stdout = io::stdout();
    let _ = queue!(stdout, Print(MOUSE_OFF), Show, LeaveAlternateScreen);
    let _ = stdout.flush();
    let _ = disable_raw_mode();
}

/// Restores the terminal before a panic message is printed.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            before(panic);
        }));
    });
}

/// Events of keys, mouse and size. They are read on a separate thread: if the terminal is closed
/// within an escape sequence, the library blocks.
pub fn events() -> Receiver<Event> {
    let (sender, receiver) = channel(EVENTS);
    let _thread = std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    receiver
}
