//! The terminal: drawn on while this lives, as it was before when it is gone, also after a panic.

use super::draw::draw;
use super::state::State;
use crossterm::cursor::{Hide, Show};
use crossterm::event::{self, Event};
use crossterm::style::Print;
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::{Rect, Size};
use std::io::{self, BufWriter, Stdout, Write};
use std::mem::ManuallyDrop;
use std::sync::Once;
use tokio::sync::mpsc::{Receiver, channel};

/// Bytes of a frame that are written at once.
const FRAME_BYTES: usize = 1 << 16;
/// Events that may wait; who types faster waits himself.
const EVENTS: usize = 256;
/// Buttons and wheel, in coordinates without a limit (xterm, "Mouse Tracking"). Not every
/// movement: each would wake us.
const MOUSE_ON: &str = "\x1b[?1000h\x1b[?1006h";
const MOUSE_OFF: &str = "\x1b[?1006l\x1b[?1000l";

/// A terminal that is drawn on.
pub struct Screen {
    /// Never dropped: it would show the cursor, which `give_back` does, and complain on standard
    /// error where that fails, which is a panic where the terminal is gone.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<BufWriter<Stdout>>>>,
}

impl Screen {
    /// Takes the terminal.
    pub fn open() -> io::Result<Self> {
        mend_after_panic();
        take()?;
        let writer = BufWriter::with_capacity(FRAME_BYTES, io::stdout());
        let terminal = Terminal::new(CrosstermBackend::new(writer)).inspect_err(|_| give_back())?;
        Ok(Self { terminal: ManuallyDrop::new(terminal) })
    }

    /// Columns and lines.
    pub fn size(&self) -> io::Result<Size> {
        self.terminal.size()
    }

    /// Draws what changed.
    pub fn draw(&mut self, state: &State) -> io::Result<()> {
        self.terminal.draw(|frame| draw(state, frame.buffer_mut())).map(drop)
    }

    /// Has the next frame drawn whole.
    pub fn clear(&mut self) -> io::Result<()> {
        // Not `Terminal::clear`: that asks the terminal where its cursor is, and the answer would
        // come in among the keys.
        let size = self.size()?;
        self.terminal.resize(Rect::new(0, 0, size.width, size.height))
    }

    /// Gives the terminal to the shell until it lets us go on.
    pub fn suspend(&mut self) -> io::Result<()> {
        give_back();
        let stopped =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TSTP);
        take()?;
        stopped?;
        self.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, Hide, Print(MOUSE_ON)).inspect_err(|_| give_back())
}

/// Whoever is gone needs no terminal: what fails here has nobody to be told to.
fn give_back() {
    let mut stdout = io::stdout();
    let _ = queue!(stdout, Print(MOUSE_OFF), Show, LeaveAlternateScreen);
    let _ = stdout.flush();
    let _ = disable_raw_mode();
}

/// Has a panic find the terminal as it was, so that its message can be read.
fn mend_after_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
    });
}

/// Keys, mouse and sizes. They are read on a thread of their own: where a terminal was closed in
/// mid-sequence the library waits for the rest, and must not be waited for.
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
